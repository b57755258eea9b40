//! A rank that is killed while it holds a lock, in a release or in a barrier is a fault of the others, within
//! the bound of the transport. A rank that is stopped is none: its pages and locks need no CPU of it.

use core::time::Duration;
use std::process::Command;
use std::time::Instant;

use probeline_dsm::{CollectiveError, Config, Operation, OperationError, Region};
use probeline_exchange::Job;
use probeline_exchange::testing::{Plan, gather, kill_after, start, succeed, succeed_without};
use probeline_shm::{Builder, Engine};
use probeline_transport::{Exchange, Fault, Owner};

const RANKS: u32 = 3;
/// The rank that is killed.
const VICTIM: Owner = Owner(2);
/// An engine notices a loss within a second; the machine may be busy.
const BOUND: Duration = Duration::from_secs(20);

type Rank = Region<u64, Engine, [Operation; 8], Vec<u64>>;

fn main() {
    probeline_exchange::testing::run(&[
        ("a_holder_of_a_lock_is_killed", Plan::Run(holder)),
        ("a_rank_is_killed_in_its_releases", Plan::Run(releases)),
        ("a_rank_is_killed_before_a_barrier", Plan::Run(barrier)),
        (POLLS, Plan::Run(|| by_cpu(POLLS, |region| region.poll().map(drop)))),
        (READS, Plan::Run(|| by_cpu(READS, read))),
        ("a_frozen_home_serves_its_pages_and_locks", Plan::Run(frozen)),
    ]);
}

/// Sends a signal to a process of this test.
fn signal(name: &str, process: u64) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// The home of pages and locks is stopped while the others work on them.
fn frozen() {
    let mut job = start("a_frozen_home_serves_its_pages_and_locks", RANKS);
    let mut region = open(&mut job, CONFIG);
    let processes = gather(&mut job, std::process::id().into());
    let victim = processes[VICTIM.0 as usize];
    // The last page is at the last rank, and so is lock 2.
    let element = 99_999;
    if job.me() == Owner(0) {
        signal("-STOP", victim);
    }
    if job.me() != VICTIM {
        for _ in 0..100 {
            region.acquire(2).unwrap();
            region.edit(element..element + 1).unwrap()[0] += 1;
            region.release(2).unwrap();
        }
        // Without the exchange, which the stopped process would not answer.
        let sum = |region: &mut Rank| -> u64 {
            region.acquire(2).unwrap();
            let sum = region.view(element..element + 1).unwrap()[0];
            region.release(2).unwrap();
            sum
        };
        let begun = Instant::now();
        while sum(&mut region) < 200 {
            assert!(begun.elapsed() < BOUND, "the other rank has not come so far");
        }
    }
    if job.me() == Owner(0) {
        signal("-CONT", victim);
    }
    region.barrier(&mut job).unwrap();
    assert_eq!(region.view(element..element + 1).unwrap(), [200]);
    job.barrier().unwrap();
    drop(region);
    succeed(job);
}

const CONFIG: Config = Config::new(100_000);

fn open(job: &mut Job, config: Config) -> Rank {
    let engine = Builder::new(config.sizes::<u64>(RANKS, 8)).open(job).unwrap();
    let memory = vec![0; config.memory_words::<u64>(RANKS)];
    Region::open(engine, config, [Operation::EMPTY; 8], memory, job).unwrap()
}

/// Runs a test in a job whose rank [`VICTIM`] is killed, and calls `others` on the others.
fn run(
    config: Config,
    name: &str,
    victim: impl FnOnce(&mut Rank, &mut Job),
    others: impl FnOnce(Rank, &mut Job),
) {
    let mut job = start(name, RANKS);
    let mut region = open(&mut job, config);
    if job.me() == VICTIM {
        victim(&mut region, &mut job);
        kill_after(1);
        loop {
            std::thread::park();
        }
    }
    let begun = Instant::now();
    others(region, &mut job);
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    succeed_without(job, VICTIM);
}

fn lost(result: Result<(), OperationError>) {
    assert_eq!(result, Err(OperationError::Fault(Fault::OwnerLost(VICTIM))));
}

fn holder() {
    let victim = |region: &mut Rank, job: &mut Job| {
        region.acquire(1).unwrap();
        job.barrier().unwrap();
    };
    run(CONFIG, "a_holder_of_a_lock_is_killed", victim, |mut region, job| {
        job.barrier().unwrap();
        lost(region.acquire(1));
        // Nothing of it works any more.
        assert!(region.view(0..1).is_err());
        assert!(region.barrier(job).is_err());
    });
}

fn releases() {
    let count = |region: &mut Rank, lock: u32| -> Result<(), OperationError> {
        region.acquire(lock)?;
        for element in [0, 40_000, 90_000] {
            region.edit(element..element + 1)?[0] += 1;
        }
        let ([first, second, third], []) =
            region.access([0..1, 40_000..40_001, 90_000..90_001], [])?;
        assert_eq!((first, second), (second, third), "half of a release was seen");
        region.release(lock)
    };
    let victim = |region: &mut Rank, job: &mut Job| {
        job.barrier().unwrap();
        kill_after(3_000_000);
        while count(region, 0).is_ok() {}
    };
    run(CONFIG, "a_rank_is_killed_in_its_releases", victim, |mut region, job| {
        job.barrier().unwrap();
        let begun = Instant::now();
        loop {
            match count(&mut region, 0) {
                Ok(()) => assert!(begun.elapsed() < BOUND, "the loss was not noticed"),
                result => break lost(result),
            }
        }
    });
}

fn barrier() {
    let victim = |region: &mut Rank, _: &mut Job| {
        region.edit(5..6).unwrap()[0] = 9;
    };
    run(CONFIG, "a_rank_is_killed_before_a_barrier", victim, |mut region, job| {
        let passed = region.barrier(job);
        assert!(matches!(passed, Err(CollectiveError::Exchange(_))), "{passed:?}");
        assert_eq!(region.view(5..6).unwrap_err(), OperationError::BarrierFailed);
    });
}

const POLLS: &str = "a_rank_is_killed_while_others_poll_and_send";
const READS: &str = "a_rank_is_killed_while_others_read_and_send";

/// Reads two pages, each of which displaces the other.
fn read(region: &mut Rank) -> Result<(), OperationError> {
    region.view(0..1)?;
    region.view(90_000..90_001).map(drop)
}

/// The CPU reaches all pages and locks, so that nothing is ever in flight. Rank 0 makes one call, rank 1 sends changes.
fn by_cpu(name: &str, call: fn(&mut Rank) -> Result<(), OperationError>) {
    let send = |region: &mut Rank| {
        region.edit(90_000..90_001)?[0] += 1;
        region.start_barrier()?;
        region.poll().map(drop)
    };
    let victim = |_: &mut Rank, job: &mut Job| job.barrier().unwrap();
    run(Config { mirror_pages: 1, ..CONFIG }, name, victim, |mut region, job| {
        job.barrier().unwrap();
        let (begun, is_first) = (Instant::now(), job.me() == Owner(0));
        let noticed = loop {
            match if is_first { call(&mut region) } else { send(&mut region) } {
                Ok(()) => assert!(begun.elapsed() < BOUND, "the loss was not noticed"),
                lost => break lost,
            }
        };
        lost(noticed);
    });
}
