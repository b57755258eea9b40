//! READ of 64 bytes and compare-and-swap, one at a time, beside `ucx_perftest` and a loop of the bare
//! calls over the same transports, in turn: medians of each round, and the median of the rounds'
//! ratios.
//!
//! ```text
//! latency [--at-most RATIO] [TRANSPORTS ...]       such as: latency posix,sysv,cma,self tcp
//! ```
//! All count from one operation's end to the next one's, by the time stamp counter: the call that
//! posts, the progress until it ends, and the loop around. Here that includes what makes a transport
//! of it (checks, names, slots, the watch over the others), in ucx_perftest its own accounts, and in
//! the bare loop nothing else. The other rank polls all the time, as ucx_perftest's responder does,
//! on a CPU of its own where there are two. The last column is with a thread that sleeps until others
//! ask, the other rank idle.
//!
//! Wants `ucx_perftest` (Debian: ucx-utils) and x86-64.

mod bare;

use core::arch::x86_64::_rdtsc;
use core::error::Error;
use core::time::Duration;
use std::env;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use bare::Bare;
use exchange::{Job, Limits, Options, Start, join};
use pin::{Affinity, CpuId};
use transport::{
    Completion, Exchange, Local, Owner, PostError, RemoteWord, Segment, Slot, Token, Transport,
};
use ucx_shim::ucx::{Atomics, Builder, Engine, Progress};

type Result<T> = core::result::Result<T, Box<dyn Error>>;

/// Odd, for a median.
const ROUNDS: usize = 5;
const WARM_UP: u32 = 200;
/// Longer than any round takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Without CPUs for both, an operation over tcp takes milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// The word of rank 1 at which rank 0 works, that in which it says that it is through, and the one
/// that says that rank 1 has seen it.
const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 16 };
const THROUGH: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };

#[derive(Clone, Copy)]
enum Operation {
    Read,
    CompareAndSwap,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "READ of 64 B",
            Self::CompareAndSwap => "compare-and-swap",
        }
    }

    /// The test of ucx_perftest, and its size.
    fn perftest(self) -> [&'static str; 2] {
        match self {
            Self::Read => ["ucp_get", "64"],
            Self::CompareAndSwap => ["ucp_cswap", "8"],
        }
    }

    fn post(self, engine: &mut Engine) -> core::result::Result<(), PostError> {
        let into = Local { slot: Slot(0), start: 0, words: 8 };
        match self {
            Self::Read => engine.read(Token(0), Segment { start: AT, words: 8 }, into),
            Self::CompareAndSwap => engine.compare_and_swap(Token(0), AT, 0, 0),
        }
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        process::exit(1);
    }
}

fn run() -> Result<()> {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let mut at_most = f64::INFINITY;
    if arguments.first().is_some_and(|first| first == "--at-most") {
        at_most = arguments.get(1).ok_or("--at-most takes a ratio")?.parse()?;
        arguments.drain(..2);
    }
    if arguments.is_empty() {
        arguments = ["posix,sysv,cma,self", "tcp"].map(str::to_owned).to_vec();
    }
    let affinity = Affinity::take()?;
    let cpus: Vec<CpuId> = affinity.allowed().iter().collect();
    let limits = Limits { rendezvous: PATIENCE, collective: 10 * PATIENCE };
    let start = Start::Spawn { ranks: 2, arguments: None };
    let mut job = join(Options { start, parameters: String::new(), secret: None, limits })?;
    let cpu = |rank: u32| cpus[rank as usize % cpus.len()];
    affinity.pin(cpu(job.me().0))?;
    let mut worst: f64 = 0.0;
    for tls in &arguments {
        worst = worst.max(beside(&mut job, tls, [cpu(0), cpu(1)])?);
    }
    for (rank, status) in job.finish(PATIENCE) {
        if !status.is_some_and(|status| status.success()) {
            return Err(format!("rank {rank} ended badly").into());
        }
    }
    if worst > at_most {
        return Err(format!("{worst:.2} is more than {at_most}").into());
    }
    Ok(())
}

/// One set of transports; in rank 0 the larger one of the two ratios, with rank 1 polling.
fn beside(job: &mut Job, tls: &str, cpus: [CpuId; 2]) -> Result<f64> {
    let open = |job: &mut Job, progress| {
        let builder = Builder::new(64).slots(4, 64).depth(1).tls(Some(tls)).atomics(Atomics::Cpu);
        builder.progress(progress).open(job)
    };
    let mut polled = open(job, Progress::Caller)?;
    let mut threaded = open(job, Progress::Thread)?;
    let mut bare = Bare::open(job, tls)?;
    let first = job.me() == Owner(0);
    if first {
        println!("{}", threaded.describe());
    }
    let mut worst: f64 = 0.0;
    for operation in [Operation::Read, Operation::CompareAndSwap] {
        let [mut theirs, mut loops, mut ours, mut idle] = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            if first {
                theirs.push(perftest(operation, tls, cpus)?);
            }
            job.barrier()?;
            if first {
                loops.push(measure(|| bare.once(operation))?);
                bare.tell_through()?;
            } else {
                bare.poll_until_through();
            }
            job.barrier()?;
            if first {
                ours.push(measure(|| once(operation, &mut polled))?);
                tell_through(&mut polled)?;
            } else {
                poll_until_through(&mut polled)?;
            }
            job.barrier()?;
            if first {
                idle.push(measure(|| once(operation, &mut threaded))?);
            }
            job.barrier()?;
        }
        if first {
            worst = worst.max(report(operation, &theirs, &loops, &ours, &idle));
        }
    }
    Ok(worst)
}

