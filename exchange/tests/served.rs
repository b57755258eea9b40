//! Jobs that meet by the server of their launcher: PMIx of Open MPI's mpirun, PMI of MPICH's mpiexec.

#[allow(dead_code, reason = "shared with the other tests")]
mod common;

use core::time::Duration;
use std::thread;
use std::time::Instant;

use common::{Launched, MPICH, OPEN_MPI, SECOND, job, launch, launched};
use rustix::process::{Signal, kill_process};

/// How long a test waits for an expected event, even on a busy machine. A launcher needs some
/// seconds to notice that a rank ended, to end the others and to exit.
const HAPPENS: Duration = Duration::from_secs(60);

fn jobs(launcher: [&str; 2], ranks: u32, arguments: &[&str]) -> Launched {
    let job = job();
    launched(launcher, ranks, &[&[job.to_str().unwrap()], arguments].concat())
}

#[track_caller]
fn all_good(ended: &Launched) {
    assert!(ended.success, "{ended:?}");
    assert!(ended.ranks.iter().all(|said| said.ends_with("status 0\n")), "{ended:?}");
}

/// All-gathers of growing and shrinking sizes.
const SIZES: [&str; 6] = ["give=0", "give=1", "give=512", "give=65536", "give=3", "give=0"];

fn gathers_of_changing_sizes(launcher: [&str; 2]) {
    for ranks in [2, 4] {
        let steps =
            [&["join", "gather"], &SIZES[..], &["gives=2000", "barriers=200", "barrier"]].concat();
        let ended = jobs(launcher, ranks, &steps);
        all_good(&ended);
        for rank in 0..ranks {
            let line = format!("rank {rank} of {ranks} sees {ranks} processes");
            assert!(ended.ranks.iter().any(|said| said.contains(&line)), "{ended:?}");
        }
    }
}

#[test]
fn pmix_gathers_of_changing_sizes_arrive_whole() {
    gathers_of_changing_sizes(OPEN_MPI);
}

#[test]
fn pmi_gathers_of_changing_sizes_arrive_whole() {
    gathers_of_changing_sizes(MPICH);
}

/// A server that keeps values in a hash table instead of shared memory.
#[test]
fn meeting_by_pmix_does_not_depend_on_where_the_server_keeps_values() {
    let job = job();
    let hash = ["env", "PMIX_MCA_gds=hash", job.to_str().unwrap(), "join", "gather"];
    all_good(&launched(OPEN_MPI, 2, &hash));
}

/// No thread of libpmix remains after the ranks have met.
#[test]
fn nothing_runs_beside_a_job_that_has_met() {
    for launcher in [OPEN_MPI, MPICH] {
        for said in jobs(launcher, 2, &["join", "threads"]).ranks {
            assert!(said.contains("has 1 thread\n"), "{said}");
        }
    }
}

/// Rank 1 ends in this way after the first gather, while the others take step `others`.
fn a_rank_ends(launcher: [&str; 2], end: &str, others: &str) -> Launched {
    let ended = jobs(launcher, 3, &["join", "gather", end, others, "wait"]);
    let good = ended.ranks.iter().filter(|said| said.ends_with("status 0\n"));
    assert!(good.count() <= 1, "{end}: {ended:?}");
    let passed = ended.ranks.iter().any(|said| said.contains(&format!("{others}: good")));
    assert!(!passed, "{end}: {ended:?}");
    ended
}

/// The launcher ends the others; a rank that waits in a call may notice the loss first.
fn the_others_of_a_lost_rank_end(launcher: [&str; 2], ends: &[&str]) {
    for end in ends {
        a_rank_ends(launcher, end, "wait");
    }
    for call in ["barrier", "give=8"] {
        let ended = a_rank_ends(launcher, "1:exit=0", call);
        let named = format!("{call}: owner 1 died or left");
        let noticed = ended.ranks.iter().any(|said| said.contains(&named));
        // mpiexec ends the others as fast.
        assert!(noticed || launcher == MPICH, "{ended:?}");
    }
}

#[test]
fn under_mpirun_the_others_of_a_lost_rank_end() {
    // A rank that has finalized PMIx may end with status 0.
    the_others_of_a_lost_rank_end(OPEN_MPI, &["1:kill", "1:exit=3"]);
}

#[test]
fn under_mpiexec_the_others_of_a_lost_rank_end() {
    the_others_of_a_lost_rank_end(MPICH, &["1:kill", "1:exit=3", "1:exit=0"]);
}

fn a_rank_that_leaves_disturbs_no_other(launcher: [&str; 2]) {
    // Longer than a launcher takes to end the others of a lost rank.
    let steps = ["join", "barrier", "1:leave", "1:exit=0", "0:sleep=2000", "0:leave"];
    all_good(&jobs(launcher, 2, &steps));
}

