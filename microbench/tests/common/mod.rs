//! Runs the command without a shell and with a time limit, and checks that no process of it is
//! left.

pub(crate) mod pnml;
pub(crate) mod reported;

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Instant;

pub(crate) use probeline_exchange::testing::port;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// Longer than any command here takes on a busy machine. A command that takes longer hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The limit for commands that fail before anything starts: more than a busy machine needs, and
/// less than the 60 s that ranks wait for each other.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(30);

/// A command that runs for minutes, alternating between finding, clearing, drawing keys and waiting for others.
pub(crate) const LONG: [&str; 7] =
    ["bench-throughput", "--rounds", "999", "--ops", "100000", "--table-size", "8MiB"];

/// The maximum time for which killed processes may still be visible.
const VANISH: Duration = Duration::from_secs(60);

/// The variable that marks all processes of a run, including those of launchers.
const MARK: &str = "PROBELINE_TEST_RUN";

/// Creates the command with these arguments.
pub(crate) fn probeline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probeline"));
    command.args(arguments).env_remove("PROBELINE_SECRET");
    command
}

/// Runs the command until it exits.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    Running::start(&mut probeline(arguments)).end()
}

/// A running command. Dropping it kills all of its processes.
pub(crate) struct Running {
    process: Child,
    mark: String,
    /// Files for standard output and standard error.
    output: Scratch,
    started: Instant,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let output = Scratch::new();
        let file = |name| File::create(output.path(name)).unwrap();
        Self::start_in(command.stdout(file("stdout")).stderr(file("stderr")), output)
    }

    /// Starts the command as `start` does, with the output streams that it has.
    pub(crate) fn start_with(command: &mut Command) -> Self {
        Self::start_in(command, Scratch::new())
    }

    fn start_in(command: &mut Command, output: Scratch) -> Self {
        do_not_ignore_sigint();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let process = command
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        Self { process, mark, output, started: Instant::now() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the process of a rank that rank 0 has started.
    pub(crate) fn pid_of_rank(&self, rank: u32) -> Option<u32> {
        let variable = format!("PROBELINE_RANK={rank}");
        marked(&self.mark).into_iter().find(|(_, env)| env.contains(&variable)).map(|(pid, _)| pid)
    }

    /// Returns a process of the run that has these consecutive arguments.
    pub(crate) fn pid_with(&self, arguments: &[&str]) -> Option<u32> {
        let wanted = format!("\0{}\0", arguments.join("\0"));
        let given = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline"));
        self.left().into_iter().find(|pid| given(pid).is_ok_and(|given| given.contains(&wanted)))
    }

    /// Waits until the command and all of its processes have exited.
    pub(crate) fn end(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(self.started.elapsed() < LIMIT, "still runs after {LIMIT:?}");
            thread::sleep(Duration::from_millis(1));
        };
        let took = self.started.elapsed();
        let gone = wait_until(VANISH, || marked(&self.mark).is_empty());
        assert!(gone, "left behind: {:?}", self.left());
        let stdout = self.printed_so_far("stdout");
        let [notes, stderr] = notes_and_others(&self.printed_so_far("stderr"));
        let (code, signal) = (status.code(), status.signal());
        let everything_gone = self.started.elapsed();
        Ended { code, signal, stdout, stderr, notes, took, everything_gone }
    }

    /// Returns what `start` has captured of a stream.
    pub(crate) fn printed_so_far(&self, stream: &str) -> String {
        String::from_utf8(fs::read(self.output.path(stream)).unwrap_or_default()).unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    fn left(&self) -> Vec<u32> {
        marked(&self.mark).into_iter().map(|(pid, _)| pid).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for pid in self.left() {
            kill(pid);
        }
        // The process may have been waited for before.
        let _ = self.process.wait();
    }
}

/// The result of a command that has exited.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    /// Standard error without the notes.
    pub(crate) stderr: String,
    /// The notes on standard error, one per line. They depend on what the machine permits: a
    /// container commonly refuses a NUMA policy.
    pub(crate) notes: String,
    pub(crate) took: Duration,
    /// The time from the start until the last process had exited.
    pub(crate) everything_gone: Duration,
}

