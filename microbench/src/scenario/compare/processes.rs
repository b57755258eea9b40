//! The columns as processes of this machine: each is a job of its own, whose ranks sleep while the
//! other columns take their turns.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::launch::command;
use super::measured::{Capabilities, Column, Sample};
use super::worker::{Response, Turn, request};
use super::{CompareArgs, take_turns};
use crate::note;
use crate::progress::waiting;

const EXIT_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest time for a launcher to terminate its ranks before it is killed.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// Added to the time that the ranks allow themselves for a step, so that they can report what was
/// late.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// The beginning of a column's standard error that is kept.
const MAX_STDERR_BYTES: usize = 1 << 14;

pub(super) fn compare_processes(args: &CompareArgs) -> Vec<Column> {
    let mut columns = args.columns();
    let mut processes = Vec::new();
    for column in &mut columns {
        let started = command(column.name, args).and_then(|command| {
            waiting(&format!("starting {}", column.name.name()), true, || {
                ColumnProcess::start(command, args.rendezvous_timeout(), args.step_timeout())
            })
        });
        let started = started.map_err(|error| column.error = Some(error)).ok();
        processes.push(started.map(|(process, capabilities)| {
            column.capabilities = Some(capabilities);
            process
        }));
    }
    take_turns(args, &mut columns, |turn| {
        let slot = &mut processes[turn.0];
        let process = slot.as_mut().ok_or_else(|| "it has exited".to_owned())?;
        let sample = process.measure(turn);
        if sample.is_err() {
            // Ends its processes, so that they do not disturb other columns.
            *slot = None;
        }
        sample
    });
    for (column, process) in columns.iter_mut().zip(processes) {
        match process.map(ColumnProcess::finish) {
            Some(Ok(transport)) => match column.name.lacks(&transport) {
                Some(missing) => column.discard(format!(
                    "it was measured without {missing}, which this library may not have: {}",
                    transport.join("; ")
                )),
                None => column.transport = transport,
            },
            Some(Err(error)) => column.error = Some(error),
            None => {}
        }
    }
    columns
}

/// Rank 0 of a column, or the launcher that has started it. Dropping it ends the process and with
/// it all ranks, which end with the process that has started them.
struct ColumnProcess {
    process: Child,
    /// `None` after the last request.
    requests: Option<ChildStdin>,
    responses: Receiver<Response>,
    stderr: Arc<Mutex<String>>,
    step_timeout: Duration,
}

impl ColumnProcess {
    /// Starts a column and waits until its ranks have opened their engines.
    fn start(
        mut command: Command,
        start_timeout: Duration,
        step_timeout: Duration,
    ) -> Result<(Self, Capabilities), String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().display().to_string();
        let mut process =
            command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let (sender, responses) = channel();
        let stderr = Arc::default();
        if let Some((out, err)) = process.stdout.take().zip(process.stderr.take()) {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || read_responses(out, &sender));
            thread::spawn(move || keep(err, &kept));
        }
        let requests = process.stdin.take();
        let step_timeout = step_timeout + GRACE;
        let mut process = Self { process, requests, responses, stderr, step_timeout };
        match process.response(start_timeout)? {
            Response::Ready(capabilities) => Ok((process, capabilities)),
            other => Err(unexpected(&other)),
        }
    }

    /// Measures a step. After an error the column cannot measure any more.
    fn measure(&mut self, turn: Turn) -> Result<Sample, String> {
        self.request(Some(turn));
        match self.response(self.step_timeout)? {
            Response::Measured(sample) => Ok(*sample),
            other => Err(unexpected(&other)),
        }
    }

    fn finish(mut self) -> Result<Vec<String>, String> {
        self.request(None);
        let response = self.response(EXIT_TIMEOUT)?;
        self.requests = None;
        let status = wait(&mut self.process, EXIT_TIMEOUT);
        match (response, status) {
            (Response::Finished(lines), Some(status)) if status.success() => Ok(lines),
            (_, status) => Err(self.exited(status)),
        }
    }

    fn request(&mut self, turn: Option<Turn>) {
        if let Some(requests) = &mut self.requests {
            // A process that does not read has printed why, or has exited.
            let _ = writeln!(requests, "{}", request(turn)).and_then(|()| requests.flush());
        }
    }

    fn response(&mut self, timeout: Duration) -> Result<Response, String> {
        match self.responses.recv_timeout(timeout) {
            Ok(Response::Failed(error)) => Err(self.with_stderr(error)),
            Ok(response) => Ok(response),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.with_stderr(format!("no answer within {timeout:?}: it hangs")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = wait(&mut self.process, EXIT_TIMEOUT);
                Err(self.exited(status))
            }
        }
    }

    /// Appends the first lines of standard error that explain the error.
    fn with_stderr(&self, error: String) -> String {
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if stderr.contains("has detected an attempt to run as root") {
            return NO_ROOT.to_owned();
        }
        let lines = stderr.lines().filter(|line| !is_ruler(line) && !note::is_note(line));
        let lines = lines.filter(|line| !line.ends_with(&error));
        lines.take(3).fold(error.clone(), |all, line| format!("{all}; {line}"))
    }

    fn exited(&self, status: Option<ExitStatus>) -> String {
        let how = status.map_or("runs on without output".to_owned(), |status| status.to_string());
        self.with_stderr(format!("its first process ended ({how})"))
    }
}

impl Drop for ColumnProcess {
    fn drop(&mut self) {
        if wait(&mut self.process, Duration::ZERO).is_some() {
            return;
        }
        // A launcher terminates its ranks on SIGTERM.
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if wait(&mut self.process, TERM_TIMEOUT).is_none() {
            // Both fail only for a process that has exited.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

fn unexpected(response: &Response) -> String {
    format!("its ranks are of another version: they answered {response:?}")
}

/// Replaces a dozen lines that mpirun of Open MPI prints.
const NO_ROOT: &str = "mpirun refuses to run as root: run it as another user or, in a container, set \
                       OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";

/// Returns whether a line is empty or the ruler above or below a launcher's message.
fn is_ruler(line: &str) -> bool {
    line.bytes().all(|byte| byte == b'-')
}

fn wait(process: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + timeout;
    loop {
        let status = process.try_wait().ok().flatten();
        if status.is_some() || Instant::now() >= until {
            return status;
        }
        thread::sleep(PAUSE);
    }
}

/// Sends on the responses among the printed lines.
fn read_responses(out: impl Read, responses: &Sender<Response>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if let Some(response) = Response::from_line(&line)
            && responses.send(response).is_err()
        {
            return;
        }
    }
}

/// Keeps the beginning of the output, and reads to its end so that no writer waits.
fn keep(err: impl Read, kept: &Mutex<String>) {
    for line in BufReader::new(err).split(b'\n').map_while(Result::ok) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + line.len() < MAX_STDERR_BYTES {
            kept.push_str(String::from_utf8_lossy(&line).trim());
            kept.push('\n');
        }
    }
}
