//! Failures on the data path: the engine reports every accepted operation once, and then the fault.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::time::Instant;

use crate::job::{DEPTH, SLOT_WORDS, SLOTS};
use crate::stand_in::{Fabric, Machine, Setup};
use crate::{job, stand_in};
use probeline_transport::conformance::{allocations, local, segment, word};
use probeline_transport::{Alone, Completion, Fault, OpError, Owner, PostError, Token, Transport};
use probeline_verbs::{Engine, Retry};
use probeline_verbs_sys::*;
use proptest::prelude::*;

/// The time after which a test fails, far longer than any wait here on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// The maximum number of polls until a shutdown is noticed, far fewer than until a keepalive.
const SOON: u32 = 100;
/// The maximum number of polls until all operations complete, far more than any schedule needs.
const POLLS: u32 = 100_000;

/// Polls until the fault, at most `polls` times. Returns the completions before it, and the fault.
fn fault_within(polls: u32, engine: &mut Engine) -> (Vec<Completion>, Fault) {
    let (begin, mut completions) = (Instant::now(), Vec::new());
    let mut out = [Completion::default(); 5];
    for _ in 0..polls {
        assert!(begin.elapsed() < PATIENCE, "it waits for ever");
        match engine.poll(&mut out) {
            Ok(found) => completions.extend_from_slice(&out[..found]),
            Err(fault) => return (completions, fault),
        }
    }
    panic!("no fault, {} in flight", engine.in_flight());
}

fn until_fault(engine: &mut Engine) -> (Vec<Completion>, Fault) {
    fault_within(u32::MAX, engine)
}

/// Opens two engines, and then sets faults of the first one's machine.
fn broken(change: impl FnOnce(&mut stand_in::Faults)) -> (Fabric, Vec<Machine>, Vec<Engine>) {
    let fabric = Fabric::new();
    let machines = job::machines(&fabric, 2);
    let engines = job::engines(&machines);
    machines[0].break_it(change);
    (fabric, machines, engines)
}

/// Posts as many additions to a word of owner 1 as the depth allows.
fn add_everything(engine: &mut Engine) {
    for token in 0..DEPTH {
        engine.fetch_add(Token(token.into()), word(1, 0), 1).unwrap();
    }
}

fn sum_at(engine: &Engine) -> u64 {
    engine.window()[0].load(Relaxed)
}

/// Adds 1 to a word of owner 1 until a post is refused. Returns the number of accepted posts.
fn add_until_refused(engine: &mut Engine) -> u32 {
    let mut add = |token: u32| engine.fetch_add(Token(token.into()), word(1, 0), 1).is_ok();
    (0..).take_while(|token| add(*token)).count().try_into().unwrap()
}

#[test]
fn refused_request_fails_unposted_ones() {
    for right in 0..DEPTH {
        let (fabric, _, mut engines) = broken(|faults| faults.post = Some((right, libc::ENOMEM)));
        // The engine rings the doorbell for 32 requests before it accepts the 33rd.
        let accepted = if right < 32 { 33 } else { DEPTH };
        assert_eq!(add_until_refused(&mut engines[0]), accepted);
        let (mut completions, fault) = until_fault(&mut engines[0]);
        let error = OpError::NotPosted { errno: libc::ENOMEM };
        assert_eq!(fault, Fault::Operation { owner: Owner(1), error });
        completions.sort_by_key(|completion| completion.token);
        let expected: Vec<_> = (0..accepted)
            .map(|place| match place {
                done if done < right => Ok(u64::from(done)),
                _ => Err(error),
            })
            .collect();
        assert_eq!(
            completions.iter().map(|completion| completion.result).collect::<Vec<_>>(),
            expected,
            "{right}"
        );
        assert_eq!(sum_at(&engines[1]), right.into());
        assert_eq!(engines[0].in_flight(), 0);
        drop(engines);
        fabric.judge_empty();
    }
}

