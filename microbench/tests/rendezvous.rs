//! Ranks that are started by hand, by mpirun and as by srun, and ranks that are killed.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;

use rustix::process::Signal;

use crate::common::pnml::two_steps;
use crate::common::{
    AT_ONCE, Ended, LONG, Running, Scratch, kill, port, probeline, signal, wait_until,
};

const SECRET: &str = "the secret of these tests";

/// The published counts of `fms:2`.
const FMS_2: &str = "3444  16311";

/// Returns the command of a rank of a job of `ranks` that is started by hand.
fn by_hand(command: &[&str], address: &str, rank: u32, ranks: u32) -> Command {
    let (rank, ranks) = (rank.to_string(), ranks.to_string());
    let mut started = probeline(command);
    started.args(["--rendezvous", address, "--rank", &rank, "--ranks", &ranks]);
    started.env("PROBELINE_SECRET", SECRET);
    started
}

fn address() -> String {
    format!("127.0.0.1:{}", port())
}

/// Starts all commands, and waits until all have exited.
fn together(commands: impl IntoIterator<Item = Command>) -> Vec<Ended> {
    let running: Vec<_> = commands.into_iter().map(|mut rank| Running::start(&mut rank)).collect();
    running.into_iter().map(Running::end).collect()
}

/// Checks that rank 0 prints the published counts, and the other ranks nothing.
#[track_caller]
fn all_explored(ranks: Vec<Ended>) {
    let mut printed = ranks.into_iter().map(Ended::printed);
    let report = printed.next().unwrap();
    assert!(report.contains(FMS_2), "{report}");
    assert!(printed.all(|other| other.is_empty()));
}

/// Rank 0, for which the first ranks wait, reads the secret from a file.
#[test]
fn manual_ranks_explore_together() {
    let (address, scratch) = (address(), Scratch::new());
    let file = scratch.file("secret", SECRET);
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let mut first = by_hand(&["explore", "fms:2", "--secret-file", &file], &address, 0, 3);
    first.env_remove("PROBELINE_SECRET");
    let others = [2, 1].map(|rank| by_hand(&["explore", "fms:2"], &address, rank, 3));
    let mut ended = together(others.into_iter().chain([first]));
    ended.reverse();
    all_explored(ended);
}

/// Ranks with different nets would produce counts of neither net; with other names, an invariant would mean other
/// places. Of a tuning file the options are compared, not its path.
#[test]
fn refuses_different_files() {
    let folder = |net: &str, chunk_buckets| {
        let folder = Scratch::new();
        folder.file("m.pnml", net);
        let tuning = probeline::tuning::Tuning { chunk_buckets, ..Default::default() };
        folder.file("tuning.toml", &tuning.to_toml());
        folder
    };
    let (net, command) = (two_steps(1), ["explore", "m.pnml", "--tuning", "tuning.toml"]);
    let here = folder(&net, 16);
    let nets_differ = "with the same net: each rank reads m.pnml itself, and the files differ\n";
    for (there, start, end) in [
        (folder(&two_steps(4), 16), "net is ", nets_differ),
        (folder(&net.replace("\"b\"", "\"d\""), 16), "net is ", nets_differ),
        (folder(&net, 8), "--chunk-buckets is \"16\" here and \"8\" there", ""),
    ] {
        let address = address();
        let started = [&here, &there].into_iter().zip(0..).map(|(folder, rank)| {
            let mut started = by_hand(&command, &address, rank, 2);
            started.current_dir(folder.path("")).args(["--table-size", "64KiB"]);
            started
        });
        let ended = together(started);
        assert!(ended.iter().all(|rank| rank.took < AT_ONCE), "{ended:?}");
        for (said, other) in ended.into_iter().map(Ended::failed_in_one_line).zip([1, 0]) {
            let start = if other == 0 { start.split('"').next().unwrap() } else { start };
            let expected = format!("rank {other} has other parameters: {start}");
            assert!(said.contains(&expected) && said.ends_with(end), "{said}");
        }
    }
}

