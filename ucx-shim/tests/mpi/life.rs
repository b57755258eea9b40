//! The start and the end of worlds, engines and jobs.

use std::fs;
use std::process;
use std::thread;

use probeline_transport::conformance::word;
use probeline_transport::{Exchange, Owner, Sizes, Token, Transport};
use probeline_ucx_shim::SetupError;
use probeline_ucx_shim::mpi::{Builder, Members, OpenError, World};

use crate::LIMIT;
use crate::settings::Setting;

/// The text that a rank prints if it was not terminated.
const OUTLIVED: &str = "this rank was not ended";

/// Checks that the windows of dropped engines are freed.
pub(crate) fn windows_are_freed(_: &World, members: &mut Members, _: &Setting) {
    const WORDS: u64 = 1 << 19;
    const BYTES: u64 = WORDS * 8;
    let builder = Builder::new(Sizes::new(WORDS));
    let mut after_first = 0;
    for round in 0..12 {
        drop(builder.open(members).unwrap());
        if round == 1 {
            after_first = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(after_first);
    assert!(grown < 2 * BYTES, "{grown} bytes more after ten windows of {BYTES}");
    members.barrier().unwrap();
}

/// Returns the bytes of this process that are in RAM, shared memory included (proc(5), statm).
fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    4096 * pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

/// Checks that all members report that sizes differ, and can continue.
pub(crate) fn sizes_differ(_: &World, members: &mut Members, _: &Setting) {
    let mine = if members.me() == Owner(2) { 128 } else { 64 };
    let refused = Builder::new(Sizes::new(mine)).open(members).err();
    assert!(matches!(refused, Some(OpenError::Setup(SetupError::Differs { .. }))), "{refused:?}");
    let slots = if members.me() == Owner(1) { 0 } else { 4 };
    let refused = Builder::new(Sizes::new(64).with_slots(slots, 8)).open(members).err();
    match members.me() {
        Owner(1) => {
            assert!(matches!(refused, Some(OpenError::Setup(SetupError::Sizes(_)))), "{refused:?}")
        }
        _ => assert_eq!(refused, Some(SetupError::PeerFailed(Owner(1)).into())),
    }
    members.barrier().unwrap();
}

/// Checks that MPI can be started once in a process.
pub(crate) fn second_world(_: &World, _: &mut Members, _: &Setting) {
    assert_eq!(World::init(LIMIT).err(), Some(OpenError::Second));
}

/// Checks that MPI that other code has started is used, and goes on afterwards. The rounds would exhaust the
/// communicators of MPICH if they were not freed.
pub(crate) fn attaches(_: &World, members: &mut Members, _: &Setting) {
    for round in 0..1_500 {
        // SAFETY: only this thread calls MPI.
        let world = unsafe { World::init_or_attach(LIMIT) }.unwrap();
        let mut all = world.members().unwrap();
        assert_eq!((all.me(), all.owners()), (members.me(), members.owners()));
        if round == 0 {
            let builder = Builder::new(Sizes::new(64));
            drop(builder.open(&mut all).unwrap());
        }
    }
    members.barrier().unwrap();
}

/// Checks that opening is refused if the first compare-and-swap would abort the process.
pub(crate) fn refused(world: &World, members: &mut Members, _: &Setting) {
    let refused = Builder::new(Sizes::new(64)).open(members).err();
    let Some(error @ OpenError::AtomicsCrash { .. }) = refused else { panic!("{refused:?}") };
    println!("{}: {error}", members.me());
    members.barrier().unwrap();
    world.abort(3);
}

pub(crate) fn expect_refusal(said: &str, _: &Setting) {
    for expected in ["owner 0: Open MPI's osc rdma", "owner 1: Open MPI's osc rdma", "--mca osc sm"]
    {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!said.to_lowercase().contains("segmentation fault"), "{said}");
}

/// Kills rank 1 while rank 0 waits for it.
pub(crate) fn killed(_: &World, members: &mut Members, _: &Setting) {
    if members.me() == Owner(1) {
        // SAFETY: this process ends here.
        unsafe { libc::kill(process::id().cast_signed(), libc::SIGKILL) };
    }
    outlive_it();
}

/// Panics on rank 1 while operations on rank 0, which is not in MPI, may be in flight.
pub(crate) fn panics_in_flight(_: &World, members: &mut Members, _: &Setting) {
    let builder = Builder::new(Sizes::new(64).with_depth(8));
    let mut engine = builder.open(members).unwrap();
    if members.me() == Owner(0) {
        return outlive_it();
    }
    for number in 0..8 {
        engine.fetch_add(Token(number), word(0, 0), 1).unwrap();
    }
    panic!("{} operations are in flight", engine.in_flight());
}

/// Stays out of MPI for longer than the launcher may take to terminate the job.
fn outlive_it() {
    thread::sleep(3 * LIMIT);
    println!("{OUTLIVED}");
}

/// Checks that the launcher terminated the job before any time limit of a rank.
pub(crate) fn expect_end(said: &str, _: &Setting) {
    assert!(!said.contains("TimedOut") && !said.contains(OUTLIVED), "{said}");
}