#[test]
fn maps_statuses_to_errors() {
    for (status, error) in [
        (IBV_WC_REM_ACCESS_ERR, OpError::RemoteAccess),
        (IBV_WC_LOC_PROT_ERR, OpError::Device { code: IBV_WC_LOC_PROT_ERR }),
        (IBV_WC_FATAL_ERR, OpError::Device { code: IBV_WC_FATAL_ERR }),
        (4711, OpError::Device { code: 4711 }),
        // The device reports success, and has not carried out the request.
        (IBV_WC_SUCCESS, OpError::NoResult),
        (u32::MAX, OpError::Device { code: u32::MAX }),
    ] {
        let (fabric, _, mut engines) = broken(|faults| faults.status = Some((3, status)));
        add_everything(&mut engines[0]);
        let (completions, fault) = until_fault(&mut engines[0]);
        assert_eq!(fault, Fault::Operation { owner: Owner(1), error });
        for (place, completion) in completions.iter().enumerate() {
            let result = match place {
                0..3 => Ok(place as u64),
                3 => Err(error),
                _ => Err(OpError::Flushed),
            };
            assert_eq!((completion.token.0, completion.result), (place as u64, result));
        }
        assert_eq!(completions.len(), DEPTH as usize);
        let closed = engines[0].fetch_add(Token(0), word(0, 0), 1);
        assert_eq!(closed, Err(PostError::Closed));
        drop(engines);
        fabric.judge_empty();
    }
}

/// Keeps slots busy to which the device may still write: it is silent, or it is unknown which requests
/// it has refused.
#[test]
fn silent_device_keeps_slots_busy() {
    let not_posted = OpError::NotPosted { errno: libc::EIO };
    let refused = Fault::Operation { owner: Owner(1), error: not_posted };
    for (doorbell, poll, expected) in
        [(None, Some(-2), Fault::System { errno: libc::EIO }), (Some(libc::EIO), None, refused)]
    {
        let (fabric, machines, mut engines) = broken(|_| ());
        machines[0].break_it(|faults| (faults.doorbell, faults.poll) = (doorbell, poll));
        for place in 0..SLOTS {
            engines[0].read(Token(place.into()), segment(1, 0, 4), local(place, 0, 4)).unwrap();
        }
        let (completions, fault) = until_fault(&mut engines[0]);
        assert_eq!(fault, expected);
        let mut tokens: Vec<_> = completions.iter().map(|completion| completion.token.0).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [0, 1, 2, 3]);
        assert!(completions.iter().all(|completion| completion.result == Err(OpError::Flushed)));
        for place in 0..SLOTS {
            assert_eq!(engines[0].landed(local(place, 0, 4)), Err(PostError::Busy));
            assert_eq!(engines[0].staged(local(place, 0, 4)).err(), Some(PostError::Busy));
        }
        machines[0].break_it(|faults| faults.poll = None);
        assert_eq!(engines[0].poll(&mut [Completion::default()]), Err(fault));
        drop(engines);
        fabric.judge_empty();
    }
}

/// Other completions of such a device may be wrong too, so the engine ignores them.
#[test]
fn repeated_completion_is_fault() {
    let (fabric, machines, mut engines) = broken(|_| ());
    engines[0].fetch_add(Token(1), word(1, 0), 1).unwrap();
    engines[0].read(Token(2), segment(1, 0, 4), local(0, 0, 4)).unwrap();
    machines[0].break_it(|faults| faults.twice = true);
    let (completions, fault) = until_fault(&mut engines[0]);
    assert_eq!(fault, Fault::System { errno: libc::EBADMSG });
    let tokens: Vec<_> = completions.iter().map(|completion| completion.token.0).collect();
    assert_eq!((tokens, engines[0].in_flight()), (vec![1, 2], 0), "each is reported once");
    drop(engines);
    fabric.judge();
}

