//! Tests of MPI as a transport and as an exchange, with the MPI library for which they are built.
//!
//! This program starts itself under mpirun or mpiexec, once for each test and setting; as one of
//! the ranks it then runs that test. `check-mpi` builds it for Open MPI and for MPICH.

mod conformance;
mod life;
mod settings;

use core::time::Duration;
use std::env;
use std::panic::catch_unwind;
use std::process::{self, Command, ExitStatus, Stdio};

use probeline_transport::conformance::CountingAllocator;
use probeline_ucx_shim::mpi::{Members, World};
use settings::{Setting, is_open_mpi, settings};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A time in which a launcher terminates the ranks of a job that has failed.
const LIMIT: Duration = Duration::from_secs(20);
/// The maximum time for which a rank waits in the test of a rank that never arrives.
const MISSING_LIMIT: Duration = Duration::from_secs(8);

/// The test, which all ranks run in a setting.
type Body = fn(&World, &mut Members, &Setting);
/// Checks the output of a job that has failed.
type Expect = fn(&str, &Setting);

/// Tests with their settings and numbers of ranks.
const TESTS: &[(&str, Where, &[u32], Body)] = &[
    ("conformance", Where::Everywhere, &[2, 4], conformance::run),
    ("atomics_mix", Where::Everywhere, &[2, 6], conformance::mix),
    ("windows_are_freed", Where::Everywhere, &[2], life::windows_are_freed),
    ("sizes_differ", Where::Once, &[3], life::sizes_differ),
    ("second_world", Where::Once, &[1], life::second_world),
    ("attaches", Where::Once, &[1, 2], life::attaches),
    ("calls", Where::Once, &[1, 4], conformance::calls),
    ("lengths_differ", Where::Once, &[3], conformance::lengths_differ),
];

/// Tests of jobs that must fail.
const ENDS: &[(&str, Body, Expect)] = &[
    ("crash_is_refused", life::refused, life::expect_refusal),
    ("a_missing_rank_is_reported", conformance::misses, conformance::expect_miss),
    ("a_killed_rank_ends_all", life::killed, life::expect_end),
    ("a_panic_in_flight_ends_all", life::panics_in_flight, life::expect_end),
];

/// The settings in which a test runs.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Everywhere,
    /// The first setting that is not refused.
    Once,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rank", test, setting] => rank(test, setting),
        ref words => drive(words),
    }
}

/// Runs a test as one of its ranks.
fn rank(test: &str, setting: &str) {
    let (_, body) = bodies().find(|(name, _)| *name == test).unwrap();
    let setting = settings::named(setting).unwrap();
    let limit = match test {
        "a_missing_rank_is_reported" => MISSING_LIMIT,
        _ => conformance::LIMIT,
    };
    let world = World::init(limit).unwrap();
    let mut members = world.members().unwrap();
    body(&world, &mut members, setting);
}

fn bodies() -> impl Iterator<Item = (&'static str, Body)> {
    let tests = TESTS.iter().map(|(name, _, _, body)| (*name, *body));
    tests.chain(ENDS.iter().map(|(name, body, _)| (*name, *body)))
}

/// Runs, one after another, the tests whose names contain one of `words`, or all.
fn drive(words: &[&str]) {
    let words: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(**word));
    let (mut passed, mut failed) = (0, 0);
    let mut run = |name: String, test: &dyn Fn()| {
        if !wanted(&name) {
            return;
        }
        let fine = catch_unwind(core::panic::AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {}", if fine { "ok" } else { "FAILED" });
        *(if fine { &mut passed } else { &mut failed }) += 1;
    };
    println!("{}", settings::library());
    for (name, place, ranks, _) in TESTS {
        let many = if *place == Where::Once { 1 } else { usize::MAX };
        for setting in settings().filter(|setting| !setting.refused).take(many) {
            for ranks in *ranks {
                let called = format!("{name}, {}, {ranks} ranks", setting.name);
                run(called, &|| succeeds(name, setting, *ranks));
            }
        }
    }
    for (name, _, expect) in ENDS {
        for setting in settings::settings_of_ends(name) {
            run(format!("{name}, {}", setting.name), &|| ends(name, setting, *expect));
        }
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured");
    process::exit(failed.min(1));
}

/// The time limit of a job in seconds, for a machine that has other work. The limits within each job are
/// shorter.
const LIMIT_S: &str = "300";
/// The exit status of timeout(1) after its limit.
const TIMED_OUT: i32 = 124;

/// Runs a job that must succeed, and prints its output.
fn succeeds(test: &str, setting: &Setting, ranks: u32) {
    let (status, output) = run_job(test, setting, ranks);
    print!("{output}");
    assert!(status.success(), "{status}");
}

/// Runs a job that must fail within its limits, with an output that `expect` checks.
fn ends(test: &str, setting: &Setting, expect: fn(&str, &Setting)) {
    let (status, output) = run_job(test, setting, 2);
    assert!(!status.success(), "the job succeeded:\n{output}");
    expect(&output, setting);
}

/// Runs a job, and returns its exit status and output. After a job that hangs, this program ends: the other
/// jobs would hang too, each for its limit.
fn run_job(test: &str, setting: &Setting, ranks: u32) -> (ExitStatus, String) {
    let job = launcher(ranks)
        .args(setting.arguments.split_whitespace())
        // Ends each rank with its launcher, even if the launcher is killed: a rank would keep the pipes open.
        .args(["setpriv", "--pdeathsig", "KILL"])
        .arg(env::current_exe().unwrap())
        .args(["rank", test, setting.name])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = [job.stdout, job.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let output = output.concat();
    if matches!(job.status.code(), Some(TIMED_OUT) | None) {
        println!("{output}\ntest {test}, {} ... hangs: longer than {LIMIT_S} s", setting.name);
        println!("\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured");
        process::exit(1);
    }
    (job.status, output)
}

/// Returns the launcher of the library, which timeout(1) bounds. Debian appends the library's name to it.
fn launcher(ranks: u32) -> Command {
    let names =
        if is_open_mpi() { ["mpirun.openmpi", "mpirun"] } else { ["mpiexec.mpich", "mpiexec"] };
    let there = |name: &&str| {
        let paths = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&paths).any(|folder| folder.join(name).exists())
    };
    let name = names.into_iter().find(there).unwrap_or(names[1]);
    assert!(there(&name), "install openmpi-bin or mpich, for which this was built");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT_S, name, "-n", &ranks.to_string()]);
    if is_open_mpi() {
        // As root, and with more ranks than cores.
        command.arg("--oversubscribe").env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command
}
