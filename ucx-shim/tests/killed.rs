//! An owner is killed while all owners have operations in flight. Each operation completes once,
//! and the other owners report the lost owner.

use std::collections::HashSet;
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command};
use std::time::Instant;

use probeline_exchange::Job;
use probeline_testing::Plan;
use probeline_transport::{
    Completion, Exchange, Fault, Local, OpError, Owner, PostError, RemoteWord, Segment, Sizes,
    Slot, Token, Transport,
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
/// The texts that UCX prints when it aborts a process that has unanswered requests of a lost owner
/// over tcp (`firmware-notes/lost-owners-over-ucx.md`).
const ENDED_BY_UCX: [&str; 2] = ["ucp_request.inl:", "Fatal: unexpected error: Endpoint timeout"];
/// The maximum number of runs over tcp. UCX aborts a process in up to one of four runs, hence in
/// all eight runs in one of 65,000 tests.
const TRIES: u32 = 8;
/// The environment variable that is set in the processes of a run.
const TRY: &str = "KILLED_TRY";

fn main() {
    probeline_testing::run(&[
        ("shared", Plan::Run(|| kill_in_rounds("shared", "posix,sysv,cma,self", Progress::Thread))),
        ("alone", Plan::Run(|| kill_in_rounds("alone", "posix,sysv,cma,self", Progress::Caller))),
        ("tcp", Plan::Run(over_tcp)),
    ]);
}

/// Runs the test in other processes, again if UCX itself has ended one of them. Each run is
/// bounded: its phases wait for [`probeline_testing::PATIENCE`] at most.
fn over_tcp() {
    if env::var_os(TRY).is_some() {
        kill_in_rounds("tcp", "tcp", Progress::Thread);
        process::exit(0);
    }
    for tried in 1..=TRIES {
        let mut program = Command::new(env::current_exe().unwrap());
        let end = program.args(["tcp", "--exact"]).env(TRY, "").output().unwrap();
        let [output, errors] = [&end.stdout, &end.stderr].map(|text| String::from_utf8_lossy(text));
        if end.status.success() {
            print!("{output}");
            return println!("tcp: UCX itself ended processes in {} of {tried} runs", tried - 1);
        }
        let fatal = errors.lines().find(|line| ENDED_BY_UCX.iter().all(|it| line.contains(it)));
        let Some(fatal) = fatal else { panic!("{}\n{output}{errors}", end.status) };
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
        let engine =
            Builder::new(Sizes::new(WINDOW_WORDS).with_slots(SLOTS, SLOT_WORDS).with_depth(DEPTH))
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
        let [victim, kill_at] = values_of_rank_0(&mut job, [victim, kill_at]);
        worst_ms = worst_ms.max(kill_one(job, stream, victim, kill_at));
    }
    println!("{test}: seed {seed}, rank 0 reported the loss after at most {worst_ms} ms");
}

/// Posts operations until owner `victim` is killed, at the time `kill_at`. Returns the milliseconds
/// from then on until the loss is reported.
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
        assert!(start.elapsed() < probeline_testing::PATIENCE, "the loss was not reported");
    };
    let took_ns = now_ns().saturating_sub(kill_at);
    assert_eq!(fault, Fault::OwnerLost(Owner(u32::try_from(victim).unwrap())));
    assert_eq!(
        (stream.open.len(), stream.engine.in_flight()),
        (0, 0),
        "operations were not reported"
    );
    assert_eq!(stream.engine.fetch_add(Token(0), word(0, 0), 1), Err(PostError::Closed));
    assert_eq!(stream.engine.poll(&mut [Completion::default()]), Err(fault), "the fault stays");

    drop(stream);
    let ends = probeline_testing::finish(job);
    for (rank, end) in (1..).zip(&ends) {
        let expected = (rank == victim).then_some(libc::SIGKILL);
        assert_eq!(end.signal(), expected, "rank {rank}: {end}");
        assert!(rank == victim || end.success(), "rank {rank}: {end}");
    }
    took_ns / 1_000_000
}

/// Random operations of one owner, and the tokens of those that have not completed.
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

    /// Posts a random operation and polls for a random number of completions.
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

/// Sends the values of rank 0 to all ranks.
fn values_of_rank_0(job: &mut Job, values: [u64; 2]) -> [u64; 2] {
    let mine: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut all = vec![0; mine.len() * OWNERS as usize];
    job.all_gather(&mine, &mut all).unwrap();
    let (words, _) = all.as_chunks();
    [0, 1].map(|i| u64::from_ne_bytes(words[i]))
}

/// The monotonic clock in nanoseconds, which all processes share.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

/// A xorshift generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