/// This test takes 5 seconds, the time for which the engine waits beyond the retries of a request.
#[test]
fn silent_device_is_fault() {
    for busy in [true, false] {
        let fabric = Fabric::new();
        let machine = fabric.machine(Setup::default());
        let quick = Retry::new(1, 0).unwrap();
        let builder = job::builder(&machine).retry(quick);
        let mut engine = job::open(&builder, &mut Alone).unwrap();
        machine.break_it(|faults| faults.poll = Some(0));
        if busy {
            engine.read(Token(1), segment(0, 0, 4), local(0, 0, 4)).unwrap();
        }
        let (completions, fault) = until_fault(&mut engine);
        assert_eq!(fault, Fault::System { errno: libc::ETIMEDOUT });
        assert_eq!(completions.len(), usize::from(busy));
        assert_eq!(engine.in_flight(), 0);
    }
}

#[test]
fn all_owners_report_shutdown() {
    let fabric = Fabric::new();
    let mut engines = job::engines(&job::machines(&fabric, 4));
    engines[1].fetch_add(Token(1), word(3, 0), 1).unwrap();
    drop(engines.remove(2));
    for engine in &mut engines {
        let (completions, fault) = fault_within(SOON, engine);
        assert_eq!(fault, Fault::OwnerLost(Owner(2)));
        assert!(
            completions.iter().all(|completion| completion.result == Ok(0)),
            "others still answer: {completions:?}"
        );
    }
    drop(engines);
    fabric.judge_empty();
}

#[test]
fn killed_owner_is_lost() {
    let fabric = Fabric::new();
    let machines = job::machines(&fabric, 4);
    let mut engines = job::engines(&machines);
    machines[1].break_it(|faults| faults.cut_off = true);
    engines[0].read(Token(7), segment(1, 0, 1), local(0, 0, 1)).unwrap();
    engines[0].read(Token(8), segment(1, 0, 1), local(1, 0, 1)).unwrap();
    let (completions, fault) = until_fault(&mut engines[0]);
    assert_eq!(fault, Fault::OwnerLost(Owner(1)));
    let completions: Vec<_> =
        completions.iter().map(|completion| (completion.token.0, completion.result)).collect();
    assert_eq!(completions, [(7, Err(OpError::RetryExceeded)), (8, Err(OpError::Flushed))]);
    // Owner 2 has no operations in flight to owner 1, and sends keepalives to all owners in turn.
    assert_eq!(until_fault(&mut engines[2]).1, Fault::OwnerLost(Owner(1)));
    // An engine that shuts down after a loss names the lost owner.
    drop(engines.remove(0));
    assert_eq!(fault_within(SOON, &mut engines[2]).1, Fault::OwnerLost(Owner(1)));
    drop(engines);
    fabric.judge_empty();
}

#[test]
fn fault_allocates_nothing() {
    let (_, machines, mut engines) = broken(|faults| faults.status = Some((40, 99)));
    let mut out = [Completion::default(); 5];
    let before = allocations();
    add_everything(&mut engines[0]);
    machines[0].break_it(|faults| faults.post = Some((45, libc::ENOMEM)));
    let mut completed = 0;
    while let Ok(found) = engines[0].poll(&mut out) {
        completed += found;
    }
    assert_eq!(allocations(), before);
    assert_eq!(completed, DEPTH as usize);
}

/// A failure in a schedule, and the number of requests before it.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    Post(u32),
    Status(u32, u32),
    Poll(u32),
    CutOff(u32),
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        Just(Trouble::None),
        (0..300_u32).prop_map(Trouble::Post),
        (0..300_u32, 1..30_u32).prop_map(|(right, status)| Trouble::Status(right, status)),
        (0..300_u32).prop_map(Trouble::Poll),
        (0..300_u32).prop_map(Trouble::CutOff),
    ]
}

/// One step of a schedule: the operation, its owner and slot, and the maximum number of completions
/// to poll.
type Step = (u8, u32, u32, usize);

/// The operations of a schedule that have not been reported.
#[derive(Default)]
struct Outstanding {
    /// The slot that each operation holds, by token.
    open: Vec<Option<Option<u32>>>,
    reported: usize,
}

