//! Owners that are killed while everybody has operations in flight: each operation ends once, and
//! the survivors name who was lost.

use std::collections::HashSet;
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command};
use std::time::Instant;

use probeline_exchange::Job;
use probeline_testing::Plan;
use probeline_transport::{
    Completion, Exchange, Fault, Local, OpError, Owner, PostError, RemoteWord, Segment, Slot,
    Token, Transport,
};
use probeline_ucx_shim::ucx::{Builder, Engine, Progress};

const OWNERS: u32 = 4;
const WINDOW_WORDS: u64 = 64;
const SLOTS: u32 = 4;
const SLOT_WORDS: u32 = 16;
const DEPTH: u32 = 8;
const ROUNDS: u32 = 5;
/// The victim is killed within this time after all owners have started to work.
const KILLED_WITHIN_NS: u64 = 100_000_000;
/// What UCX says when it ends a process that has requests of a lost owner to answer over tcp
/// (`firmware-notes/lost-owners-over-ucx.md`).
const ENDED_BY_UCX: [&str; 2] = ["ucp_request.inl:", "Fatal: unexpected error: Endpoint timeout"];
/// UCX has ended a process in up to one of four runs: in all of so many, in one of 65,000.
const TRIES: u32 = 8;
/// Set for the processes of one try.
const TRY: &str = "KILLED_TRY";

fn main() {
    probeline_testing::run(&[
        ("shared", Plan::Run(|| kill_in_rounds("shared", "posix,sysv,cma,self", Progress::Thread))),
        ("alone", Plan::Run(|| kill_in_rounds("alone", "posix,sysv,cma,self", Progress::Caller))),
        ("tcp", Plan::Run(over_tcp)),
    ]);
}

/// Runs the test in processes of its own, and again where UCX itself has ended one of them. Each
/// try ends by itself: its phases wait for [`probeline_testing::PATIENCE`] at most.
fn over_tcp() {
    if env::var_os(TRY).is_some() {
        kill_in_rounds("tcp", "tcp", Progress::Thread);
        process::exit(0);
    }
    for tried in 1..=TRIES {
        let mut program = Command::new(env::current_exe().unwrap());
        let end = program.args(["tcp", "--exact"]).env(TRY, "").output().unwrap();
        let [said, complaints] =
            [&end.stdout, &end.stderr].map(|said| String::from_utf8_lossy(said));
        if end.status.success() {
            print!("{said}");
            return println!("tcp: UCX itself ended processes in {} of {tried} runs", tried - 1);
        }
        let fatal = complaints.lines().find(|line| ENDED_BY_UCX.iter().all(|it| line.contains(it)));
        let Some(fatal) = fatal else { panic!("{}\n{said}{complaints}", end.status) };
        println!("tcp: run {tried} is repeated, UCX ended a process: {fatal}");
    }
    panic!("UCX itself ended processes in each of {TRIES} runs");
}

fn kill_in_rounds(test: &str, tls: &str, progress: Progress) {
    let seed = now_ns();
    let mut dice = Dice(seed | 1);
    let mut worst_ms = 0;
    for _ in 0..ROUNDS {
        let mut job = probeline_testing::start(test, OWNERS);
        let engine = Builder::new(WINDOW_WORDS)
            .slots(SLOTS, SLOT_WORDS)
            .depth(DEPTH)
            .tls(Some(tls))
            .progress(progress)
            .open(&mut job)
            .unwrap();
        let mut stream = Stream::new(engine, seed.rotate_left(7 * job.me().0));
        while stream.accepted < u64::from(DEPTH) {
            stream.step().unwrap();
        }
        let victim = 1 + dice.below(u64::from(OWNERS) - 1);
        let kill_at = now_ns() + dice.below(KILLED_WITHIN_NS);
        let [victim, kill_at] = said_by_the_first(&mut job, [victim, kill_at]);
        worst_ms = worst_ms.max(kill_one(job, stream, victim, kill_at));
    }
    println!("{test}: seed {seed}, rank 0 knew after at most {worst_ms} ms");
}

