//! Starts this program under the launcher of its library, for a bounded time.

use core::time::Duration;
use std::env;
use std::io::Read;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use crate::settings::{Setting, is_open_mpi};

/// The time limit of a job, for a machine that has other work. The limits within each job are shorter.
const LIMIT: Duration = Duration::from_secs(300);
/// The time that a launcher has to terminate its ranks after a signal.
const GRACE: Duration = Duration::from_secs(5);

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

/// Runs a job, and returns its exit status and output.
fn run(test: &str, setting: &Setting, ranks: u32) -> (ExitStatus, String) {
    let mut job = launcher(ranks)
        .args(setting.arguments.split_whitespace())
        // Ends each rank with its launcher, even if the launcher is killed: a rank would keep the pipes open.
        .args(["setpriv", "--pdeathsig", "KILL"])
        .arg(env::current_exe().unwrap())
        .args(["rank", test, setting.name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("install openmpi-bin or mpich, for which this was built");
    let readers = [read(job.stdout.take().unwrap()), read(job.stderr.take().unwrap())];
    let status = wait(&mut job);
    let output = readers.map(|reader| reader.join().unwrap()).concat();
    (status.unwrap_or_else(|| give_up(test, setting, &output)), output)
}

/// Ends this program after a job that hangs: the other jobs would hang too, each for its limit.
fn give_up(test: &str, setting: &Setting, output: &str) -> ! {
    println!("{output}\ntest {test}, {} ... hangs: longer than {LIMIT:?}", setting.name);
    println!("\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured");
    process::exit(1);
}

/// Returns the launcher of the library. Debian appends the library's name to it.
fn launcher(ranks: u32) -> Command {
    let names =
        if is_open_mpi() { ["mpirun.openmpi", "mpirun"] } else { ["mpiexec.mpich", "mpiexec"] };
    let there = |name: &&str| {
        let paths = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&paths).any(|folder| folder.join(name).exists())
    };
    let name = names.into_iter().find(there).unwrap_or(names[1]);
    let mut command = Command::new(name);
    command.args(["-n", &ranks.to_string()]);
    if is_open_mpi() {
        // As root, and with more ranks than cores.
        command.arg("--oversubscribe").env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command
}

fn read(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        from.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits until a job exits; `None` if it had to be killed.
fn wait(job: &mut Child) -> Option<ExitStatus> {
    let ended = |job: &mut Child, limit: Duration| {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = job.try_wait().unwrap() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    };
    if let Some(status) = ended(job, LIMIT) {
        return Some(status);
    }
    // SAFETY: the launcher that this process has started and not waited for.
    unsafe { libc::kill(job.id().cast_signed(), libc::SIGTERM) };
    if ended(job, GRACE).is_none() {
        job.kill().unwrap();
        job.wait().unwrap();
    }
    None
}