impl Outstanding {
    fn holds(&self, slot: u32) -> bool {
        self.open.iter().flatten().any(|held| *held == Some(slot))
    }

    fn complete(&mut self, completion: &Completion) {
        let entry = self.open.get_mut(usize::try_from(completion.token.0).unwrap());
        entry.and_then(Option::take).expect("accepted, and reported once");
        self.reported += 1;
    }
}

fn post(engine: &mut Engine, outstanding: &mut Outstanding, (kind, owner, place, _): Step) {
    let token = Token(outstanding.open.len() as u64);
    let posted = match kind {
        0 => engine.read(token, segment(owner, 0, SLOT_WORDS), local(place, 0, SLOT_WORDS)),
        1 => engine.write(token, local(place, 0, 4), segment(owner, 32, 4)),
        2 => engine.compare_and_swap(token, word(owner, 40), 0, 1),
        _ => engine.fetch_add(token, word(owner, 41), 1),
    };
    match posted {
        Ok(()) => outstanding.open.push(Some((kind < 2).then_some(place))),
        Err(PostError::Full) => assert_eq!(engine.in_flight(), DEPTH),
        Err(PostError::Closed) => {}
        Err(refused) => panic!("{refused}"),
    }
}

/// Checks that a slot can be read if no operation holds it, and only then. If the device is silent,
/// a slot may stay busy.
fn check_slots(engine: &Engine, outstanding: &Outstanding, silent: bool) {
    for place in 0..SLOTS {
        match engine.landed(local(place, 0, SLOT_WORDS)) {
            Ok(_) => assert!(!outstanding.holds(place)),
            Err(error) => assert!(error == PostError::Busy && (silent || outstanding.holds(place))),
        }
    }
}

fn schedule(seed: u64, trouble: Trouble, steps: &[Step]) {
    let fabric = Fabric::lazy(seed);
    let machines = job::machines(&fabric, 3);
    let mut engines = job::engines(&machines);
    match trouble {
        Trouble::Post(right) => machines[0].break_it(|f| f.post = Some((right, libc::ENOMEM))),
        Trouble::Status(right, code) => {
            machines[0].break_it(|f| f.status = Some((right, code)));
        }
        _ => {}
    }
    let mut outstanding = Outstanding::default();
    let mut out = [Completion::default(); 8];
    let mut fault = None;
    let closing = core::iter::repeat_n((9, 0, 0, 8), POLLS as usize);
    for (turn, step) in (0..).zip(steps.iter().copied().chain(closing)) {
        match trouble {
            Trouble::Poll(at) if at == turn => machines[0].break_it(|f| f.poll = Some(-1)),
            Trouble::CutOff(at) if at == turn => machines[1].break_it(|f| f.cut_off = true),
            _ => {}
        }
        if step.0 < 9 {
            post(&mut engines[0], &mut outstanding, step);
        } else if engines[0].in_flight() == 0 {
            break;
        }
        let silent = matches!(trouble, Trouble::Poll(_));
        check_slots(&engines[0], &outstanding, silent);
        match engines[0].poll(&mut out[..step.3]) {
            Ok(found) => out[..found].iter().for_each(|end| outstanding.complete(end)),
            Err(reported) => {
                fault = Some(reported);
                break;
            }
        }
    }
    assert_eq!(engines[0].in_flight(), 0);
    assert_eq!(outstanding.reported, outstanding.open.len(), "accepted, and reported");
    if fault.is_some() {
        assert_eq!(engines[0].poll(&mut out).err(), fault, "and nothing more");
    }
    if matches!(trouble, Trouble::None) {
        assert_eq!(fault, None);
    }
    drop(engines);
    fabric.judge_empty();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn reports_each_operation_once(
        seed: u64,
        trouble in trouble(),
        steps in prop::collection::vec((0..4_u8, 0..3_u32, 0..SLOTS, 0..4_usize), 0..400),
    ) {
        schedule(seed, trouble, &steps);
    }
}
