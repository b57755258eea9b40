//! Processes push to and pop from one ring, and some of them are killed in the middle of pushes. Each value
//! whose push returned is popped once, in the order of its process; tickets of the dead are named and skipped. In some
//! rounds the process that is killed waits with a ticket, so that some die there on any machine.
//!
//! The killed processes are forks of owners, as in the table's test of the same name.

#![allow(clippy::cast_possible_truncation, reason = "counts are small")]

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_containers::queue::{Action, Config, Operation, Queue};
use probeline_containers::{BatchError, OperationError};
use probeline_exchange::Job;
use probeline_exchange::testing::{Plan, fork, gather, kill_after, seed_of_job, wait_for_kill};
use probeline_shm::{Builder, Engine};
use probeline_sim::Rng;
use probeline_transport::{Exchange, Owner, Transport};

const TEST: &str = "killed_pushes_lose_nothing_else";
const RANKS: u32 = 2;
/// Each rank is a client, and so is its fork, which is killed.
const CLIENTS: u32 = 2 * RANKS;
const ROUNDS: u64 = 400;
/// Values of a client in a round.
const VALUES: u32 = 4_000;
/// Values that a client pushes together.
const BATCH: usize = 3;

type Ring = Queue<Engine, Vec<Operation<[u32; 2]>>, [u32; 2]>;

fn main() {
    probeline_exchange::testing::run(&[(TEST, Plan::Run(rounds))]);
}

fn rounds() {
    let mut job = probeline_exchange::testing::start(TEST, RANKS);
    let seed = seed_of_job(&mut job);
    let mut skipped = 0;
    for nth in 0..ROUNDS {
        let host = Owner(u32::try_from(nth).unwrap() % RANKS);
        let waits = (nth / u64::from(RANKS)).is_multiple_of(8);
        skipped += Round::open(&mut job, host).run(&mut job, Rng::new(seed, nth), waits);
    }
    let skipped: u64 = gather(&mut job, skipped).into_iter().sum();
    if job.me() == Owner(0) {
        println!("{ROUNDS} rounds, {skipped} tickets of killed processes");
    }
    assert!(skipped > 0, "no process died between its ticket and its value");
    probeline_exchange::testing::succeed(job);
}

struct Round {
    queue: Ring,
    host: Owner,
    /// Whether each value was popped, by client and number.
    popped: Vec<u8>,
    /// The number after the last one popped, by client.
    next: Vec<u32>,
}

impl Round {
    fn open(job: &mut Job, host: Owner) -> Self {
        let config = Config { in_flight: 8, ..Config::new(50) };
        let mut sizes = config.sizes::<[u32; 2]>(RANKS, 8);
        // What the fork of this owner has begun, and what has returned.
        sizes.window_words += 2;
        let engine = Builder::new(sizes).open(job).unwrap();
        let queue = Queue::open(engine, config, vec![Operation::EMPTY; 8], job).unwrap();
        let popped = vec![0; (CLIENTS * VALUES) as usize];
        Self { queue, host, popped, next: vec![0; CLIENTS as usize] }
    }

    /// Returns the tickets that this rank skipped.
    fn run(mut self, job: &mut Job, mut rng: Rng, waits: bool) -> u64 {
        let me = job.me().0;
        let delay = 50_000 + rng.below(2_000_000);
        let victim = fork(|| {
            kill_after(delay);
            let mut numbers = 0;
            if waits {
                self.queue.call(&self.host, Action::Take(1)).unwrap();
            }
            while !waits && numbers + BATCH as u32 <= VALUES {
                self.record(0).store(u64::from(numbers) + BATCH as u64, Release);
                numbers += self.push(2 * me + 1, numbers);
                self.record(1).store(numbers.into(), Release);
            }
            loop {
                std::thread::yield_now();
            }
        });
        let mut numbers = 0;
        // Behind the ticket of a killed process the ring fills, until the end.
        for _ in 0..VALUES / 10 {
            numbers += self.push(2 * me, numbers);
            self.pop().ok();
        }
        wait_for_kill(victim);
        job.barrier().unwrap();
        let skipped = self.drain();
        let [begun, returned] = [0, 1].map(|nth| self.record(nth).load(Acquire));
        self.compare(job, [[numbers.into(); 2], [begun, returned]]);
        skipped
    }

    /// Pushes values of a client, one alone or a batch; returns how many had room.
    fn push(&mut self, client: u32, first: u32) -> u32 {
        let values: [_; BATCH] = core::array::from_fn(|nth| [client, first + nth as u32]);
        if first.is_multiple_of(2) {
            return u32::from(self.queue.push(self.host, &values[0]).unwrap());
        }
        self.queue.push_batch(self.host, &values).unwrap() as u32
    }

    /// Pops some values, and returns whether there were any.
    fn pop(&mut self) -> Result<bool, OperationError> {
        let mut values = [[0; 2]; 5];
        let count = match self.queue.pop_batch(self.host, &mut values) {
            Ok(count) => count,
            Err(BatchError::Operation(error) | BatchError::Failed { error, .. }) => {
                return Err(error);
            }
            Err(error) => panic!("{error}"),
        };
        for [client, number] in &values[..count] {
            let next = &mut self.next[*client as usize];
            assert!(number >= next, "{number} of client {client} after {next}");
            *next = number + 1;
            self.popped[(client * VALUES + number) as usize] += 1;
        }
        Ok(count > 0)
    }

    /// Pops all that is left after all pushes have ended, and returns the number of skipped tickets.
    fn drain(&mut self) -> u64 {
        let mut skipped = 0;
        loop {
            match self.pop() {
                Ok(true) => {}
                Ok(false) => return skipped,
                Err(OperationError::Unfinished { ticket }) => {
                    skipped += u64::from(self.queue.skip(self.host, ticket).unwrap());
                }
                Err(OperationError::Contended { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns a word of this owner's window behind those of the queue.
    fn record(&self, nth: usize) -> &AtomicU64 {
        let window = self.queue.transport().window();
        &window[window.len() - 2 + nth]
    }

    /// Compares what all ranks have popped with what was begun and what has returned, of each client.
    fn compare(&self, job: &mut Job, of_clients: [[u64; 2]; 2]) {
        let begun_and_returned: Vec<Vec<u64>> =
            of_clients.into_iter().flatten().map(|count| gather(job, count)).collect();
        let mut all = vec![0; self.popped.len() * RANKS as usize];
        job.all_gather(&self.popped, &mut all).unwrap();
        for client in 0..CLIENTS {
            let (rank, of) = (client as usize / 2, client as usize % 2 * 2);
            let [begun, returned] = [of, of + 1].map(|of| begun_and_returned[of][rank]);
            for number in 0..VALUES {
                let at = (client * VALUES + number) as usize;
                let times: u8 = all.chunks(self.popped.len()).map(|popped| popped[at]).sum();
                let expected = match u64::from(number) {
                    number if number < returned => 1..=1,
                    number => 0..=u8::from(number < begun),
                };
                assert!(
                    expected.contains(&times),
                    "value {number} of client {client}: popped {times} times, {returned} returned"
                );
            }
        }
        job.barrier().unwrap();
    }
}
