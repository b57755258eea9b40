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

/// The options in a tuning file are compared, not the path of the file.
#[test]
fn names_option_of_differing_tunings() {
    let [first, second] = [16, 8].map(|chunk_buckets| {
        let folder = Scratch::new();
        let tuning = probeline::tuning::Tuning { chunk_buckets, ..Default::default() };
        folder.file("tuning.toml", &tuning.to_toml());
        folder
    });
    let command = ["explore", "fms:2", "--table-size", "1MiB", "--tuning", "tuning.toml"];
    let [said, _] = errors(by_hand_in(&[(&command, Some(&first)), (&command, Some(&second))]));
    assert!(said.contains("--chunk-buckets is \"16\" here and \"8\" there"), "{said}");
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

#[test]
fn explains_missing_secret() {
    let mut rank = by_hand(&["explore", "fms:2"], &address(), 0, 2);
    rank.env_remove("PROBELINE_SECRET");
    let said = together([rank]).remove(0).failed_in_one_line();
    assert!(said.contains("set PROBELINE_SECRET for all ranks"), "{said}");
}

#[test]
fn names_first_differing_parameter() {
    let base = ["explore", "fms:2", "--table-size", "2MiB"];
    let cases = [
        (&["explore", "fms:3", "--table-size", "2MiB"][..], "model", "\"fms:2\"", "\"fms:3\""),
        (&["explore", "fms:2", "--table-size", "1MiB"], "--table-size", "\"2MiB\"", "\"1MiB\""),
        (&["roundtrips"], "command", "\"explore\"", "\"roundtrips\""),
    ];
    for (theirs, field, here, there) in cases {
        let said = errors(by_hand_in(&[(&base, None), (theirs, None)]));
        for (said, other, mine, theirs) in [(&said[0], 1, here, there), (&said[1], 0, there, here)]
        {
            let expected = format!(
                "rank {other} has other parameters: {field} is {mine} here and {theirs} there"
            );
            assert!(said.contains(&expected), "{said}");
        }
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

/// Ranks with different nets would produce counts of neither net.
#[test]
fn refuses_different_nets() {
    let folders = [with_net(1), with_net(4)];
    for (folder, states) in folders.iter().zip(["231", "66"]) {
        let report = by_hand_in(&[(M_PNML, Some(folder)); 2]).remove(0).printed();
        assert!(report.starts_with(&format!("m.pnml: {states} states")), "{report}");
    }
    let said = errors(by_hand_in(&[(M_PNML, Some(&folders[0])), (M_PNML, Some(&folders[1]))]));
    for (said, other) in said.iter().zip([1, 0]) {
        assert!(said.contains(&format!("rank {other} has other parameters: net is ")), "{said}");
        assert!(said.trim_end().ends_with(NETS_DIFFER), "{said}");
    }
}

/// The nets are equal but for their names, of which an invariant uses one.
#[test]
fn refuses_differently_resolved_invariants() {
    let net = two_steps(1);
    let swapped = net.replace("\"b\"", "\"B\"").replace("\"c\"", "\"b\"").replace("\"B\"", "\"c\"");
    let folders = [net, swapped].map(|net| {
        let folder = Scratch::new();
        folder.file("m.pnml", &net);
        folder
    });
    let both = |more: &[&str]| {
        let command = [M_PNML, more].concat();
        by_hand_in(&[(&command, Some(&folders[0])), (&command, Some(&folders[1]))])
    };
    let report = both(&["--find-deadlock"]).remove(0);
    assert_eq!(report.code, Some(4), "{report:?}");
    let said = errors(both(&["--invariant", "b <= 20"]));
    for (said, other) in said.iter().zip([1, 0]) {
        assert!(
            said.contains(&format!("rank {other} has other parameters: properties is")),
            "{said}"
        );
        assert!(said.trim_end().ends_with("--invariant mean other places"), "{said}");
    }
}

/// A pipe provides one net to rank 0, and another to rank 1, which rank 0 starts later.
#[test]
fn refuses_net_changed_between_reads() {
    let folder = Scratch::new();
    let pipe = folder.path("m.pnml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let job = Running::start(probeline(M_PNML).current_dir(folder.path("")));
    // Blocks until a rank opens the pipe for reading.
    fs::write(&pipe, two_steps(1)).unwrap();
    assert!(wait_until(AT_ONCE, || job.pid_of_rank(1).is_some()));
    fs::write(&pipe, two_steps(4)).unwrap();
    let said = job.end().failed();
    assert!(said.lines().any(|line| line.ends_with(NETS_DIFFER)), "{said}");
}

/// Ranks therefore cannot read different profiles.
#[test]
fn simulator_refuses_second_process() {
    let command = ["explore", "fms:2", "--transport", "sim", "--sim-profile", "shm"];
    for ended in by_hand_in(&[(&command, None), (&command, None)]) {
        let said = ended.failed_in_one_line();
        assert!(said.contains("the simulator has all ranks in one process"), "{said}");
    }
}

#[test]
fn names_rank_that_never_connects() {
    // Rank 2 connects within this time, even on a busy machine.
    let (address, command) = (address(), ["explore", "fms:2", "--rendezvous-timeout", "15"]);
    for ended in together([0, 2].map(|rank| by_hand(&command, &address, rank, 3))) {
        let said = ended.failed_in_one_line();
        assert!(said.contains("rank 1 did not come within 15 s"), "{said}");
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
    let rank = ["-n", ranks, env!("CARGO_BIN_EXE_probeline")];
    let arguments = [&rank[..], arguments].concat();
    tried(launcher, &arguments.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
}

/// Runs the launcher with these arguments and those of every test.
fn tried(launcher: [&str; 2], arguments: &[String]) -> Ended {
    let mut ended = tried_once(launcher, arguments);
    for _ in 1..TRIES {
        if ended.signal != Some(Signal::PIPE.as_raw()) || launcher == OPEN_MPI {
            break;
        }
        eprintln!("mpiexec died of SIGPIPE, once more");
        ended = tried_once(launcher, arguments);
    }
    ended
}

fn tried_once(launcher: [&str; 2], arguments: &[String]) -> Ended {
    let mut command = Command::new(program(launcher));
    // Two mpiruns that start at the same time in one directory conflict.
    let scratch = Scratch::new();
    command.env("TMPDIR", scratch.path("")).env("PROBELINE_SECRET", SECRET);
    if launcher == OPEN_MPI {
        // Tests may run as root, and on fewer cores than ranks.
        command.args(["--allow-run-as-root", "--oversubscribe", "-x", "PROBELINE_SECRET"]);
    }
    Running::start(command.args(arguments)).end()
}

/// mpirun binds each rank to a core before the command starts; mpiexec does not.
fn a_launcher_starts_ranks_that_explore_on_cores_of_their_own(launcher: [&str; 2]) {
    let address = address();
    let report = launched(launcher, "2", &["explore", "fms:2", "--rendezvous", &address]).printed();
    assert!(report.contains(FMS_2) && report.contains("shm, 2 ranks"), "{report}");
    let cores = thread::available_parallelism().unwrap().get();
    assert!(cores < 2 || !report.contains("some share"), "{report}");
}

/// Starts ranks without an address and a secret. `exchange` is the service of the launcher, `other`
/// one that it does not have.
fn a_launcher_says_where_to_meet(launcher: [&str; 2], exchange: &str, other: &str) {
    for (ranks, lead) in [("2", "shm, 2 ranks"), ("3", "shm, 3 ranks")] {
        let report = launched(launcher, ranks, &["explore", "fms:2"]).printed();
        assert!(report.contains(FMS_2) && report.contains(lead), "{report}");
    }
    let latency = ["bench-latency", "--ops", "200", "--table-size", "1MiB", "-C", "8"];
    let asked = [&latency[..], &["--transport", "shm", "--exchange", exchange]].concat();
    let report = launched(launcher, "2", &asked).printed();
    assert!(report.contains("shm, 2 ranks"), "{report}");
    let asked = [&latency[..], &["--transport", "ucx", "--exchange", exchange]].concat();
    let report = launched(launcher, "2", &asked).printed();
    assert!(report.contains("ucx, 2 ranks"), "{report}");
    let asked = ["explore", "fms:2", "--exchange", exchange];
    assert!(launched(launcher, "1", &asked).printed().contains("shm, 1 ranks"));

    let ended = launched(launcher, "2", &["explore", "fms:2", "--exchange", other]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("srun --mpi=pmi"), "{ended:?}");
    let ended = launched(launcher, "2", &["explore", "fms:2", "--exchange", "tcp"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("--rendezvous HOST:PORT"), "{ended:?}");
    let ended = launched(launcher, "2", &["explore", "fms:2", "--exchange", "spawn"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("each was asked to start a job of its own"), "{ended:?}");

    let ended = launched(launcher, "2", &["explore", "fms:2", "--transport", "sim"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("the simulator has all ranks in one process"), "{ended:?}");
}

/// Two ranks in two folders meet through the launcher's service.
fn ranks_of_a_launcher_with_different_nets_are_refused(launcher: [&str; 2], folder_option: &str) {
    let folders = [with_net(1), with_net(4)];
    let (probeline, here, there) =
        (env!("CARGO_BIN_EXE_probeline"), folders[0].path(""), folders[1].path(""));
    let rank = |folder: &str| {
        ["-n", "1", folder_option, folder, probeline]
            .map(str::to_owned)
            .into_iter()
            .chain(M_PNML.iter().map(|&word| word.to_owned()))
            .collect::<Vec<String>>()
    };
    let arguments = [rank(&here), vec![":".to_owned()], rank(&there)].concat();
    let ended = tried(launcher, &arguments);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    // The order in which ranks exit determines whether mpiexec adds output of its own.
    assert!(!ended.stdout.contains(" states, "), "no rank explores: {ended:?}");
    assert!(ended.stderr.lines().any(|line| line.ends_with(NETS_DIFFER)), "{ended:?}");
}

#[test]
fn open_mpi_refuses_different_nets() {
    ranks_of_a_launcher_with_different_nets_are_refused(OPEN_MPI, "--wdir");
}

#[test]
fn mpich_refuses_different_nets() {
    ranks_of_a_launcher_with_different_nets_are_refused(MPICH, "-wdir");
}

#[test]
fn open_mpi_starts_ranks() {
    a_launcher_starts_ranks_that_explore_on_cores_of_their_own(OPEN_MPI);
}

#[test]
fn open_mpi_without_rendezvous() {
    a_launcher_says_where_to_meet(OPEN_MPI, "pmix", "pmi");
}

#[test]
fn mpich_starts_ranks() {
    a_launcher_starts_ranks_that_explore_on_cores_of_their_own(MPICH);
}

#[test]
fn mpich_without_rendezvous() {
    a_launcher_says_where_to_meet(MPICH, "pmi", "pmix");
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

    // Without an address, the error of each task names what to give, and the task.
    for rank in ["0", "1"] {
        let said = together([as_srun_does(rank, &["explore", "fms:2"])]).remove(0).failed();
        assert!(said.starts_with(&format!("probeline, rank {rank}: srun started this")), "{said}");
        assert!(said.contains("--rendezvous HOST:PORT"), "{said}");
    }
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
    for (victim, after_ms) in [(1, 300), (0, 317), (2, 250), (2, 331), (2, 410)] {
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
        let took = killed.elapsed();
        // The ranks detect the loss by their connections, long before the 600 s limit of a
        // collective call.
        println!("started by hand, rank {victim} killed: the others had ended after {took:?}");
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
        [(&LONG[..], 0, 305), (&LONG, 1, 300), (&LONG, 2, 318), (&kmers, 1, 100), (&bale, 2, 100)]
    {
        let job = Running::start(&mut probeline(&[command, &["--ranks", "3"]].concat()));
        let pid = |rank| if rank == 0 { Some(job.pid()) } else { job.pid_of_rank(rank) };
        let all_reach = || (0..3).all(|rank| pid(rank).is_some_and(|pid| reaches(pid, 3)));
        assert!(wait_until(AT_ONCE, all_reach));
        thread::sleep(Duration::from_millis(after_ms));
        let victim_pid = pid(victim).unwrap();
        let killed = Instant::now();
        kill(victim_pid);
        let ended = job.end();
        let took = killed.elapsed();
        println!("spawned, rank {victim} killed: everything was gone after {took:?}");
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

#[test]
fn failed_rank_stops_job() {
    // The environment identifies rank 1 of a spawned job; here its rank 0 does not exist.
    let mut orphan = probeline(&["explore", "fms:2"]);
    orphan.envs([("PROBELINE_RANK", "1"), ("PROBELINE_RANKS", "2"), ("PROBELINE_PARENT", "1")]);
    orphan.env("PROBELINE_RENDEZVOUS", "127.0.0.1:1").env("PROBELINE_SECRET", SECRET);
    let said = Running::start(&mut orphan).end().failed();
    assert!(said.contains("the process that started this one has ended"), "{said}");

    // A job with a stopped rank reports that rank and leaves no process behind. The limit is longer
    // than working ranks wait for each other on a busy machine.
    let job =
        Running::start(&mut probeline(&[&LONG[..], &["--collective-timeout", "15"]].concat()));
    let reaches = |rank| job.pid_of_rank(rank).is_some_and(|pid| reaches(pid, 2));
    assert!(wait_until(AT_ONCE, || reaches(1)));
    stop(job.pid_of_rank(1).unwrap());
    let ended = job.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("did not arrive within 15 s"), "{ended:?}");
}