impl Ended {
    /// Checks that the command succeeded, and returns its output.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// Checks that the command failed and printed only the error, and returns that.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        assert!(matches!(self.code, Some(1 | 2)), "{self:?}");
        assert!(
            !self.stderr.contains("panicked") && !self.stderr.contains("backtrace"),
            "{self:?}"
        );
        assert_eq!(self.stdout, "", "{}", self.stderr);
        self.stderr
    }

    /// Checks as `failed` does, and that the error is one line.
    #[track_caller]
    pub(crate) fn failed_in_one_line(self) -> String {
        let said = self.failed();
        assert!(said.starts_with("probeline: ") && said.ends_with('\n'), "{said:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }
}

/// Checks that each command line fails at once with this status, and with this text in its error, which is one
/// line unless clap prints it with a hint to --help.
#[track_caller]
pub(crate) fn refuses(status: i32, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        let ended = run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ended.code, Some(status), "{line}: {ended:?}");
        assert!(ended.took < AT_ONCE, "{line}: a rank waits for another");
        let is_of_clap = ended.stderr.starts_with("error: ");
        let said = if is_of_clap { ended.failed() } else { ended.failed_in_one_line() };
        assert!(said.contains(expected), "{line}: {said}");
    }
}

/// Returns the lines that are notes, and all others.
fn notes_and_others(output: &str) -> [String; 2] {
    let is_note = |line: &&str| line.starts_with("note: ") || line.starts_with("note, rank ");
    let (notes, others): (Vec<&str>, Vec<&str>) = output.split_inclusive('\n').partition(is_note);
    [notes.concat(), others.concat()]
}

/// Returns the processes of a run, and their environment.
fn marked(mark: &str) -> Vec<(u32, Vec<String>)> {
    let variable = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        // Missing for a process that has exited, and unreadable for those of other users.
        let Ok(environ) = fs::read(entry.path().join("environ")) else { continue };
        let variables = environ.split(|&byte| byte == 0).map(String::from_utf8_lossy);
        let variables: Vec<String> = variables.map(|variable| variable.into_owned()).collect();
        if variables.contains(&variable) {
            found.push((pid, variables));
        }
    }
    found
}

/// Kills a process, which may have exited already.
pub(crate) fn kill(pid: u32) {
    let _ = kill_process(raw(pid), Signal::KILL);
}

/// Starts commands with the default action for SIGINT even if this process was started to ignore
/// the signal, like a background job of a script: a handled signal is reset for commands, and an
/// ignored one is not.
fn do_not_ignore_sigint() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let (_, ignored) = status.split_once("\nSigIgn:\t").unwrap();
        let ignored = u64::from_str_radix(ignored.lines().next().unwrap(), 16).unwrap();
        if ignored >> (Signal::INT.as_raw() - 1) & 1 == 1 {
            signal_hook::flag::register(Signal::INT.as_raw(), Arc::default()).unwrap();
        }
    });
}

/// Sends a signal to a process that has not exited.
#[track_caller]
pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(raw(pid), signal).unwrap();
}

/// Sends a signal to all processes of a group, like a terminal on Ctrl-C.
#[track_caller]
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    kill_process_group(raw(leader), signal).unwrap();
}

fn raw(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap()
}

pub(crate) fn wait_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// A temporary directory of a test, deleted when dropped.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Rows, each with its cells by column name.
pub(crate) type Rows = Vec<HashMap<String, String>>;

/// Reads the rows of a CSV file with a header.
pub(crate) fn read_rows(path: &str) -> Rows {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

/// A pseudo-terminal, and the pieces of output written to it.
pub(crate) struct Terminal {
    pub(crate) its_end: OwnedFd,
    pub(crate) pieces: Receiver<Vec<u8>>,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let its_end = File::options().read(true).write(true).open(path).unwrap().into();
        let (send, pieces) = channel();
        thread::spawn(move || {
            let mut ours = File::from(ours);
            let mut piece = [0; 4096];
            // Reading fails when the last process has closed the other end.
            while let Ok(length @ 1..) = ours.read(&mut piece) {
                if send.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { its_end, pieces }
    }

    /// Starts the command on the terminal. Its end of the terminal closes when the command exits.
    pub(crate) fn start(self, arguments: &[&str]) -> (Running, Receiver<Vec<u8>>) {
        let mut command = probeline(arguments);
        command.stdout(self.its_end.try_clone().unwrap()).stderr(self.its_end);
        (Running::start_with(&mut command), self.pieces)
    }
}