/// mpirun gives ranks neither an address nor a secret. `exchange/tests/served.rs` has other launchers.
#[test]
fn open_mpi_starts_ranks() {
    let launched = |ranks: &str, arguments: &[&str]| {
        // Two mpiruns that start at the same time in one directory conflict.
        let scratch = Scratch::new();
        let mut command = Command::new("mpirun.openmpi");
        command.env("TMPDIR", scratch.path(""));
        // Tests may run as root, and on fewer cores than ranks.
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", ranks]);
        Running::start(command.arg(env!("CARGO_BIN_EXE_probeline")).args(arguments)).end()
    };
    let report = launched("2", &["explore", "fms:2"]).printed();
    assert!(report.contains(FMS_2) && report.contains("shm, 2 ranks"), "{report}");
    // mpirun binds each rank to a core before the command starts.
    let cores = thread::available_parallelism().unwrap().get();
    assert!(cores < 2 || !report.contains("some share"), "{report}");
    let latency = ["bench-latency", "--ops", "200", "--table-size", "1MiB", "-C", "8"];
    let asked = [&latency[..], &["--transport", "ucx", "--exchange", "pmix"]].concat();
    assert!(launched("3", &asked).printed().contains("ucx, 3 ranks"));
    for (options, expected) in [
        (["--exchange", "tcp"], "--rendezvous HOST:PORT"),
        (["--transport", "sim"], "the simulator has all ranks in one process"),
    ] {
        let ended = launched("2", &[&["explore", "fms:2"][..], &options].concat());
        assert!(ended.code != Some(0) && ended.stderr.contains(expected), "{ended:?}");
    }
}

/// Starts a process with the variables that srun sets for the tasks of a step; Slurm itself is not
/// needed.
fn as_srun_does(rank: &str, arguments: &[&str]) -> Command {
    let mut command = probeline(arguments);
    command.env("PROBELINE_SECRET", SECRET).envs([
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", rank),
        ("SLURM_LOCALID", rank),
        ("SLURM_NODEID", "0"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_STEP_NUM_TASKS", "2"),
    ]);
    command
}

#[test]
fn slurm_tasks_explore_together() {
    let address = address();
    let arguments = ["explore", "fms:2", "--rendezvous", &address];
    all_explored(together(["0", "1"].map(|rank| as_srun_does(rank, &arguments))));

    // Without an address, the error of each task names the task.
    let said = together([as_srun_does("1", &["explore", "fms:2"])]).remove(0).failed();
    assert!(said.starts_with("probeline, rank 1: srun started this"), "{said}");
    // A number of ranks other than the launcher's is an error.
    let arguments = [&arguments[..], &["--ranks", "3"]].concat();
    let said = together([as_srun_does("0", &arguments)]).remove(0).failed();
    assert!(said.contains("leave out --ranks"), "{said}");
}

/// Returns whether a process has mapped the memory of all `ranks`, so that they have met.
fn reaches(pid: u32, ranks: usize) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("memfd:probeline")).count() >= ranks
}

#[test]
fn spawned_job_exits_after_kill() {
    let scratch = Scratch::new();
    let reads = scratch.path("reads.fa");
    fs::write(&reads, format!(">one\n{}\n", "GATTACACCGTA".repeat(100_000))).unwrap();
    let kmers = [&["kmers"][..], &[&*reads; 500]].concat();
    let bale = ["bale", "triangles", "--degree", "40", "--aggregated"];
    for (command, victim, after_ms) in
        [(&LONG[..], 0, 305), (&LONG, 1, 300), (&kmers, 1, 100), (&bale, 2, 100)]
    {
        let job = Running::start(&mut probeline(&[command, &["--ranks", "3"]].concat()));
        let pid = |rank| if rank == 0 { Some(job.pid()) } else { job.pid_of_rank(rank) };
        let all_reach = || (0..3).all(|rank| pid(rank).is_some_and(|pid| reaches(pid, 3)));
        assert!(wait_until(AT_ONCE, all_reach));
        thread::sleep(Duration::from_millis(after_ms));
        let victim_pid = pid(victim).unwrap();
        kill(victim_pid);
        let ended = job.end();
        // If rank 0 is killed, the other ranks are killed with it, and may print an error first.
        assert_eq!(ended.code, if victim == 0 { None } else { Some(1) }, "{ended:?}");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(
            victim == 0 || lines.iter().any(|line| line.starts_with("probeline: ")),
            "{lines:?}"
        );
        for line in lines {
            assert!(line.contains(&format!("owner {victim} died or left")), "{line}");
        }
    }
}

/// A job with a stopped rank reports that rank and leaves no process behind.
#[test]
fn stopped_rank_ends_job() {
    // The limit is longer than working ranks wait for each other on a busy machine.
    let job =
        Running::start(&mut probeline(&[&LONG[..], &["--collective-timeout", "15"]].concat()));
    let reaches = |rank| job.pid_of_rank(rank).is_some_and(|pid| reaches(pid, 2));
    assert!(wait_until(AT_ONCE, || reaches(1)));
    signal(job.pid_of_rank(1).unwrap(), Signal::STOP);
    let ended = job.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("did not arrive within 15 s"), "{ended:?}");
}
