//! Owners in separate processes: killed, of other users, and checked for system calls.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use std::collections::HashSet;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::time::Instant;

use probeline_exchange::Job;
use probeline_exchange::testing::{
    PATIENCE, Plan, finish, gather, run, seed_of_job, start, succeed_without,
};
use probeline_pin::testing::allow_only;
use probeline_shm::{Builder, Engine};
use probeline_transport::conformance::{local, segment, word};
use probeline_transport::{Completion, Exchange, Fault, Owner, PostError, Sizes, Token, Transport};

const WINDOW_WORDS: u64 = 64;
/// The number of words at the start of a window that random operations do not use.
const RESERVED_WORDS: u64 = 16;

fn main() {
    // SAFETY: geteuid only returns a value.
    let is_root = unsafe { libc::geteuid() } == 0;
    let other_user = match is_root {
        true => Plan::Run(another_user_cannot_open_the_memory),
        false => Plan::Ignore("needs root, to become another user"),
    };
    run(&[
        (KILL, Plan::Run(names_killed_owner)),
        (FORBID, Plan::Run(data_path_makes_no_system_call)),
        ("another_user_cannot_open_the_memory", other_user),
    ]);
}

const KILL: &str = "names_killed_owner";
const FORBID: &str = "data_path_makes_no_system_call";

fn open(job: &mut Job) -> Engine {
    Builder::new(Sizes::new(WINDOW_WORDS).with_slots(4, 16).with_depth(8)).open(job).unwrap()
}

/// Returns a reserved word, for loads and stores, which also work on a dead engine.
fn direct(engine: &Engine, owner: u32, index: u64) -> &AtomicU64 {
    &engine.direct(segment(owner, index, 1)).unwrap()[0]
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

/// One owner's stream of random operations, and the record of their completions.
struct Stream {
    engine: Engine,
    dice: Dice,
    accepted: u64,
    open: HashSet<u64>,
}

impl Stream {
    fn new(engine: Engine, seed: u64) -> Self {
        Self { engine, dice: Dice(seed | 1), accepted: 0, open: HashSet::new() }
    }

    /// Posts a random operation and polls for a random number of completions.
    fn step(&mut self) -> Result<(), Fault> {
        let token = self.accepted;
        match self.post(Token(token)) {
            Ok(()) => {
                self.accepted += 1;
                self.open.insert(token);
            }
            Err(PostError::Full | PostError::Closed) => {}
            Err(error) => panic!("{error}"),
        }
        let mut out = [Completion::default(); 3];
        let room = usize::try_from(self.dice.below(4)).unwrap();
        let count = self.engine.poll(&mut out[..room])?;
        for completion in &out[..count] {
            completion.result.unwrap();
            assert!(self.open.remove(&completion.token.0), "reported twice or never accepted");
        }
        Ok(())
    }

    fn post(&mut self, token: Token) -> Result<(), PostError> {
        let owner = u32::try_from(self.dice.below(self.engine.geometry().owners.into())).unwrap();
        let words = u32::try_from(1 + self.dice.below(16)).unwrap();
        let room = WINDOW_WORDS - RESERVED_WORDS - u64::from(words);
        let remote = segment(owner, RESERVED_WORDS + self.dice.below(room), words);
        let local = local(u32::try_from(self.dice.below(4)).unwrap(), 0, words);
        match self.dice.below(4) {
            0 => self.engine.read(token, remote, local),
            1 => self.engine.write(token, local, remote),
            2 => self.engine.compare_and_swap(token, remote.start, 0, token.0),
            _ => self.engine.fetch_add(token, remote.start, 1),
        }
    }
}

/// The index of the word of owner 0 that is set when an owner is killed.
const KILLED: u64 = 0;
/// The index of the first word of owner 0 that holds the time, in microseconds, that a survivor
/// polled until it reported the loss; one word for each rank.
const DETECTION_TIMES: u64 = 1;
/// The contract's bound on reporting a lost owner, for an engine that keeps polling.
const MAX_DETECTION: Duration = Duration::from_secs(1);
/// The maximum time that one turn of a polling loop counts towards that bound. During a longer turn
/// the machine ran other processes.
const MAX_TURN: Duration = Duration::from_millis(1);

fn names_killed_owner() {
    let mut worst_us = 0;
    for round in 0..10 {
        let mut job = start(KILL, 4);
        let mut dice = Dice(seed_of_job(&mut job) | 1);
        let (victim, seed) = (1 + dice.below(3), dice.below(u64::MAX));
        // Half of the victims are killed by another process after some time. The other half kill
        // themselves after some operations.
        // The other ranks are new processes in each round.
        let (after_us, after_operations) = match gather(&mut job, round)[0] % 2 {
            0 => (dice.below(60_000), u64::MAX),
            _ => (u64::MAX, 1 + dice.below(100_000)),
        };
        worst_us = worst_us.max(kill_one(job, [victim, seed, after_us, after_operations]));
    }
    println!("noticed after polling for at most {worst_us} us");
    assert!(!mapped() && names_left_behind().is_empty(), "{:?}", names_left_behind());
}

/// Runs until an owner is killed. Rank 0 returns the longest time that a survivor polled until it
/// reported the loss, in microseconds.
fn kill_one(mut job: Job, [victim, seed, after_us, after_operations]: [u64; 4]) -> u64 {
    let me = u64::from(job.me().0);
    let pids = gather(&mut job, process::id().into());
    let victim_pid = i32::try_from(pids[usize::try_from(victim).unwrap()]).unwrap();

    let mut stream = Stream::new(open(&mut job), seed.rotate_left(7 * job.me().0));
    job.barrier().unwrap();
    // Its peers have mapped the memory: the file is closed.
    assert_eq!(file_of_memory(), None);
    let start = Instant::now();
    let (mut turn, mut polled) = (start, Duration::ZERO);
    let mut killed = false;
    let fault = loop {
        let due = match me {
            0 => start.elapsed().as_micros() >= u128::from(after_us),
            me => me == victim && stream.accepted >= after_operations,
        };
        if due && !killed {
            killed = true;
            let mark = || direct(&stream.engine, 0, KILLED).store(1, SeqCst);
            if me == victim {
                mark();
            }
            // SAFETY: a child of rank 0, which has not been waited for, or this process itself.
            assert_eq!(unsafe { libc::kill(victim_pid, libc::SIGKILL) }, 0);
            // After the call, because this rank may lose its CPU before it while the victim lives.
            mark();
        }
        if let Err(fault) = stream.step() {
            break fault;
        }
        let now = Instant::now();
        if direct(&stream.engine, 0, KILLED).load(SeqCst) != 0 {
            polled += (now - turn).min(MAX_TURN);
        }
        turn = now;
        assert!(now - start < PATIENCE, "never noticed");
    };
    let lost = Owner(u32::try_from(victim).unwrap());
    assert_eq!(fault, Fault::OwnerLost(lost));
    assert_eq!((stream.open.len(), stream.engine.in_flight()), (0, 0), "not reported");
    assert_eq!(stream.engine.fetch_add(Token(0), word(0, 20), 1), Err(PostError::Closed));
    assert!(polled < MAX_DETECTION, "noticed after polling for {polled:?}");
    let polled_us = u64::try_from(polled.as_micros()).unwrap();
    direct(&stream.engine, 0, DETECTION_TIMES + me).store(polled_us, SeqCst);

    succeed_without(job, lost);
    assert!(pids[1..].iter().all(|pid| fs::metadata(format!("/proc/{pid}")).is_err()));
    (0..4).map(|rank| direct(&stream.engine, 0, DETECTION_TIMES + rank).load(SeqCst)).max().unwrap()
}

/// Returns whether this process still maps memory of an engine.
fn mapped() -> bool {
    fs::read_to_string("/proc/self/maps").unwrap().contains("memfd:probeline")
}

/// Returns the names in `/dev/shm` that an engine with named shared memory would leave behind.
fn names_left_behind() -> Vec<String> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // UCX leaves such names itself if its processes are killed.
    let ours = |name: &String| !name.starts_with("ucx_") && name.contains("shm");
    names.filter(|name| name.contains("probeline") || ours(name)).collect()
}

