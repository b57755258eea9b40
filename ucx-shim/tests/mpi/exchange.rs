//! MPI as an exchange.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use probeline_exchange::testing::check_calls;
use probeline_transport::{Exchange, ExchangeError, Owner};
use probeline_ucx_shim::mpi::{Members, World};

use crate::MISSING_LIMIT;
use crate::settings::Setting;

/// Checks the results of all calls.
pub(crate) fn calls(_: &World, members: &mut Members, _: &Setting) {
    check_calls(members, 1 << 16);
}

/// Checks that a contribution of another length is an error for all members, which stays.
pub(crate) fn lengths_differ(world: &World, members: &mut Members, _: &Setting) {
    let mine = vec![0; if members.me() == Owner(1) { 5 } else { 4 }];
    let differs = members.all_gather(&mine, &mut [0; 12]);
    let Err(ExchangeError::LengthDiffers { owner, .. }) = differs else { panic!("{differs:?}") };
    assert_eq!(owner, if members.me() == Owner(1) { Owner(0) } else { Owner(1) });
    assert_eq!(members.barrier(), differs);
    // Another exchange is not affected.
    world.members().unwrap().barrier().unwrap();
}

/// Lets rank 1 live and not call the barrier. Rank 0 reports that within the limit and
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