/// Operates until owner `victim` is killed, at the time `kill_at`; milliseconds from then on.
fn kill_one(mut job: Job, mut stream: Stream, victim: u64, kill_at: u64) -> u64 {
    let me = job.me();
    let mut pids = [0_u8; 4 * OWNERS as usize];
    job.all_gather(&process::id().to_ne_bytes(), &mut pids).unwrap();
    let pids: Vec<i32> = pids.as_chunks().0.iter().map(|pid| i32::from_ne_bytes(*pid)).collect();
    let start = Instant::now();
    let mut killed = me != Owner(0);
    let fault = loop {
        if !killed && now_ns() >= kill_at {
            killed = true;
            let pid = pids[usize::try_from(victim).unwrap()];
            // SAFETY: a child of rank 0, which has not been waited for.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        }
        if let Err(fault) = stream.step() {
            break fault;
        }
        assert!(start.elapsed() < probeline_testing::PATIENCE, "never noticed");
    };
    let took_ns = now_ns().saturating_sub(kill_at);
    assert_eq!(fault, Fault::OwnerLost(Owner(u32::try_from(victim).unwrap())));
    assert_eq!((stream.open.len(), stream.engine.in_flight()), (0, 0), "not reported");
    assert_eq!(stream.engine.fetch_add(Token(0), word(0, 0), 1), Err(PostError::Closed));
    assert_eq!(stream.engine.poll(&mut [Completion::default()]), Err(fault), "and it stays");

    // Rank 0 waits for the others' ends no longer than its patience.
    drop(stream);
    let ends = probeline_testing::finish(job);
    for (rank, end) in (1..).zip(&ends) {
        let expected = (rank == victim).then_some(libc::SIGKILL);
        assert_eq!(end.signal(), expected, "rank {rank}: {end}");
        assert!(rank == victim || end.success(), "rank {rank}: {end}");
    }
    took_ns / 1_000_000
}

/// One owner's stream of random operations, and the account of their ends.
struct Stream {
    engine: Engine,
    dice: Dice,
    accepted: u64,
    open: HashSet<u64>,
    failed: bool,
}

impl Stream {
    fn new(engine: Engine, seed: u64) -> Self {
        Self { engine, dice: Dice(seed | 1), accepted: 0, open: HashSet::new(), failed: false }
    }

    /// Posts a random operation and polls for a random number of ends.
    fn step(&mut self) -> Result<(), Fault> {
        let token = self.accepted;
        match self.post(Token(token)) {
            Ok(()) => {
                assert!(!self.failed, "accepted after a failure");
                self.accepted += 1;
                self.open.insert(token);
            }
            Err(PostError::Full | PostError::Closed) => {}
            Err(error) => panic!("{error}"),
        }
        let mut out = [Completion::default(); 3];
        let room = usize::try_from(self.dice.below(4)).unwrap();
        let ends = self.engine.poll(&mut out[..room])?;
        for end in &out[..ends] {
            assert!(self.open.remove(&end.token.0), "reported twice or never accepted");
            let Err(error) = end.result else { continue };
            assert!(matches!(error, OpError::RetryExceeded | OpError::Flushed), "{error:?}");
            self.failed = true;
        }
        Ok(())
    }

    fn post(&mut self, token: Token) -> Result<(), PostError> {
        let owner = u32::try_from(self.dice.below(OWNERS.into())).unwrap();
        let words = u32::try_from(1 + self.dice.below(SLOT_WORDS.into())).unwrap();
        let at = word(owner, self.dice.below(WINDOW_WORDS - u64::from(words)));
        let remote = Segment { start: at, words };
        let slot = Slot(u32::try_from(self.dice.below(SLOTS.into())).unwrap());
        let local = Local { slot, start: 0, words };
        match self.dice.below(4) {
            0 => self.engine.read(token, remote, local),
            1 => self.engine.write(token, local, remote),
            2 => self.engine.compare_and_swap(token, at, 0, token.0),
            _ => self.engine.fetch_add(token, at, 1),
        }
    }
}

fn word(owner: u32, index: u64) -> RemoteWord {
    RemoteWord { owner: Owner(owner), index }
}

/// What rank 0 says, told to everybody.
fn said_by_the_first(job: &mut Job, values: [u64; 2]) -> [u64; 2] {
    let mine: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut all = vec![0; mine.len() * OWNERS as usize];
    job.all_gather(&mine, &mut all).unwrap();
    let (words, _) = all.as_chunks();
    [0, 1].map(|i| u64::from_ne_bytes(words[i]))
}

/// Nanoseconds of the machine's clock, the same for all processes.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

/// A xorshift generator; the seed is printed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