fn report(operation: Operation, theirs: &[f64], loops: &[f64], ours: &[f64], idle: &[f64]) -> f64 {
    let ratio = |these: &[f64], those: &[f64]| {
        median(these.iter().zip(those).map(|(this, that)| this / that).collect())
    };
    let of = |name: &str, these: &[f64]| {
        println!(
            "  {name:22} {:9.3} us, {:6.2} of ucx_perftest, {:6.2} of the bare calls",
            median(these.to_vec()),
            ratio(these, theirs),
            ratio(these, loops),
        );
    };
    println!("{}", operation.name());
    of("ucx_perftest", theirs);
    of("the bare calls", loops);
    of("here", ours);
    of("here, owner asleep", idle);
    ratio(ours, theirs)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median in microseconds.
fn measure(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..WARM_UP {
        once()?;
    }
    let mut ticks = Vec::with_capacity(300_000);
    let start = Instant::now();
    let first = now();
    let mut before = first;
    while ticks.len() < ticks.capacity() {
        once()?;
        let after = now();
        ticks.push(after - before);
        before = after;
        if ticks.len() % 1024 == 0 && start.elapsed() > TIME_LIMIT {
            break;
        }
    }
    let us_a_tick = start.elapsed().as_secs_f64() * 1e6 / (before - first) as f64;
    ticks.sort_unstable();
    Ok(ticks.get(ticks.len() / 2).copied().unwrap_or(0) as f64 * us_a_tick)
}

#[inline]
fn once(operation: Operation, engine: &mut Engine) -> Result<()> {
    operation.post(engine)?;
    let mut end = [Completion::default()];
    while engine.poll(&mut end)? == 0 {}
    end[0].result?;
    Ok(())
}

fn now() -> u64 {
    // SAFETY: reads a counter that every CPU of x86-64 has.
    unsafe { _rdtsc() }
}

fn tell_through(engine: &mut Engine) -> Result<()> {
    engine.fetch_add(Token(0), THROUGH, 1)?;
    let mut end = [Completion::default()];
    while engine.poll(&mut end)? == 0 {}
    end[0].result?;
    Ok(())
}

fn poll_until_through(engine: &mut Engine) -> Result<()> {
    use core::sync::atomic::Ordering::{Acquire, Release};
    let mut none = [Completion::default()];
    while engine.window()[0].load(Acquire) == 0 {
        engine.poll(&mut none)?;
    }
    // What answers rank 0 leaves with one of these.
    for _ in 0..100_000 {
        engine.poll(&mut none)?;
    }
    engine.window()[0].store(0, Release);
    Ok(())
}

/// The median that ucx_perftest prints, in microseconds.
fn perftest(operation: Operation, tls: &str, [first, second]: [CpuId; 2]) -> Result<f64> {
    // Above those that the system hands out, and another one each time: they linger.
    let port = (61_000 + process::id() % 4_000).to_string();
    let [test, size] = operation.perftest();
    let command = |cpu: CpuId| {
        let mut command = Command::new("ucx_perftest");
        command.args(["-p", &port, "-c", &cpu.0.to_string()]);
        command.env("UCX_TLS", tls).env("UCX_ATOMIC_MODE", "cpu").stdin(Stdio::null());
        command
    };
    let mut server =
        Ending(command(second).stdout(Stdio::null()).spawn().map_err(|error| {
            format!("ucx_perftest: {error}; install ucx-utils (Debian, Ubuntu)")
        })?);
    thread::sleep(Duration::from_millis(500));
    let iterations = if tls.contains("tcp") { "1000" } else { "300000" };
    let client = command(first)
        .args(["localhost", "-t", test, "-s", size, "-O", "1", "-f", "-v"])
        .args(["-n", iterations, "-w", &WARM_UP.to_string()])
        .output()?;
    server.0.wait()?;
    let text = String::from_utf8_lossy(&client.stdout);
    let values = text.lines().rev().find_map(|line| line.split(',').nth(1)?.trim().parse().ok());
    values.ok_or_else(|| format!("ucx_perftest said: {text}").into())
}

/// Ended when it is not needed any more.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail only if it is not there any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