/// Exercises, on rank 1, the whole data path, up to the loss of rank 2, under a filter that would kill
/// it at its first system call. Rank 2 finally makes a system call, to prove that the filter works.
fn data_path_makes_no_system_call() {
    const DONE: i32 = 42;
    let mut job = start(FORBID, 3);
    let mut stream = Stream::new(open(&mut job), 0x5eed);
    job.barrier().unwrap();
    if job.me() == Owner(0) {
        let statuses = finish(job);
        assert_eq!(statuses[0].code(), Some(DONE), "rank 1: {}", statuses[0]);
        assert_eq!(statuses[1].signal(), Some(libc::SIGSYS), "rank 2: {}", statuses[1]);
        return;
    }
    // Reserves the memory now, because an allocation may be a system call.
    stream.open.reserve(64);
    allow_only(libc::SYS_exit_group);
    for _ in 0..100_000 {
        assert!(stream.step().is_ok());
    }
    // Rank 2 continues until rank 1 is done too, and then makes its system call.
    let rank_1_is_done = |stream: &Stream| direct(&stream.engine, 0, 1).load(SeqCst) == 1;
    if job.me() == Owner(1) {
        direct(&stream.engine, 0, 1).store(1, SeqCst);
    } else {
        while !rank_1_is_done(&stream) {
            assert!(stream.step().is_ok());
        }
        let _ = process::id();
    }
    while stream.step().is_ok() {}
    // SAFETY: ends the process by the one call that the filter allows.
    unsafe { libc::_exit(DONE) };
}

/// Opens the file of an owner's memory while another owner has still to map it.
fn another_user_cannot_open_the_memory() {
    let builder = Builder::new(Sizes::new(WINDOW_WORDS).with_slots(4, 16).with_depth(8));
    // An owner without peers has no file.
    let mut members = probeline_exchange::threads(2).into_iter();
    let [mut first, mut second] = core::array::from_fn(|_| members.next().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| drop(builder.open(&mut first).unwrap()));
        let start = Instant::now();
        let file = loop {
            if let Some(file) = file_of_memory() {
                break file;
            }
            assert!(start.elapsed() < PATIENCE, "no file");
        };
        check_users(&file);
        drop(builder.open(&mut second).unwrap());
    });
}

/// Returns the open file of an owner's memory in this process.
fn file_of_memory() -> Option<PathBuf> {
    let ours = |file: &PathBuf| {
        let target = fs::read_link(file).unwrap_or_default();
        target.to_string_lossy().contains("memfd:probeline")
    };
    let files = fs::read_dir(format!("/proc/{}/fd", process::id())).unwrap();
    files.map(|entry| entry.unwrap().path()).find(ours)
}

/// Checks that this process's user can open the file, and that another user cannot.
fn check_users(path: &Path) {
    const NOBODY: u32 = 65534;
    let open = |command: &mut Command| -> Output {
        let open = "exec 3<>\"$0\"";
        command.args(["-c", open]).arg(path).env("LC_ALL", "C").output().unwrap()
    };
    let own = open(&mut Command::new("/bin/sh"));
    assert!(own.status.success(), "{own:?}");
    let other = open(Command::new("/bin/sh").uid(NOBODY).gid(NOBODY));
    assert!(!other.status.success(), "{other:?}");
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert!(stderr.contains("Permission denied"), "{stderr}");
}
