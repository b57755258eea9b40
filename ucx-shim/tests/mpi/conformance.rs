//! The conformance suite, atomics of both kinds on one word, and MPI as an exchange.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use probeline_exchange::testing::check_calls;
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_transport::{
    Completion, Exchange, ExchangeError, Owner, RemoteWord, Sizes, Token, Transport,
};
use probeline_ucx_shim::mpi::{Builder, Engine, Members, World};

use crate::MISSING_LIMIT;
use crate::settings::Setting;

/// Bounds each wait of the suite. Only a hang lasts as long: no case waits for its end, and two emulated
/// machines on a busy host need more than a minute for some.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// Runs the suite on all owners.
pub(crate) fn run(_: &World, members: &mut Members, setting: &Setting) {
    let mut report = Report::new(members.owners());
    for case in cases(members.owners()) {
        let own = run_case(case, members, setting);
        report.gather(case, own, members).unwrap();
    }
    report.judge(setting.skips).unwrap();
}

fn run_case(case: &Case, members: &mut Members, setting: &Setting) -> Result<Verdict, Failure> {
    let sizes = case.sizes;
    let mut engine = Builder::new(sizes)
        .word_reads_whole(setting.whole)
        .open(members)
        .map_err(|error| Failure(format!("{error} ({error:?})")))?;
    case.run(&mut Rig::new(&mut engine, members).patience(LIMIT))
}

/// The number of additions of each rank.
const ADDS: u64 = 300;

/// Lets all ranks add to one word, by fetch-and-add and by compare-and-swap in turn.
pub(crate) fn mix(_: &World, members: &mut Members, setting: &Setting) {
    let mut engine = Builder::new(Sizes::new(64)).open(members).unwrap();
    if members.me() == Owner(0) {
        println!("{}", engine.info());
    }
    assert_eq!(engine.info().component.to_string(), setting.component);
    let at = RemoteWord { owner: Owner(0), index: 5 };
    let mut seen = 0;
    for round in 0..ADDS {
        if round % 2 == 0 {
            engine.fetch_add(Token(0), at, 1).unwrap();
            seen = finish(&mut engine) + 1;
            continue;
        }
        loop {
            engine.compare_and_swap(Token(0), at, seen, seen + 1).unwrap();
            let old = finish(&mut engine);
            if old == seen {
                break;
            }
            assert!(old > seen, "{old} after {seen}");
            seen = old;
        }
    }
    members.barrier().unwrap();
    engine.fetch_add(Token(0), at, 0).unwrap();
    assert_eq!(finish(&mut engine), ADDS * u64::from(members.owners()));
    members.barrier().unwrap();
}

/// Polls until the operation in flight has completed.
fn finish(engine: &mut Engine) -> u64 {
    let mut end = [Completion::default()];
    while engine.poll(&mut end).unwrap() == 0 {}
    end[0].result.unwrap()
}

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
