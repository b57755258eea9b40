//! Jobs whose ranks mpirun of Open MPI or mpiexec of MPICH has started. They meet through its server, PMIx or
//! PMI-1, or at a given address.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::common::{Launched, MPICH, OPEN_MPI, SECOND, job, launch, launched, port};
use rustix::process::{Signal, kill_process};

/// The time for which a test waits for an expected event, even on a busy machine. A launcher needs
/// some seconds to detect that a rank has exited, to terminate the others and to exit.
const EVENT_LIMIT: Duration = Duration::from_secs(60);

fn jobs(launcher: [&str; 2], ranks: u32, arguments: &[&str]) -> Launched {
    let job = job();
    launched(launcher, ranks, &[&[job.to_str().unwrap()], arguments].concat())
}

#[track_caller]
fn assert_success(ended: &Launched) {
    assert!(ended.success, "{ended:?}");
    assert!(ended.ranks.iter().all(|output| output.ends_with("status 0\n")), "{ended:?}");
}

/// Each rank sees all others. No thread of libpmix remains.
#[test]
fn meets_under_launchers() {
    let address = format!("127.0.0.1:{}", port());
    for launcher in [OPEN_MPI, MPICH] {
        let given = ["--auto", "7", "--rendezvous", &address];
        for (ranks, rendezvous) in [(4, &[][..]), (3, &given)] {
            let steps = [rendezvous, &["join", "threads", "gather", "barrier"]].concat();
            let ended = jobs(launcher, ranks, &steps);
            assert_success(&ended);
            for rank in 0..ranks {
                let line = format!("rank {rank} of {ranks} sees {ranks} processes");
                let of_rank = |output: &&String| output.contains(&line);
                let output = ended.ranks.iter().find(of_rank).expect(&line);
                assert!(output.contains("has 1 threads\n"), "{output}");
            }
        }
    }
    // The server keeps values in a hash table instead of shared memory.
    let job = job();
    let hash = ["env", "PMIX_MCA_gds=hash", job.to_str().unwrap(), "join", "gather"];
    assert_success(&launched(OPEN_MPI, 2, &hash));
}

/// Checks that the launcher terminates the other ranks if rank 1 takes step `end`. A rank that waits in a
/// call may report the loss before.
fn ends_job_after_loss(launcher: [&str; 2], ends: &[&str]) {
    for (end, others) in ends.iter().map(|end| (*end, "wait")).chain([("1:exit=0", "barrier")]) {
        let ended = jobs(launcher, 3, &["join", "gather", end, others, "wait"]);
        let good = ended.ranks.iter().filter(|output| output.ends_with("status 0\n"));
        assert!(good.count() <= 1, "{end}: {ended:?}");
        let has = |text: &str| ended.ranks.iter().any(|output| output.contains(text));
        assert!(!has(&format!("{others}: good")), "{end}: {ended:?}");
        // mpiexec may terminate the other ranks before they report the loss.
        let noticed = has("barrier: owner 1 died or left") || launcher == MPICH;
        assert!(noticed || others != "barrier", "{ended:?}");
    }
}

#[test]
fn ends_mpirun_job_after_loss() {
    // mpirun accepts the exit status 0 of a rank that has finalized PMIx.
    ends_job_after_loss(OPEN_MPI, &["1:kill", "1:exit=3"]);
}

#[test]
fn ends_mpiexec_job_after_loss() {
    ends_job_after_loss(MPICH, &["1:kill", "1:exit=3", "1:exit=0"]);
}

#[test]
fn tolerates_leaving_rank() {
    // Rank 0 sleeps longer than a launcher takes to terminate the job of a lost rank.
    let steps = ["join", "barrier", "1:leave", "1:exit=0", "0:sleep=2000", "0:leave"];
    for launcher in [OPEN_MPI, MPICH] {
        assert_success(&jobs(launcher, 2, &steps));
    }
}

/// Rank 1 does not join.
#[test]
fn bounds_wait_for_rank() {
    for (launcher, server) in [(OPEN_MPI, "PMIx"), (MPICH, "PMI")] {
        let ended = jobs(launcher, 2, &["--limit", "1", "1:wait", "join"]);
        let output = format!("rank 0 join: not every rank joined by {server} within 1 s");
        assert!(ended.ranks.iter().any(|rank| rank.contains(&output)), "{ended:?}");
        assert!(!ended.success, "{ended:?}");
    }
}

/// A call of libpmix does not return if its server does not answer.
#[test]
fn bounds_wait_for_server() {
    for launcher in [OPEN_MPI, MPICH] {
        let sign = std::env::temp_dir().join(format!("probeline-sign-{}", std::process::id()));
        let (job, until) = (job(), format!("until={}", sign.display()));
        let steps = [job.to_str().unwrap(), "--limit", "1", "until=/", &until, "join"];
        let launching = launch(launcher, 2, &steps);
        let happened = |what: &str| {
            let until = Instant::now() + EVENT_LIMIT;
            while launching.outputs().iter().filter(|output| output.contains(what)).count() < 2 {
                assert!(Instant::now() < until, "no {what}: {:?}", launching.outputs());
                thread::sleep(Duration::from_millis(5));
            }
        };
        happened("until=/: good");
        let servers = launching.servers();
        for server in &servers {
            kill_process(*server, Signal::STOP).unwrap();
        }
        std::fs::write(&sign, "").unwrap();
        let stopped = Instant::now();
        happened("status 1");
        let took = stopped.elapsed();
        std::fs::remove_file(sign).unwrap();
        // The exit of the servers is not tested: mpirun 4.1 sometimes does not exit.
        for server in servers {
            kill_process(server, Signal::CONT).unwrap();
        }
        for output in launching.outputs() {
            assert!(output.contains("join: not every rank joined by PMI"), "{output}");
        }
        assert!(took >= SECOND, "{took:?}");
    }
}

/// Ranks that cannot use the server of their launcher say what to give.
#[test]
fn advises_on_missing_server() {
    let job = job();
    let hidden = ["env", "-u", "PMIX_NAMESPACE", "-u", "PMI_FD", job.to_str().unwrap(), "join"];
    for (launcher, other, advice, example) in [
        (MPICH, "pmix", "srun --mpi=pmix", "mpiexec ... COMMAND"),
        (OPEN_MPI, "pmi", "start it with mpiexec of MPICH", "mpirun -x PROBELINE_SECRET"),
    ] {
        let ended = jobs(launcher, 1, &["--exchange", other, "join"]);
        assert!(ended.ranks[0].contains(advice), "{ended:?}");
        let own = if other == "pmix" { "pmi" } else { "pmix" };
        assert_success(&jobs(launcher, 2, &["--exchange", own, "join", "gather"]));
        for output in launched(launcher, 2, &hidden).ranks {
            assert!(output.contains("serves neither PMIx nor PMI"), "{output}");
            assert!(output.contains("give all ranks --rendezvous HOST:PORT"), "{output}");
            assert!(output.contains(example) && output.ends_with("status 1\n"), "{output}");
        }
        for output in jobs(launcher, 2, &["--ranks", "2", "join"]).ranks {
            assert!(output.contains("each was asked to start a job of its own"), "{output}");
        }
    }
}
