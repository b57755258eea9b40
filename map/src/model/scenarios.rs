//! The scenarios of the model check.

use super::Act::{self, Get, Put, PutIfAbsent, Remove, Replace};
use super::rules::check_within;
use super::{ENDS, Orders, PLAIN, Scenario, TOP};
use crate::machine::Mutant;
use crate::mode::Mode;

/// The same candidates of all keys, in the same order. Those of [`PLAIN`] cross.
const ALIKE: Orders = &[&[0, 1], &[0, 1], &[0, 1]];
/// Three buckets, of which every key has all.
const THREE: Orders = &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2]];

type Named = (&'static str, &'static [&'static [Act]]);

const TWO_KEYS: Named = ("two keys", &[&[Put(0), Get(1)], &[Put(1), Get(0)]]);
const ONE_KEY: Named = ("one key put twice", &[&[Put(0), Get(0)], &[Put(0), Get(0)]]);
const ONCE: Named =
    ("one key put if absent", &[&[PutIfAbsent(0), Get(0)], &[PutIfAbsent(0), Put(0)]]);
const OVER: Named = ("a get among puts", &[&[Put(0), Put(0)], &[Get(0), Get(0)]]);
const REMOVED: Named = ("a remove among puts", &[&[Put(0), Remove(0)], &[Put(0), Get(0)]]);
const REUSED: Named =
    ("a removed bucket used again", &[&[Put(0), Remove(0), Put(1)], &[Put(1), Get(1)]]);
/// Another key's put takes a bucket while the client that has dropped the entry reads it again.
const REMOVED_BEFORE: Named =
    ("a put beside a get after a remove", &[&[Put(0), Remove(0), Get(0)], &[Put(1)]]);
/// More keys than buckets.
const CROWDED: Named = ("evictions", &[&[Put(0), Put(1)], &[Put(2), Get(0)]]);
const CROWDED_TWICE: Named =
    ("evictions for one key", &[&[Put(0), Put(1), Put(2)], &[Put(2), Get(2)]]);
const THREE_CLIENTS: Named = ("three clients", &[&[Put(0)], &[Put(0)], &[Get(0)]]);

const REPLACED_TWICE: Named = (
    "a value replaced by two clients",
    &[&[Put(0), Replace(0, 0), Get(0)], &[Replace(0, 0), Replace(0, 1)]],
);
const REPLACED_OR_PUT: Named =
    ("a replacement among puts", &[&[Put(0), Replace(0, 0)], &[Put(0), Get(0)]]);
const REPLACED_OR_REMOVED: Named = (
    "a replacement among removes",
    &[&[Put(0), Replace(0, 0), Get(0)], &[Remove(0), PutIfAbsent(0)]],
);
/// The key is present from the first put on.
const REMOVED_WHILE_PUT: Named =
    ("a remove of a value that is being replaced", &[&[Put(0), Put(0)], &[Remove(0)]]);
const REPLACED_WHILE_PUT: Named =
    ("a replacement of a value that is being replaced", &[&[Put(0), Put(0)], &[Replace(0, 0)]]);
const UPDATES: [Named; 3] = [REPLACED_TWICE, REPLACED_OR_PUT, REPLACED_OR_REMOVED];

const CROWDED_SHORT: Named = ("evictions", &[&[Put(0), Put(1)], &[Put(2)]]);
const ONE_KEY_SHORT: Named = ("one key", &[&[Put(0), Get(0)], &[Put(0)]]);

const WITH_ROOM: [Named; 4] = [TWO_KEYS, ONE_KEY, ONCE, OVER];
const WITHOUT_ROOM: [Named; 5] = [REMOVED, REUSED, CROWDED, CROWDED_TWICE, THREE_CLIENTS];

fn report((name, scripts): Named, scenario: Scenario) {
    let scenario = Scenario { scripts, ..scenario };
    let begin = std::time::Instant::now();
    let (states, executions) = check_within(&scenario, usize::MAX)
        .unwrap_or_else(|stopped| panic!("{name}: {stopped:?} in {scenario:?}"));
    let Scenario { mode, claims_with_read, tears, ordered, steals, blocks, failures, .. } =
        scenario;
    println!(
        "{name}: {states} states, {executions:.3e} executions ({mode:?}, claims with reads: \
         {claims_with_read}, tears: {tears:x?}, ordered: {ordered}, steals: {steals:?}, blocks: {blocks:?}, \
         failures: {failures}) in {:?}",
        begin.elapsed()
    );
}

fn report_each(named: &[Named], scenario: Scenario) {
    for named in named {
        for claims_with_read in [false, true] {
            report(*named, Scenario { claims_with_read, ..scenario });
        }
        // The first key has the same candidates in both.
        if named.1.concat().iter().any(|act| act.key() != 0) {
            report(*named, Scenario { orders: ALIKE, claims_with_read: true, ..scenario });
        }
    }
}

#[test]
fn whole_words() {
    report_each(&WITH_ROOM, Scenario { keeps: true, ..PLAIN });
    report_each(&WITHOUT_ROOM, PLAIN);
}

#[test]
fn ordered_writes() {
    let ordered = Scenario { ordered: true, ..PLAIN };
    report_each(&WITH_ROOM, Scenario { keeps: true, ..ordered });
    report_each(&WITHOUT_ROOM[..2], ordered);
}

#[test]
fn torn_words() {
    let torn = Scenario { tears: TOP, ..PLAIN };
    report_each(&WITH_ROOM, Scenario { keeps: true, ..torn });
    report_each(&WITHOUT_ROOM[..2], torn);
    report(CROWDED_SHORT, torn);
    let ends = Scenario { tears: ENDS, ..PLAIN };
    report_each(&WITH_ROOM, Scenario { keeps: true, ..ends });
    report(REMOVED_BEFORE, Scenario { orders: ALIKE, ..ends });
}

/// Clients take over claims of clients that live.
#[test]
fn stolen_claims() {
    let steals = Scenario { steals: [true; 3], ..PLAIN };
    report_each(&WITH_ROOM, steals);
    report_each(&WITHOUT_ROOM[..3], steals);
}

#[test]
fn failures_with_late_effects() {
    let failing = Scenario { failures: 1, ..PLAIN };
    report_each(&[ONE_KEY_SHORT, CROWDED_SHORT], failing);
    report_each(&[ONE_KEY_SHORT], Scenario { ordered: true, ..failing });
    report_each(&[ONE_KEY_SHORT], Scenario { steals: [true; 3], ..failing });
}

/// Values that are replaced only if they are still those that were read.
#[test]
fn replacements() {
    report_each(&UPDATES, PLAIN);
    report_each(&UPDATES, Scenario { tears: TOP, ..PLAIN });
    report_each(&UPDATES, Scenario { ordered: true, ..PLAIN });
    report_each(&UPDATES, Scenario { steals: [true; 3], ..PLAIN });
    for mode in [Mode::PartLocks, Mode::BucketLocks] {
        report(REPLACED_OR_PUT, Scenario { mode, ..PLAIN });
        report(REPLACED_OR_REMOVED, Scenario { mode, orders: ALIKE, ..PLAIN });
    }
}

/// Counts a request as failed, and as nothing else, if its lock could not be released.
#[test]
fn failed_lock_release() {
    let failing = Scenario { failures: 1, mode: Mode::PartLocks, ..PLAIN };
    report(("a lock that stays", &[&[Remove(0)], &[Put(0)]]), failing);
    report(("a lock that stays", &[&[Put(0), Get(0)]]), failing);
}

#[test]
fn three_candidates() {
    report(CROWDED, Scenario { orders: THREE, buckets: 3, ..PLAIN });
    report(REUSED, Scenario { orders: THREE, buckets: 3, ..PLAIN });
}

const SHORT: Named = ("short puts", &[&[Put(0), Get(1)], &[Put(0)]]);
const REPLACED: Named = ("a get among removes", &[&[Put(0), Remove(0)], &[Get(0)]]);

/// Blocking calls, which get and, in the mode without locks, put without a machine if they can.
#[test]
fn blocking_calls() {
    for blocks in [[true; 3], [false, true, true]] {
        let plain = Scenario { blocks, ..PLAIN };
        report_each(&[TWO_KEYS, OVER], Scenario { keeps: true, ..plain });
        report_each(&[REMOVED, THREE_CLIENTS], plain);
        report(OVER, Scenario { tears: ENDS, ..plain });
        report(ONE_KEY_SHORT, Scenario { failures: 1, ..plain });
        for named in [SHORT, OVER, CROWDED_SHORT] {
            report(named, Scenario { mode: Mode::Unlocked, ..plain });
        }
    }
}

/// A blocking put leaves comparisons to a machine.
#[test]
fn blocking_evictions() {
    const MOVED: Named =
        ("a key put beside a bucket that is freed", &[&[Put(1), Remove(1), Put(0)], &[Put(0)]]);
    for blocks in [[false, true, true], [true; 3]] {
        report(MOVED, Scenario { blocks, orders: ALIKE, ..PLAIN });
    }
}

/// The paper's modes: no wrong value, and in those with locks no stale one, no key twice, and no lock
/// left. A request that waits too long may give up.
#[test]
fn modes_with_locks() {
    for mode in [Mode::PartLocks, Mode::BucketLocks] {
        for named in [SHORT, REPLACED, CROWDED_SHORT, THREE_CLIENTS] {
            report(named, Scenario { mode, ..PLAIN });
            report(named, Scenario { mode, orders: ALIKE, ..PLAIN });
        }
    }
    report(ONE_KEY, Scenario { mode: Mode::PartLocks, ..PLAIN });
    report(OVER, Scenario { mode: Mode::PartLocks, ..PLAIN });
}

#[test]
fn mode_without_lock() {
    for named in [TWO_KEYS, ONE_KEY, OVER, REMOVED, CROWDED] {
        report(named, Scenario { mode: Mode::Unlocked, ..PLAIN });
    }
}

/// Checks that the mutant fails the check and that the scenario passes without it.
fn is_detected((name, scripts): Named, mutant: Scenario) {
    let mutant = Scenario { scripts, ..mutant };
    match check_within(&mutant, usize::MAX) {
        Ok(states) => panic!("{name}: {:?} is not detected in {states:?}", mutant.mutant),
        Err(stopped) => println!("as it must be: {stopped:?}"),
    }
    report((name, scripts), Scenario { mutant: Mutant::None, ..mutant });
}

/// A remove or a replacement that passes the torn claim of its key finds no key, although the key is
/// present all the time.
#[test]
fn torn_claim_is_no_absence() {
    let torn = Scenario { tears: ENDS, keeps: true, ..PLAIN };
    for named in [REMOVED_WHILE_PUT, REPLACED_WHILE_PUT] {
        report(named, Scenario { tears: TOP, ..torn });
        is_detected(named, Scenario { mutant: Mutant::TrustsTornClaims, ..torn });
    }
}
