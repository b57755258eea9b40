//! Tests of jobs whose ranks are started by hand, by mpirun, by mpiexec and as by srun, and of
//! ranks that are killed.

use core::time::Duration;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::common::pnml::two_steps;
use crate::common::{AT_ONCE, Ended, Running, Scratch, kill, port, probeline, stop, wait_until};

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

#[test]
fn manual_ranks_explore_together() {
    let address = address();
    // The first ranks wait for rank 0.
    let ranks = [2, 1, 0].map(|rank| by_hand(&["explore", "fms:2"], &address, rank, 3));
    let mut ended = together(ranks);
    ended.reverse();
    all_explored(ended);
}

#[test]
fn reads_secret_from_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let (address, scratch) = (address(), Scratch::new());
    let file = scratch.file("secret", SECRET);
    let command = ["explore", "fms:2", "--secret-file", &file];
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let said = together([by_hand(&command, &address, 0, 2)]).remove(0).failed_in_one_line();
    assert!(said.contains(&format!("chmod 600 {file}")), "{said}");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut from_file = by_hand(&command, &address, 0, 2);
    from_file.env_remove("PROBELINE_SECRET");
    all_explored(together([from_file, by_hand(&["explore", "fms:2"], &address, 1, 2)]));
}

/// Of a tuning file the options are compared, not its path.
#[test]
fn names_first_differing_parameter() {
    let folders = [16, 8].map(|chunk_buckets| {
        let folder = Scratch::new();
        let tuning = probeline::tuning::Tuning { chunk_buckets, ..Default::default() };
        folder.file("tuning.toml", &tuning.to_toml());
        folder
    });
    let base = ["explore", "fms:2", "--table-size", "2MiB", "--tuning", "tuning.toml"];
    let other_model = ["explore", "fms:3", "--table-size", "2MiB", "--tuning", "tuning.toml"];
    let cases = [
        (&other_model[..], 0, "model is \"fms:2\" here and \"fms:3\" there"),
        (&["roundtrips"], 0, "command is \"explore\" here and \"roundtrips\" there"),
        (&base, 1, "--chunk-buckets is \"16\" here and \"8\" there"),
    ];
    for (theirs, folder, expected) in cases {
        let ranks = [(&base[..], Some(&folders[0])), (theirs, Some(&folders[folder]))];
        let [said, _] = errors(by_hand_in(&ranks));
        assert!(said.contains(&format!("rank 1 has other parameters: {expected}")), "{said}");
    }
}

/// Starts the ranks of a job, each with its own command and working folder.
fn by_hand_in(ranks: &[(&[&str], Option<&Scratch>)]) -> Vec<Ended> {
    let (address, size) = (address(), u32::try_from(ranks.len()).unwrap());
    let start = |(rank, (command, folder)): (u32, &(&[&str], Option<&Scratch>))| {
        let mut started = by_hand(command, &address, rank, size);
        if let Some(folder) = folder {
            started.current_dir(folder.path(""));
        }
        started
    };
    together((0..).zip(ranks).map(start))
}

/// Returns the errors of two ranks that refused to meet.
#[track_caller]
fn errors(ended: Vec<Ended>) -> [String; 2] {
    let [first, second] = ended.try_into().unwrap();
    assert!(first.took < AT_ONCE && second.took < AT_ONCE);
    [first.failed_in_one_line(), second.failed_in_one_line()]
}

/// Creates a folder with the file `m.pnml`: a net with an arc of this weight.
fn with_net(weight: u32) -> Scratch {
    let folder = Scratch::new();
    folder.file("m.pnml", &two_steps(weight));
    folder
}

const M_PNML: &[&str] = &["explore", "m.pnml", "--table-size", "64KiB"];

/// The end of the error of ranks with different nets.
const NETS_DIFFER: &str = "with the same net: each rank reads m.pnml itself, and the files differ";

/// Ranks with different nets would produce counts of neither net; with other names, an invariant would mean other
/// places.
#[test]
fn refuses_different_nets() {
    let folders = [with_net(1), with_net(4), with_net(1)];
    let renamed = two_steps(1).replace("\"b\"", "\"d\"");
    folders[2].file("m.pnml", &renamed);
    for (folder, states) in folders.iter().zip(["231", "66"]) {
        let report = by_hand_in(&[(M_PNML, Some(folder)); 2]).remove(0).printed();
        assert!(report.starts_with(&format!("m.pnml: {states} states")), "{report}");
    }
    for other in &folders[1..] {
        for said in errors(by_hand_in(&[(M_PNML, Some(&folders[0])), (M_PNML, Some(other))])) {
            assert!(said.contains(" has other parameters: net is "), "{said}");
            assert!(said.trim_end().ends_with(NETS_DIFFER), "{said}");
        }
    }
}

/// The names of mpirun and mpiexec, and their Debian packages.
const OPEN_MPI: [&str; 2] = ["mpirun.openmpi", "openmpi-bin"];
const MPICH: [&str; 2] = ["mpiexec.hydra", "mpich"];

