//! Tests of explorations that SIGINT or SIGTERM stops: their results so far, and their progress
//! line.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use rustix::io::ioctl_fionbio;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::pnml::{net, place, transition, two_steps};
use crate::common::{
    Ended, LIMIT, Running, Scratch, Terminal, probeline, signal, signal_group, wait_until,
};

/// The longest time until a terminal shows the expected line, on a busy machine.
const SHOWN: Duration = Duration::from_secs(60);

/// Returns a net with one state in each of 2^30 levels.
fn narrow() -> String {
    net(&[place("a", 1 << 30), place("b", 0), transition("t", &["a"], &["b"])])
}

/// An exploration with its progress line on a terminal.
struct Exploring {
    running: Running,
    pieces: Receiver<Vec<u8>>,
    seen: String,
    scratch: Scratch,
}

impl Exploring {
    /// Starts rank 0 of an exploration of a net.
    fn start(net: &str, options: &[&str], adapt: impl FnOnce(&mut Command)) -> Self {
        let scratch = Scratch::new();
        let file = scratch.file("net.pnml", net);
        let [json, output] = ["report.json", "output"].map(|name| scratch.path(name));
        let Terminal { its_end, pieces } = Terminal::new();
        let mut command = probeline(&[&["explore", &file, "--json", &json], options].concat());
        adapt(&mut command);
        command.stdout(File::create(output).unwrap()).stderr(its_end);
        let running = Running::start_with(&mut command);
        Self { running, pieces, seen: String::new(), scratch }
    }

    /// Waits until the terminal has shown `count` different lines of `level`, or of any level if it
    /// is empty.
    #[track_caller]
    fn shows(&mut self, level: &str, count: usize) {
        loop {
            let mut lines: Vec<&str> = self.seen.split(['\r', '\n']).collect();
            lines.retain(|line| line.contains(level) && line.contains(" states/s"));
            lines.dedup();
            if lines.len() >= count {
                return;
            }
            let piece = self.pieces.recv_timeout(SHOWN).expect(&self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    /// Waits for the end. Returns the printed text and the row of the JSON.
    #[track_caller]
    fn end(self) -> (Ended, String, Value) {
        let ended = self.running.end();
        let printed = fs::read_to_string(self.scratch.path("output")).unwrap();
        let json = fs::read(self.scratch.path("report.json")).unwrap_or_default();
        let json: Value = serde_json::from_slice(&json).unwrap_or_default();
        (ended, printed, json["rows"][0].clone())
    }
}

/// Checks that this signal stopped the exploration, and returns its states, those to expand, and arcs.
#[track_caller]
fn stopped(exploring: Exploring, by: Signal) -> [u64; 3] {
    let (ended, printed, row) = exploring.end();
    assert_eq!((ended.code, ended.signal), (Some(128 + by.as_raw()), None), "{printed}");
    assert_eq!(row["complete"], Value::Bool(false), "{row}");
    let [levels, states, open, arcs] = ["levels", "states", "states_not_expanded", "arcs"]
        .map(|count| row[count].as_u64().unwrap());
    let mut lines = printed.lines();
    let name = if by == Signal::INT { "SIGINT" } else { "SIGTERM" };
    let first = lines.next().unwrap().replace(',', "");
    let expected = format!(
        "stopped by {name} after level {levels}: {states} states found {open} of them not expanded"
    );
    assert_eq!(first, expected);
    assert!(lines.next().unwrap().contains("net.pnml, incomplete: "), "{printed}");
    assert!(open > 0, "{printed}");
    [states, open, arcs]
}

/// Only rank 1 receives the signal, and rank 0 reports.
#[test]
fn signal_to_one_stops_all() {
    let mut job = Exploring::start(&narrow(), &["--ranks", "2"], |_| ());
    job.shows("level", 1);
    signal(job.running.pid_of_rank(1).unwrap(), Signal::INT);
    let [states, open, arcs] = stopped(job, Signal::INT);
    assert_eq!((states, open), (arcs + 1, 1));
}

/// Rank 0 waits for a stopped rank, so only a second signal can end it.
#[test]
fn second_signal_ends_immediately() {
    let mut job = Exploring::start(&narrow(), &["--ranks", "2"], |_| ());
    job.shows("level", 1);
    signal(job.running.pid_of_rank(1).unwrap(), Signal::STOP);
    let started = Instant::now();
    while job.running.is_running() {
        assert!(started.elapsed() < LIMIT, "still runs after {LIMIT:?}");
        signal(job.running.pid(), Signal::INT);
        thread::sleep(Duration::from_millis(50));
    }
    let (ended, printed, _) = job.end();
    assert_eq!((ended.signal, printed.as_str()), (Some(Signal::INT.as_raw()), ""), "{ended:?}");
}

/// The simulator's ranks are threads of one process.
#[test]
fn signal_stops_simulator() {
    let mut job = Exploring::start(&narrow(), &["--transport", "sim"], |_| ());
    job.shows("level", 1);
    signal(job.running.pid(), Signal::INT);
    stopped(job, Signal::INT);
}

/// As a background job of a shell script, which is not to be stopped by a Ctrl-C for the
/// foreground.
#[test]
fn ignored_signal_stays_ignored() {
    let mut job = Exploring::start(&narrow(), &["--ranks", "2"], |command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap '' INT; exec "$@""#, "sh"]).arg(command.get_program());
        shell.args(command.get_args()).process_group(0);
        *command = shell;
    });
    job.shows("level", 1);
    signal_group(job.running.pid(), Signal::INT);
    job.seen.clear();
    job.shows("level", 5);
    signal(job.running.pid(), Signal::TERM);
    stopped(job, Signal::TERM);
}

/// Rank 0 cannot print its report, because nobody reads the pipe.
#[test]
fn signal_after_search_ends_immediately() {
    let scratch = Scratch::new();
    let (net, json) = (scratch.file("net.pnml", &two_steps(1)), scratch.path("report.json"));
    let (_reader, writer) = full_pipe();
    let mut command = probeline(&["explore", &net, "--table-size", "1MiB", "--json", &json]);
    let running = Running::start_with(command.stdout(writer).stderr(Stdio::null()));
    let is_written = || {
        let json = fs::read(&json).unwrap_or_default();
        serde_json::from_slice::<Value>(&json).is_ok()
    };
    assert!(wait_until(LIMIT, is_written));
    signal(running.pid(), Signal::INT);
    let ended = running.end();
    assert_eq!(ended.signal, Some(Signal::INT.as_raw()), "{ended:?}");
}

/// Returns a pipe to which nothing more can be written.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}
