//! Runs tests in jobs of processes. Each process is a copy of the test program that runs the same
//! test.
//!
//! A test program without the standard harness calls [`run`] from `main`. Its tests call [`start`]
//! and [`finish`]. Random runs have seeds, which can be replayed.

pub mod headers;
mod kill;
mod watched;

use core::sync::atomic::{AtomicU16, Ordering};
use core::time::Duration;
use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::process::{self, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::SystemTime;

use crate::{Job, JoinError, Limits, Options, Start, Thread, join, threads};
use probeline_transport::conformance::{Case, Failure, Report, Verdict, cases, on_threads};
use probeline_transport::{Call, Exchange, ExchangeError, Owner, Term};

pub use kill::{fork, kill_after, succeed_without, wait_for_kill};
pub use watched::{Access, AnyEngine, Posts, Watched};

/// The maximum time to wait for other processes. Every phase of a test takes less on a busy
/// machine, so only a test that hangs exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A test, or the reason why it cannot run.
pub enum Plan {
    /// Run this test.
    Run(fn()),
    /// Count the test as ignored, for this reason.
    Ignore(&'static str),
}

/// Runs tests in sequence, prints a summary like the standard test harness, and exits.
///
/// Runs the tests whose names contain the program's first argument, or equal it with `--exact`.
/// Without an argument it runs all tests.
pub fn run(tests: &[(&str, Plan)]) -> ! {
    let (flags, names): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|a| a.starts_with('-'));
    let exact = flags.iter().any(|flag| flag == "--exact");
    let wanted = |name: &str| match names.first() {
        Some(part) if exact => name == part,
        Some(part) => name.contains(part),
        None => true,
    };
    let [mut passed, mut failed, mut ignored] = [0; 3];
    for (name, plan) in tests.iter().filter(|(name, _)| wanted(name)) {
        let (result, count) = match plan {
            Plan::Run(test) if catch_unwind(test).is_ok() => ("ok".to_owned(), &mut passed),
            Plan::Run(_) => ("FAILED".to_owned(), &mut failed),
            Plan::Ignore(reason) => (format!("ignored, {reason}"), &mut ignored),
        };
        *count += 1;
        println!("test {name} ... {result}");
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored");
    process::exit(failed);
}

/// Joins a job of `ranks` processes that run the test `test`. The process that cargo started is
/// rank 0. The other ranks run the same program, which calls `start` from the same test.
///
/// # Panics
/// If a rank does not join.
#[must_use]
pub fn start(test: &str, ranks: u32) -> Job {
    let arguments = Some(vec![test.into(), "--exact".into()]);
    join(Options {
        start: Start::Spawn { ranks, arguments },
        parameters: test.into(),
        limits: Limits { rendezvous: PATIENCE, collective: PATIENCE },
        ..Options::default()
    })
    .unwrap()
}

/// Leaves the job. On rank 0 it returns the exit statuses of the other ranks, in order of ranks.
/// The processes of the other ranks exit.
///
/// # Panics
/// If a process does not exit.
pub fn finish(job: Job) -> Vec<ExitStatus> {
    if job.me() != Owner(0) {
        drop(job);
        process::exit(0);
    }
    let mut statuses = vec![ExitStatus::default(); job.owners() as usize - 1];
    match job.finish(PATIENCE) {
        Ok(()) => {}
        Err(JoinError::RanksFailed { ranks }) => {
            for (rank, status) in ranks {
                statuses[rank as usize - 1] = status.unwrap_or_else(|| panic!("rank {rank} hung"));
            }
        }
        Err(error) => panic!("{error}"),
    }
    statuses
}

/// Leaves the job, and checks on rank 0 that all other processes succeed.
///
/// # Panics
/// If a process fails or does not exit.
pub fn succeed(job: Job) {
    let statuses = finish(job);
    assert!(statuses.iter().all(ExitStatus::success), "{statuses:?}");
}

/// Runs `body` on this many threads, the ranks of a job. Returns the results in the order of ranks.
pub fn on_ranks<R: Send>(ranks: u32, body: impl Fn(Thread) -> R + Sync) -> Vec<R> {
    on_threads(threads(ranks), body)
}

/// Returns the result of `work`.
///
/// # Panics
/// If `work` takes longer than [`PATIENCE`], or panics.
pub fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).expect("an end in time")
}

/// Returns a free port below those that the system uses for outgoing connections.
///
/// # Panics
/// If the list of sockets cannot be read.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(process::id() % 10_000).unwrap();
    loop {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        // Reads the list of sockets instead of calling bind(2): a process that another test starts
        // meanwhile would inherit the socket.
        let mut in_use = fs::read_to_string("/proc/net/tcp").unwrap();
        // The file does not exist if the kernel has no IPv6.
        in_use.push_str(&fs::read_to_string("/proc/net/tcp6").unwrap_or_default());
        if !in_use.contains(&format!(":{port:04X} ")) {
            return port;
        }
    }
}

