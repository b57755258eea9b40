//! MPI as an exchange.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use probeline_transport::{
    Completion, Exchange, ExchangeError, Owner, RemoteWord, Sizes, Token, Transport,
};
use probeline_ucx_shim::mpi::{Members, World};

use crate::MISSING_LIMIT;
use crate::settings::Setting;

/// Contributions of any length arrive at all members, in order.
pub(crate) fn gathers(_: &World, members: &mut Members, _: &Setting) {
    let (me, owners) = (members.me().0, members.owners());
    for length in [0_u32, 1, 7, 4_096, 1 << 20] {
        let part = |owner: u32| (0..length).map(move |at| (at * 31 + owner * 7).to_le_bytes()[0]);
        let mine: Vec<u8> = part(me).collect();
        let mut all = vec![0; (length * owners) as usize];
        members.all_gather(&mine, &mut all).unwrap();
        assert!(all.into_iter().eq((0..owners).flat_map(part)), "length {length}");
        members.barrier().unwrap();
    }
}

/// Every member receives its part from each member, for several lengths.
pub(crate) fn gives_parts(_: &World, members: &mut Members, _: &Setting) {
    let (me, owners) = (members.me().0, members.owners());
    for length in [0_u32, 1, 7, 1 << 16] {
        let part = |from: u32, to: u32| {
            (0..length).map(move |at| (at * 31 + from * 7 + to * 5).to_le_bytes()[0])
        };
        let mine: Vec<u8> = (0..owners).flat_map(|to| part(me, to)).collect();
        let mut theirs = vec![0; mine.len()];
        members.all_to_all(&mine, &mut theirs).unwrap();
        assert!(theirs.into_iter().eq((0..owners).flat_map(|from| part(from, me))), "{length}");
    }
}

/// A contribution of another length is an error for all members, which stays.
pub(crate) fn lengths_differ(world: &World, members: &mut Members, _: &Setting) {
    let mine = vec![0; if members.me() == Owner(1) { 5 } else { 4 }];
    let differs = members.all_gather(&mine, &mut [0; 12]);
    let Err(ExchangeError::LengthDiffers { owner, .. }) = differs else { panic!("{differs:?}") };
    assert_eq!(owner, if members.me() == Owner(1) { Owner(0) } else { Owner(1) });
    assert_eq!(members.barrier(), differs);
    // Another exchange is not affected.
    world.members().unwrap().barrier().unwrap();
}

/// Engines of shared memory open over it.
pub(crate) fn carries_shared_memory(_: &World, members: &mut Members, _: &Setting) {
    let mut engine = probeline_shm::Builder::new(Sizes::new(64)).open(members).unwrap();
    let at = RemoteWord { owner: Owner(0), index: 1 };
    engine.fetch_add(Token(1), at, u64::from(members.me().0) + 1).unwrap();
    let mut end = [Completion::default()];
    assert_eq!(engine.poll(&mut end).unwrap(), 1);
    members.barrier().unwrap();
    let sum = u64::from(members.owners()) * u64::from(members.owners() + 1) / 2;
    if members.me() == Owner(0) {
        assert_eq!(engine.window()[1].load(core::sync::atomic::Ordering::Acquire), sum);
    }
    members.barrier().unwrap();
}

/// Rank 1 is alive and does not call the barrier. Rank 0 reports that within the limit and
/// terminates both.
pub(crate) fn misses(_: &World, members: &mut Members, _: &Setting) {
    if members.me() == Owner(1) {
        thread::sleep(3 * MISSING_LIMIT);
        return;
    }
    let start = Instant::now();
    let missed = members.barrier();
    println!("{missed:?} after {:.0?}", start.elapsed());
    // Rank 0 terminates the job now, and MPICH's launcher may exit before it forwards this output.
    thread::sleep(Duration::from_secs(1));
}

pub(crate) fn expect_miss(said: &str, _: &Setting) {
    let after_s = MISSING_LIMIT.as_secs();
    let expected = format!("TimedOut {{ after_s: {after_s}, missing: None }}");
    assert!(said.contains(&expected), "{said}");
}