#[test]
fn a_rank_that_leaves_mpirun_is_not_lost() {
    a_rank_that_leaves_disturbs_no_other(OPEN_MPI);
}

#[test]
fn a_rank_that_leaves_mpiexec_is_not_lost() {
    a_rank_that_leaves_disturbs_no_other(MPICH);
}

/// Rank 1 runs, but makes no call, and then does not join.
fn waiting_is_bounded(launcher: [&str; 2], server: &str) {
    for call in ["barrier", "give=8"] {
        let ended = jobs(launcher, 2, &["--collective-limit", "1", "join", "1:wait", call]);
        let said = format!("rank 0 {call}: owner 1 did not arrive within 1 s");
        assert!(ended.ranks.iter().any(|rank| rank.contains(&said)), "{ended:?}");
        assert!(!ended.success, "{ended:?}");
    }
    let ended = jobs(launcher, 2, &["--limit", "1", "1:wait", "join"]);
    let said = format!("rank 0 join: not every rank joined by {server} within 1 s");
    assert!(ended.ranks.iter().any(|rank| rank.contains(&said)), "{ended:?}");
    assert!(!ended.success, "{ended:?}");
}

#[test]
fn waiting_for_a_rank_that_never_comes_is_bounded_under_mpirun() {
    waiting_is_bounded(OPEN_MPI, "PMIx");
}

#[test]
fn waiting_for_a_rank_that_never_comes_is_bounded_under_mpiexec() {
    waiting_is_bounded(MPICH, "PMI");
}

/// A call of libpmix never returns if its server does not answer.
#[test]
fn waiting_for_a_server_that_has_stopped_is_bounded() {
    for launcher in [OPEN_MPI, MPICH] {
        let sign = std::env::temp_dir().join(format!("probeline-sign-{}", std::process::id()));
        let (job, until) = (job(), format!("until={}", sign.display()));
        let steps = [job.to_str().unwrap(), "--limit", "1", "until=/", &until, "join"];
        let launching = launch(launcher, 2, &steps);
        let happened = |what: &str| {
            let until = Instant::now() + HAPPENS;
            while launching.said().iter().filter(|said| said.contains(what)).count() < 2 {
                assert!(Instant::now() < until, "no {what}: {:?}", launching.said());
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
        // Their own end is not tested: mpirun 4.1 sometimes does not end.
        for server in servers {
            kill_process(server, Signal::CONT).unwrap();
        }
        for said in launching.said() {
            assert!(said.contains("join: not every rank joined by PMI"), "{said}");
        }
        assert!(took >= SECOND, "{took:?}");
    }
}

#[test]
fn ranks_with_different_parameters_name_the_difference() {
    let script = r#"exec "$0" --parameters "c=32 m=${PMIX_RANK:-$PMI_RANK}" join"#;
    for launcher in [OPEN_MPI, MPICH] {
        let ended = launched(launcher, 2, &["sh", "-c", script, job().to_str().unwrap()]);
        let said = |rank: u32, peer: u32| {
            let said = format!(
                "rank {rank} join: rank {peer} has other parameters: m is \"{rank}\" here and \
                 \"{peer}\" there"
            );
            ended.ranks.iter().any(|rank| rank.contains(&said))
        };
        // The launcher may end the second rank before it has printed its error.
        let one_was_ended = !ended.ranks.iter().all(|rank| rank.contains("status"));
        let (first, second) = (said(0, 1), said(1, 0));
        assert!(first && second || one_was_ended && (first || second), "{ended:?}");
    }
}

#[test]
fn different_calls_are_an_error() {
    for launcher in [OPEN_MPI, MPICH] {
        for (other, bytes) in [("1:barrier", 0), ("1:give=9", 9)] {
            let ended = jobs(launcher, 2, &["join", "0:give=8", other, "1:wait"]);
            let said = format!("owner 1 gave {bytes} bytes where 8 were expected");
            assert!(ended.ranks.iter().any(|rank| rank.contains(&said)), "{ended:?}");
        }
    }
}

#[test]
fn a_server_that_the_launcher_does_not_have_is_an_error_with_advice() {
    let ended = jobs(MPICH, 1, &["--exchange", "pmix", "join"]);
    assert!(ended.ranks[0].contains("srun --mpi=pmix"), "{ended:?}");
    let ended = jobs(OPEN_MPI, 1, &["--exchange", "pmi", "join"]);
    assert!(ended.ranks[0].contains("start this with mpiexec of MPICH"), "{ended:?}");
    all_good(&jobs(MPICH, 2, &["--exchange", "pmi", "join", "gather"]));
    all_good(&jobs(OPEN_MPI, 2, &["--exchange", "pmix", "join", "gather"]));
}