/// Checks the results of an exchange's calls, with contributions of up to `max` bytes. All members call it.
///
/// # Panics
/// If a result is wrong.
pub fn check_calls(exchange: &mut dyn Exchange, max: u32) {
    let (me, owners) = (exchange.me().0, exchange.owners());
    for bytes in [0, 1, 7, max, 3, 8] {
        let part = |from: u32, to: u32| {
            (0..bytes).map(move |at| (at * 31 + from * 7 + to * 5).to_le_bytes()[0])
        };
        let mine: Vec<u8> = part(me, 0).collect();
        let mut all = vec![0; (bytes * owners) as usize];
        exchange.all_gather(&mine, &mut all).unwrap();
        assert!(all.into_iter().eq((0..owners).flat_map(|from| part(from, 0))), "{bytes} gathered");
        let mine: Vec<u8> = (0..owners).flat_map(|to| part(me, to)).collect();
        let mut theirs = vec![0; mine.len()];
        exchange.all_to_all(&mine, &mut theirs).unwrap();
        assert!(
            theirs.into_iter().eq((0..owners).flat_map(|from| part(from, me))),
            "{bytes} to all"
        );
        exchange.barrier().unwrap();
    }
    let (me, owners) = (u64::from(me), u64::from(owners));
    let mut terms = [Term::Sum(me + 1), Term::Min(me + 3), Term::Max(me), Term::Sum(u64::MAX)];
    exchange.reduce(Call::new("test"), &mut terms).unwrap();
    assert_eq!(terms.map(Term::value), [owners * (owners + 1) / 2, 3, owners - 1, u64::MAX]);
    assert_eq!(exchange.sum(me), Ok(owners * (owners - 1) / 2));
    assert_eq!((exchange.min(me + 5), exchange.max(me)), (Ok(5), Ok(owners - 1)));
    // An exchange that does not count returns 0.
    assert!([0, 22].contains(&exchange.calls()), "{} calls", exchange.calls());
}

/// Runs the conformance suite as the test `test` in a job of `owners` processes. `run` opens an
/// engine and runs one case.
///
/// # Panics
/// If a case fails, or the skipped cases differ from `skips`.
pub fn conformance(
    test: &str,
    owners: u32,
    skips: &[&str],
    run: impl Fn(&Case, &mut Job) -> Result<Verdict, Failure>,
) {
    let mut job = start(test, owners);
    let mut report = Report::new(owners);
    for case in cases(owners) {
        let own = run(case, &mut job);
        report.gather(case, own, &mut job).unwrap();
    }
    succeed(job);
    report.judge(skips).unwrap();
}

/// An exchange whose other owner runs another build: it opens a structure with the parameters of this
/// one, except for the first, the fingerprint of the build.
#[derive(Debug, Default)]
pub struct OtherBuild {
    steps: u32,
}

impl Exchange for OtherBuild {
    fn me(&self) -> Owner {
        Owner(0)
    }

    fn owners(&self) -> u32 {
        2
    }

    fn all_gather(&mut self, _: &[u8], _: &mut [u8]) -> Result<(), ExchangeError> {
        unreachable!("only reductions are called")
    }

    /// Answers the steps of `Collective::agree`: all parameters, their number, the first one; then
    /// what owner 0 has, who differs, and what that owner has.
    fn reduce(&mut self, _: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let [failed, sum, min, max] = terms else { panic!("a step has four words: {terms:?}") };
        failed.add(u64::MAX);
        let value = match self.steps {
            0 | 2 => min.value() ^ 2,
            1 => min.value(),
            4 => 1,
            _ => 0,
        };
        min.add(value);
        max.add(value);
        sum.add(u64::from(self.steps == 5));
        self.steps += 1;
        Ok(())
    }
}

/// The variable that names the seed to replay.
const VARIABLE: &str = "PROBELINE_SEED";

/// Returns the seed to replay, if one is named.
///
/// # Panics
/// If it is not a number.
#[must_use]
pub fn replayed_seed() -> Option<u64> {
    let seed = env::var(VARIABLE).ok()?;
    Some(seed.parse().expect("PROBELINE_SEED is a number"))
}

/// Returns the seeds to try: 0 to `count`, or the one to replay.
#[must_use]
pub fn seeds(count: u64) -> Vec<u64> {
    replayed_seed().map_or_else(|| (0..count).collect(), |seed| vec![seed])
}

/// Returns the same seed on all ranks, the one to replay or a random one, which rank 0 prints.
///
/// # Panics
/// If the exchange fails.
pub fn seed_of_job(job: &mut Job) -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_micros());
    #[allow(clippy::cast_possible_truncation)]
    let seed = gather(job, replayed_seed().unwrap_or(now as u64))[0];
    if job.me() == Owner(0) {
        println!("{VARIABLE}={seed}");
    }
    seed
}

/// Gathers a number of each rank, by rank.
///
/// # Panics
/// If the exchange fails.
pub fn gather(exchange: &mut (impl Exchange + ?Sized), mine: u64) -> Vec<u64> {
    let mut all = vec![0; 8 * exchange.owners() as usize];
    exchange.all_gather(&mine.to_ne_bytes(), &mut all).unwrap();
    all.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

/// Prints the seed and the test that it replays if the test fails.
pub struct Replay(pub u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            let thread = thread::current();
            eprintln!("replay {}: {VARIABLE}={}", thread.name().unwrap_or_default(), self.0);
        }
    }
}