fn program([name, package]: [&str; 2]) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|directory| directory.join(name));
    found
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no {name}: apt-get install --no-install-recommends {package}"))
}

/// If ranks exit at once, `mpiexec` of MPICH 4.0 may die of SIGPIPE and lose their output: 3 times
/// in 600 runs.
const TRIES: usize = 5;

fn launched(launcher: [&str; 2], ranks: &str, arguments: &[&str]) -> Ended {
    let mut ended = launched_once(launcher, ranks, arguments);
    for _ in 1..TRIES {
        if ended.signal != Some(Signal::PIPE.as_raw()) || launcher == OPEN_MPI {
            break;
        }
        eprintln!("mpiexec died of SIGPIPE, once more");
        ended = launched_once(launcher, ranks, arguments);
    }
    ended
}

fn launched_once(launcher: [&str; 2], ranks: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program(launcher));
    // Two mpiruns that start at the same time in one directory conflict.
    let scratch = Scratch::new();
    command.env("TMPDIR", scratch.path(""));
    if launcher == OPEN_MPI {
        // Tests may run as root, and on fewer cores than ranks.
        command.args(["--allow-run-as-root", "--oversubscribe"]);
    }
    command.args(["-n", ranks, env!("CARGO_BIN_EXE_probeline")]).args(arguments);
    Running::start(&mut command).end()
}

/// Starts ranks without an address and a secret. `exchange` is the service of the launcher.
fn launcher_starts_ranks(launcher: [&str; 2], exchange: &str) {
    let report = launched(launcher, "2", &["explore", "fms:2"]).printed();
    assert!(report.contains(FMS_2) && report.contains("shm, 2 ranks"), "{report}");
    // mpirun binds each rank to a core before the command starts; mpiexec does not.
    let cores = thread::available_parallelism().unwrap().get();
    assert!(cores < 2 || !report.contains("some share"), "{report}");
    let latency = ["bench-latency", "--ops", "200", "--table-size", "1MiB", "-C", "8"];
    let asked = [&latency[..], &["--transport", "ucx", "--exchange", exchange]].concat();
    let report = launched(launcher, "3", &asked).printed();
    assert!(report.contains("ucx, 3 ranks"), "{report}");

    for (options, expected) in [
        (["--exchange", "tcp"], "--rendezvous HOST:PORT"),
        (["--transport", "sim"], "the simulator has all ranks in one process"),
    ] {
        let ended = launched(launcher, "2", &[&["explore", "fms:2"][..], &options].concat());
        assert!(ended.code != Some(0) && ended.stderr.contains(expected), "{ended:?}");
    }
}

#[test]
fn open_mpi_starts_ranks() {
    launcher_starts_ranks(OPEN_MPI, "pmix");
}

#[test]
fn mpich_starts_ranks() {
    launcher_starts_ranks(MPICH, "pmi");
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

/// Runs for minutes, alternating between finding, clearing, drawing keys and waiting for others.
const LONG: [&str; 7] =
    ["bench-throughput", "--rounds", "999", "--ops", "100000", "--table-size", "8MiB"];

/// Returns whether a process has mapped the memory of all `ranks`, so that the meeting is over.
fn reaches(pid: u32, ranks: usize) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("memfd:probeline")).count() >= ranks
}

/// Returns the names of this project's named shared memory, which a job could leave behind.
fn named_memory() -> Vec<String> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("probeline")).collect()
}

#[test]
fn all_name_killed_rank() {
    // On two cores, ranks 0 and 2 share one, so that rank 1 mostly waits for both when rank 2 is
    // killed. It then sees rank 0 exit as well.
    for (victim, after_ms) in [(1, 300), (0, 317), (2, 331)] {
        let address = address();
        let ranks = (0..3).map(|rank| Running::start(&mut by_hand(&LONG, &address, rank, 3)));
        let mut ranks: Vec<_> = ranks.collect();
        assert!(wait_until(AT_ONCE, || ranks.iter().all(|rank| reaches(rank.pid(), 3))));
        thread::sleep(Duration::from_millis(after_ms));
        let victim_rank = ranks.remove(victim);
        let killed = Instant::now();
        kill(victim_rank.pid());
        for rank in ranks {
            let said = rank.end().failed_in_one_line();
            assert!(said.contains(&format!("owner {victim} died or left")), "{said}");
        }
        // The ranks detect the loss by their connections, long before the 600 s limit of a
        // collective call.
        assert!(killed.elapsed() < AT_ONCE);
        assert_eq!(victim_rank.end().code, None);
        assert_eq!(named_memory(), [""; 0]);
    }
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
        assert_eq!(named_memory(), [""; 0]);
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
    stop(job.pid_of_rank(1).unwrap());
    let ended = job.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("did not arrive within 15 s"), "{ended:?}");
}
