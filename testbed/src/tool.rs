//! Programs of the host. None outlives this process, and each run has a time limit.

use core::time::Duration;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio, id};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::HANG_TIMEOUT;
use crate::error::{Error, tail};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A program of the host. The kernel kills it when the thread that started it ends, whatever the
/// reason (`PR_SET_PDEATHSIG` of prctl(2)); so that thread must outlive it.
#[derive(Debug)]
pub(crate) struct Tool {
    command: Command,
    line: String,
    messages: bool,
    into: Option<File>,
}

impl Tool {
    /// Prepares a call of a program in `PATH`.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let mut command = Command::new("setpriv");
        // If this process has ended before setpriv's prctl(2), the shell has another parent.
        let script = r#"[ "$PPID" = "$0" ] && exec "$@""#;
        command.args(["--pdeathsig", "KILL", "sh", "-c", script, &id().to_string()]);
        command.arg(program).env("LC_ALL", "C").stdin(Stdio::null());
        let line = program.to_string_lossy().into_owned();
        Self { command, line, messages: false, into: None }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line.push(' ');
        self.line.push_str(&arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets the standard input.
    pub(crate) fn stdin(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Sets the standard output.
    pub(crate) fn stdout(mut self, file: File) -> Self {
        self.into = Some(file);
        self
    }

    /// Passes standard error through.
    pub(crate) fn with_messages(mut self) -> Self {
        self.messages = true;
        self
    }

    /// Starts it with pipes for standard input and output, and `messages` as standard error.
    pub(crate) fn start(mut self, messages: File) -> Result<Child> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        self.command.spawn().with_context(|| format!("starting setpriv for {}", self.line))
    }

    /// Runs it to its end, which must be with status 0; returns its output, unless that goes to a
    /// file.
    pub(crate) fn run(mut self, limit: Duration) -> Result<String> {
        let line = self.line;
        let into = self.into.take().map_or_else(Stdio::piped, Stdio::from);
        let messages = if self.messages { Stdio::inherit() } else { Stdio::piped() };
        let spawned = self.command.stdout(into).stderr(messages).spawn();
        let mut child = spawned.with_context(|| format!("starting setpriv for {line}"))?;
        let output = child.stdout.take().map(read_to_end);
        let messages = child.stderr.take().map(read_to_end);
        let status = wait(&mut child, limit).with_context(|| format!("waiting for {line}"))?;
        let Some(status) = status else {
            return Err(Error::Timeout { what: line, limit }.into());
        };
        let [output, messages] = [output, messages].map(|bytes| {
            let bytes = bytes.map_or(Ok(Vec::new()), |bytes| bytes.recv_timeout(HANG_TIMEOUT))?;
            Ok::<_, RecvTimeoutError>(String::from_utf8_lossy(&bytes).into_owned())
        });
        let (output, messages) = (output?, messages?);
        if !status.success() {
            bail!("{line}: {status}\n{}", tail(&format!("{output}{messages}")));
        }
        Ok(output)
    }
}

/// Waits for the child's end; after `limit` kills it and returns `None`.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let status = poll(limit, || Ok(child.try_wait()?))?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(status)
}

/// Calls `find` at intervals until it returns a value; `None` after `limit`.
pub(crate) fn poll<T>(
    limit: Duration,
    mut find: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let deadline = Instant::now() + limit;
    loop {
        let found = find()?;
        if found.is_some() || Instant::now() >= deadline {
            return Ok(found);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reads the stream in a thread, since the program would stop at a full pipe.
fn read_to_end(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before an error are still of use.
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn returns_output_and_errors() {
        assert_eq!(Tool::new("printf").arg("a b").run(HANG_TIMEOUT).unwrap(), "a b");
        let bad = Tool::new("sh").args(["-c", "echo why >&2; exit 3"]).run(HANG_TIMEOUT);
        assert!(bad.unwrap_err().to_string().contains("exit status: 3\nwhy"));
    }

    #[test]
    fn kills_program_at_limit() {
        let (start, limit) = (Instant::now(), Duration::from_millis(100));
        let late = Tool::new("sleep").arg("3600").run(limit);
        let error = late.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Error::Timeout { .. })));
        assert!(start.elapsed() < HANG_TIMEOUT);
    }

    #[test]
    fn program_dies_with_starting_thread() {
        let path = env::temp_dir().join(format!("testbed-tool-{}", id()));
        let log = File::create(&path).unwrap();
        let starter = thread::spawn(|| {
            let mut child = Tool::new("cat").start(log).unwrap();
            let mut byte = [0];
            // Once it answers it has asked for the signal.
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            child
        });
        let mut child = starter.join().unwrap();
        let status = wait(&mut child, HANG_TIMEOUT).unwrap().unwrap();
        assert_eq!(status.signal(), Some(9));
        std::fs::remove_file(path).unwrap();
    }
}
