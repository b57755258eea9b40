//! Jobs of processes that rank 0 starts, or that are started by hand.

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use crate::common::{bounded_job, command, job, port, run};

/// The time limit of immediate actions, even on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(40);

/// The arguments of a rank 0, its exit status, and texts with the number of times that its job prints them.
type Case = (&'static str, i32, &'static [(&'static str, usize)]);

const CASES: &[Case] = &[
    ("--auto 4 join gather barrier", 0, &[("of 4 sees 4 processes", 4), ("failed", 0)]),
    (
        "--ranks 3 join barrier 1:exit=7 2:kill",
        0,
        &[("rank 1 failed (exit status: 7); rank 2 failed (signal: 9", 1)],
    ),
    // The error of the call that misses a rank has its exit status, even if no rank calls `finish`.
    (
        "--ranks 3 join barrier 1:exit=7 barrier",
        1,
        &[("rank 0 barrier: owner 1 died or left (exit status 7)", 1)],
    ),
    ("--ranks 3 join barrier 1:panic barrier", 1, &[("owner 1 died or left (exit status 101)", 2)]),
    ("--ranks 3 join barrier 1:kill barrier", 1, &[("owner 1 died or left (signal 9)", 2)]),
    // Each copy that a second job started would join it with the first part of the program.
    (
        "--ranks 2 join barrier join",
        1,
        &[("rank 0 join: this program has joined", 1), ("has process", 2)],
    ),
    (
        "--ranks 2 join barrier 1:join 0:barrier",
        1,
        &[("rank 1 join: this program has joined", 1), ("owner 1 died or left (exit status 1)", 1)],
    ),
    // Jobs of one rank start no copies, and disturb no job whose ranks are copies.
    ("--ranks 2 alone join alone barrier", 0, &[("joined as rank 0 of 1", 4), ("has process", 2)]),
    (
        "--ranks 2 --limit 1 1:sleep=60000 join",
        1,
        &[("rank 1 did not come within 1 s. Read its output, and check that every rank joins", 1)],
    ),
    ("--ranks 3 2:exit=3 join", 1, &[("rank 2 ended before it joined (exit status: 3)", 2)]),
    (
        "--auto 2 --rendezvous 127.0.0.1:1 join",
        1,
        &[("no launcher gives this process a rank: start it with mpirun or srun", 1)],
    ),
];

#[test]
fn ends_spawned_jobs_as_stated() {
    for (arguments, status, texts) in CASES {
        let (ended, output) = run(bounded_job().args(arguments.split(' ')));
        assert_eq!(ended.code(), Some(*status), "{arguments}: {output}");
        for (text, times) in *texts {
            // Ranks other than 0 may be killed before they print their errors.
            let found = output.matches(text).count();
            let fits = found == *times || *status > 0 && (1..=*times).contains(&found);
            assert!(fits, "{arguments}: {text:?} {found} times in {output}");
        }
    }
}

/// Returns whether a process is running. A zombie is not.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap().trim().chars().next();
    state.is_some_and(|state| state != 'Z')
}

#[test]
fn kills_children_with_parent() {
    let arguments = ["--ranks", "3", "join", "barrier", "wait"];
    let mut parent = command(&job()).args(arguments).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let started = lines.filter_map(|line| {
        let (rank, pid) = line.split_once(" has process ")?;
        (rank != "rank 0").then(|| pid.to_owned())
    });
    let children: Vec<_> = started.take(2).collect();
    assert!(children.len() == 2 && children.iter().all(|pid| runs(pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let until = Instant::now() + AT_ONCE;
    while children.iter().any(|pid| runs(pid)) {
        assert!(Instant::now() < until, "{children:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn refuses_to_join_as_orphan() {
    let (status, output) = run(bounded_job()
        .arg("join")
        .env("PROBELINE_RANK", "1")
        .env("PROBELINE_RANKS", "2")
        .env("PROBELINE_RENDEZVOUS", "127.0.0.1:1")
        .env("PROBELINE_PARENT", "1"));
    assert_eq!(status.code(), Some(1));
    assert!(output.contains("the process that started this one has ended"), "{output}");
}

/// Two ranks are started by hand. Connections of strangers use all descriptors of rank 0; the ranks meet
/// nevertheless.
#[test]
fn meets_without_free_descriptors() {
    let address = format!("127.0.0.1:{}", port());
    let rank = |rank: &str| {
        let mut limited = command("sh".as_ref());
        limited.args(["-c", r#"ulimit -n 40; exec timeout 120 "$0" "$@""#]).arg(job());
        limited.args(["--rank", rank, "--size", "2", "--rendezvous", &address, "join", "barrier"]);
        limited.stderr(Stdio::inherit()).spawn().unwrap()
    };
    let mut ranks = vec![rank("0")];
    let strangers: Vec<_> = (0..100).map(|_| connect(&address)).collect();
    ranks.push(rank("1"));
    assert!(ranks.iter_mut().all(|rank| rank.wait().unwrap().success()));
    drop(strangers);
}

/// Connects to rank 0, and tries again until it listens.
fn connect(address: &str) -> TcpStream {
    let until = Instant::now() + AT_ONCE;
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}
