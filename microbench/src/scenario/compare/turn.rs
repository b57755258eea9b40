//! One turn: a benchmark as a group of processes, which ends within a bound.

use core::time::Duration;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::terminal;

/// The longest time for a launcher to terminate its ranks before its group is killed.
const TERM_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two checks of a process. A shorter one would disturb what it measures.
const PAUSE: Duration = Duration::from_millis(20);
/// The beginning of standard error that is read.
const MAX_STDERR_BYTES: u64 = 1 << 14;

/// Runs a benchmark, with its files in `folder`, and returns its JSON, or why there is none. Ends it
/// after `limit`, and at a signal to this process.
pub(super) fn run(
    mut command: Command,
    folder: &Path,
    limit: Duration,
) -> core::result::Result<Value, String> {
    let [json, stderr] = ["report.json", "stderr"].map(|name| folder.join(name));
    // The report of the turn before must not count as this one's.
    let _ = fs::remove_file(&json);
    let errors = File::create(&stderr).map_err(|error| format!("{}: {error}", stderr.display()))?;
    command.arg("--json").arg(&json);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0);
    let name = command.get_program().display().to_string();
    let child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
    let error = match Group(child).wait(limit) {
        Some(status) if status.success() => match read(&json) {
            Ok(report) => return Ok(report),
            Err(error) => format!("it wrote no report: {error}"),
        },
        Some(status) => status.to_string(),
        None => format!("it hangs: no result within {} s (--step-timeout)", limit.as_secs()),
    };
    Err(explained(error, &stderr))
}

fn read(json: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(json)?)?)
}

/// The first process of a group. Dropping it ends the group.
struct Group(Child);

impl Group {
    /// Waits until the first process has ended. Returns `None` after `limit` or at a signal.
    fn wait(mut self, limit: Duration) -> Option<ExitStatus> {
        self.ended(limit, Interrupt::is_awaited)
    }

    fn ended(&mut self, limit: Duration, goes_on: impl Fn() -> bool) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            // An error is possible only for a process that is not a child.
            if let Some(status) = self.0.try_wait().ok().flatten() {
                return Some(status);
            }
            if start.elapsed() >= limit || !goes_on() {
                return None;
            }
            thread::sleep(PAUSE);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Fails if the whole group has ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended(Duration::ZERO, || true).is_none() {
            // A launcher whose ranks are in other groups terminates them at SIGTERM.
            self.signal(Signal::TERM);
            self.ended(TERM_TIMEOUT, || true);
        }
        self.signal(Signal::KILL);
        // Fails only for a process that has been waited for.
        let _ = self.0.wait();
    }
}

/// Adds the first lines of standard error that explain an error.
fn explained(error: String, stderr: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(stderr).and_then(|file| file.take(MAX_STDERR_BYTES).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let lines =
        text.lines().map(str::trim).filter(|line| !is_ruler(line) && !terminal::is_note(line));
    lines.take(3).fold(error, |all, line| format!("{all}; {line}"))
}

/// Returns whether a line is empty or only separates others.
fn is_ruler(line: &str) -> bool {
    line.bytes().all(|byte| matches!(byte, b'-' | b'=' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]);
        command
    }

    fn told(script: &str, limit: Duration) -> core::result::Result<Value, String> {
        run(shell(script), tempfile::tempdir().unwrap().path(), limit)
    }

    #[test]
    fn ends_with_report_or_reason() {
        let limit = Duration::from_secs(30);
        assert_eq!(told("echo '[1]' > $2", limit).unwrap()[0], 1);
        let failed = told("echo ----; echo why >&2; exit 3", limit).unwrap_err();
        assert_eq!(failed, "exit status: 3; why");
        assert!(told("exit 0", limit).unwrap_err().starts_with("it wrote no report: "));
        // The shell waits for its child, which has no time to end by itself.
        let start = Instant::now();
        let hangs = told("sleep 100; true", Duration::from_millis(100)).unwrap_err();
        assert_eq!(hangs, "it hangs: no result within 0 s (--step-timeout)");
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
