//! The ranks of one column, seen from the command that has started them.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::order::{Ability, Answer, Order};
use super::sample::Sample;
use crate::note;

/// For the ranks to end, when nothing is left to do.
const LEAVE: Duration = Duration::from_secs(15);
/// For a launcher to end its ranks before it is killed itself.
const TERMINATE: Duration = Duration::from_secs(2);
/// Beyond what the ranks allow themselves for one measurement, so that they say what was late.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at a process that is to end.
const PAUSE: Duration = Duration::from_millis(5);
/// What is kept of a column's standard error.
const SAID_BYTES: usize = 1 << 14;

/// A process that is rank 0 of a column or has started it. Dropping it ends it, and with it all
/// ranks: they follow whoever has started them.
pub(super) struct Group {
    process: Child,
    /// `None` once there are no more orders.
    orders: Option<ChildStdin>,
    answers: Receiver<Answer>,
    said: Arc<Mutex<String>>,
    limit: Duration,
}

impl Group {
    /// Starts a column whose ranks have met and opened their engines within `start`, and whose
    /// measurements take `limit` at most; otherwise why it cannot.
    pub(super) fn start(
        mut command: Command,
        start: Duration,
        limit: Duration,
    ) -> Result<(Self, Ability), String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().display().to_string();
        let mut process =
            command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let (answer, answers) = channel();
        let said = Arc::default();
        if let Some((out, err)) = process.stdout.take().zip(process.stderr.take()) {
            let kept = Arc::clone(&said);
            thread::spawn(move || hear(out, &answer));
            thread::spawn(move || keep(err, &kept));
        }
        let orders = process.stdin.take();
        let mut group = Self { process, orders, answers, said, limit: limit + GRACE };
        match group.answer(start)? {
            Answer::Ready(ability) => Ok((group, ability)),
            other => Err(format!("its ranks are of another version: they said {other:?}")),
        }
    }

    /// What a step gives in a round; otherwise why there will be nothing more.
    pub(super) fn measure(&mut self, step: usize, round: u64) -> Result<Sample, String> {
        self.tell(Order::Measure { step, round });
        match self.answer(self.limit)? {
            Answer::Measured(sample) => Ok(*sample),
            other => Err(format!("its ranks are of another version: they said {other:?}")),
        }
    }

    /// Lets the ranks leave; how their transport was set up, in words.
    pub(super) fn end(mut self) -> Result<Vec<String>, String> {
        self.tell(Order::End);
        let answer = self.answer(LEAVE)?;
        self.orders = None;
        let status = wait(&mut self.process, LEAVE);
        match (answer, status) {
            (Answer::Ended(lines), Some(status)) if status.success() => Ok(lines),
            (_, status) => Err(self.ended(status)),
        }
    }

    fn tell(&mut self, order: Order) {
        if let Some(orders) = &mut self.orders {
            // Who does not listen any more says why, or has ended.
            let _ = writeln!(orders, "{}", order.line()).and_then(|()| orders.flush());
        }
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer, String> {
        match self.answers.recv_timeout(limit) {
            Ok(Answer::Failed(reason)) => Err(self.with_the_others(reason)),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.with_the_others(format!("no answer within {limit:?}: it hangs")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = wait(&mut self.process, LEAVE);
                Err(self.ended(status))
            }
        }
    }

    /// A reason with what the ranks printed, where that says more.
    fn with_the_others(&self, reason: String) -> String {
        let said = self.said();
        if said.contains("has detected an attempt to run as root") {
            return NO_ROOT.to_owned();
        }
        let others = said.lines().filter(|line| !is_ruler(line) && !note::is_note(line));
        let others = others.filter(|line| !line.ends_with(&reason));
        others.take(3).fold(reason.clone(), |reason, line| format!("{reason}; {line}"))
    }

    fn ended(&self, status: Option<ExitStatus>) -> String {
        let how = status.map_or("goes on without output".to_owned(), |status| status.to_string());
        self.with_the_others(format!("its first process ended ({how})"))
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if wait(&mut self.process, Duration::ZERO).is_some() {
            return;
        }
        // A launcher then ends its ranks.
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if wait(&mut self.process, TERMINATE).is_none() {
            // Both fail only if it is not there any more.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// What mpirun of Open MPI says in a dozen lines.
const NO_ROOT: &str = "mpirun will not run as root: be somebody else or, where root is nobody in \
                       particular, set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";

/// Empty, or dashes above and below what a launcher says.
fn is_ruler(line: &str) -> bool {
    line.bytes().all(|byte| byte == b'-')
}

/// Waits until a process has ended, or `limit` has passed.
fn wait(process: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + limit;
    loop {
        let status = process.try_wait().ok().flatten();
        if status.is_some() || Instant::now() >= until {
            return status;
        }
        thread::sleep(PAUSE);
    }
}

/// Passes on the answers among the lines that are printed.
fn hear(out: impl Read, answers: &Sender<Answer>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if let Some(answer) = Answer::from_line(&line)
            && answers.send(answer).is_err()
        {
            return;
        }
    }
}

/// Keeps the beginning of what is printed, and reads on so that nobody waits.
fn keep(err: impl Read, kept: &Mutex<String>) {
    for line in BufReader::new(err).split(b'\n').map_while(Result::ok) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + line.len() < SAID_BYTES {
            kept.push_str(String::from_utf8_lossy(&line).trim());
            kept.push('\n');
        }
    }
}
