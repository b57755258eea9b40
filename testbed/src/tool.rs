//! Programs of the host: none outlives this process, and none runs longer than it may.

use core::time::Duration;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio, id};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use crate::error::{Error, tail};
use crate::patience::PATIENCE;

/// How often a program that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// A program of the host that the kernel kills when the thread that started it ends, whatever the
/// reason (`PR_SET_PDEATHSIG` of prctl(2)). So only threads that stay may start one.
#[derive(Debug)]
pub struct Tool {
    command: Command,
    line: String,
    shown: bool,
    into: Option<File>,
}

impl Tool {
    /// The program, looked for in `PATH`.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let mut command = Command::new("setpriv");
        // If this process ended before the signal was asked for, the shell has another parent.
        let script = r#"[ "$PPID" = "$0" ] && exec "$@""#;
        command.args(["--pdeathsig", "KILL", "sh", "-c", script, &id().to_string()]);
        command.arg(program).env("LC_ALL", "C").stdin(Stdio::null());
        let line = program.to_string_lossy().into_owned();
        Self { command, line, shown: false, into: None }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line.push(' ');
        self.line.push_str(&arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Where it runs.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// The file that it reads.
    #[must_use]
    pub fn from_file(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// The file that it writes to.
    #[must_use]
    pub fn into_file(mut self, file: File) -> Self {
        self.into = Some(file);
        self
    }

    /// Shows its messages as it says them.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.shown = true;
        self
    }

    /// Starts it with pipes for what it reads and writes, and `messages` for what it complains of.
    /// Whoever calls ends it.
    pub(crate) fn start(mut self, messages: File) -> Result<Child, Error> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        self.command.spawn().map_err(Error::io(format!("starting setpriv for {}", self.line)))
    }

    /// Runs it to a good end and returns what it wrote, if not into a file.
    ///
    /// # Errors
    /// [`Error::Tool`] if it did not end within `limit`, or not with status 0.
    pub fn run(mut self, limit: Duration) -> Result<String, Error> {
        let into = self.into.take().map_or_else(Stdio::piped, Stdio::from);
        let messages = if self.shown { Stdio::inherit() } else { Stdio::piped() };
        let spawned = self.command.stdout(into).stderr(messages).spawn();
        let mut child =
            spawned.map_err(Error::io(format!("starting setpriv for {}", self.line)))?;
        let output = child.stdout.take().map(drained);
        let messages = child.stderr.take().map(drained);
        let status = ended(&mut child, limit);
        let status = status.map_err(Error::io(format!("waiting for {}", self.line)))?;
        let Some(status) = status else {
            return Err(Error::Late { what: self.line, limit });
        };
        let output = output.map_or(Ok(String::new()), |bytes| received(&bytes, &self.line))?;
        let messages = messages.map_or(Ok(String::new()), |bytes| received(&bytes, &self.line))?;
        if status.success() {
            return Ok(output);
        }
        let problem = format!("{status}\n{}", tail(&format!("{output}{messages}")));
        Err(Error::Tool { command: self.line, problem })
    }
}

/// How the child ended; `None`, and killed, if not within `limit`.
pub(crate) fn ended(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(GLANCE);
    }
}

/// Reads to the end beside the program, which would stop at a full pipe.
fn drained(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still of use.
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

/// All that a program has written that has ended.
fn received(bytes: &Receiver<Vec<u8>>, program: &str) -> Result<String, Error> {
    let late = |_| Error::Late { what: format!("the output of {program}"), limit: PATIENCE };
    let bytes = bytes.recv_timeout(PATIENCE).map_err(late)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn output_and_problems_are_heard() {
        assert_eq!(Tool::new("printf").arg("a b").run(PATIENCE).unwrap(), "a b");
        let bad = Tool::new("sh").args(["-c", "echo why >&2; exit 3"]).run(PATIENCE);
        assert!(bad.unwrap_err().to_string().contains("exit status: 3\nwhy"));
    }

    #[test]
    fn what_runs_too_long_is_ended() {
        let (start, limit) = (Instant::now(), Duration::from_millis(100));
        let late = Tool::new("sleep").arg("3600").run(limit);
        assert!(matches!(late, Err(Error::Late { .. })));
        assert!(start.elapsed() < PATIENCE);
    }

    #[test]
    fn a_program_dies_with_the_thread_that_started_it() {
        let path = env::temp_dir().join(format!("testbed-tool-{}", id()));
        let log = File::create(&path).unwrap();
        let starter = thread::spawn(|| {
            let mut child = Tool::new("cat").start(log).unwrap();
            let mut byte = [0];
            // The program is there once it answers.
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            child
        });
        let mut child = starter.join().unwrap();
        let status = ended(&mut child, PATIENCE).unwrap().unwrap();
        assert_eq!(status.signal(), Some(9));
        std::fs::remove_file(path).unwrap();
    }
}
