//! Starts this program under the launcher of its library, for a bounded time.

use std::env;
use std::process::{self, Command, ExitStatus, Stdio};

use crate::settings::{Setting, is_open_mpi};

/// The time limit of a job in seconds, for a machine that has other work. The limits within each job are
/// shorter.
const LIMIT_S: &str = "300";
/// The exit status of timeout(1) after its limit.
const TIMED_OUT: i32 = 124;

/// Runs a job that must succeed, and prints its output.
pub(crate) fn succeeds(test: &str, setting: &Setting, ranks: u32) {
    let (status, output) = run(test, setting, ranks);
    print!("{output}");
    assert!(status.success(), "{status}");
}

/// Runs a job that must fail within its limits, with an output that `expect` checks.
pub(crate) fn ends(test: &str, setting: &Setting, expect: fn(&str, &Setting)) {
    let (status, output) = run(test, setting, 2);
    assert!(!status.success(), "the job succeeded:\n{output}");
    expect(&output, setting);
}

/// Runs a job, and returns its exit status and output. After a job that hangs, this program ends: the other
/// jobs would hang too, each for its limit.
fn run(test: &str, setting: &Setting, ranks: u32) -> (ExitStatus, String) {
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
