//! The scenarios of the model check.

use super::Act::{Get, Put, PutIfAbsent, Remove, Replace};
use super::rules::check_within;
use super::{ENDS, Orders, PLAIN, Scenario, Scripts, TOP};
use crate::mode::Mode;

/// The same candidates of all keys, in the same order. Those of [`PLAIN`] cross.
const ALIKE: Orders = &[&[0, 1], &[0, 1], &[0, 1]];
/// Three buckets, of which every key has all.
const THREE: Orders = &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2]];

const TWO_KEYS: Scripts = &[&[Put(0), Get(1)], &[Put(1), Get(0)]];
const ONE_KEY: Scripts = &[&[Put(0), Get(0)], &[Put(0), Get(0)]];
const ONCE: Scripts = &[&[PutIfAbsent(0), Get(0)], &[PutIfAbsent(0), Put(0)]];
const OVER: Scripts = &[&[Put(0), Put(0)], &[Get(0), Get(0)]];
const REMOVED: Scripts = &[&[Put(0), Remove(0)], &[Put(0), Get(0)]];
/// A removed bucket that is used again.
const REUSED: Scripts = &[&[Put(0), Remove(0), Put(1)], &[Put(1), Get(1)]];
/// Another key's put takes a bucket while the client that has dropped the entry reads it again.
const REMOVED_BEFORE: Scripts = &[&[Put(0), Remove(0), Get(0)], &[Put(1)]];
/// More keys than buckets.
const CROWDED: Scripts = &[&[Put(0), Put(1)], &[Put(2), Get(0)]];
const CROWDED_TWICE: Scripts = &[&[Put(0), Put(1), Put(2)], &[Put(2), Get(2)]];
const THREE_CLIENTS: Scripts = &[&[Put(0)], &[Put(0)], &[Get(0)]];
const REPLACED_TWICE: Scripts =
    &[&[Put(0), Replace(0, 0), Get(0)], &[Replace(0, 0), Replace(0, 1)]];
const REPLACED_OR_PUT: Scripts = &[&[Put(0), Replace(0, 0)], &[Put(0), Get(0)]];
const REPLACED_OR_REMOVED: Scripts =
    &[&[Put(0), Replace(0, 0), Get(0)], &[Remove(0), PutIfAbsent(0)]];
const CROWDED_SHORT: Scripts = &[&[Put(0), Put(1)], &[Put(2)]];
const ONE_KEY_SHORT: Scripts = &[&[Put(0), Get(0)], &[Put(0)]];
/// A key put beside a bucket that is freed.
const MOVED: Scripts = &[&[Put(1), Remove(1), Put(0)], &[Put(0)]];

const WITH_ROOM: &[Scripts] = &[TWO_KEYS, ONE_KEY, ONCE, OVER];
const WITHOUT_ROOM: &[Scripts] = &[REMOVED, REUSED, CROWDED, CROWDED_TWICE, THREE_CLIENTS];
const UPDATES: &[Scripts] = &[REPLACED_TWICE, REPLACED_OR_PUT, REPLACED_OR_REMOVED];

/// Scenarios, and the scripts that are checked in each.
type Rows<'r> = &'r [(Scenario, &'r [Scripts])];

fn check_rows(rows: Rows<'_>) {
    for (scenario, all) in rows {
        for scripts in *all {
            let scenario = Scenario { scripts, ..*scenario };
            let found = check_within(&scenario, usize::MAX);
            let (states, executions) =
                found.unwrap_or_else(|stopped| panic!("{stopped:?} in {scenario:?}"));
            println!("{states} states, {executions:.3e} executions: {scenario:?}");
        }
    }
}

/// Checks each row with and without a claim along with the first READ, and with the same order of
/// candidates.
fn check_claims(rows: Rows<'_>) {
    for &(scenario, all) in rows {
        let claiming = Scenario { claims_with_read: true, ..scenario };
        check_rows(&[(scenario, all), (claiming, all)]);
        check_rows(&[(Scenario { orders: ALIKE, ..claiming }, all)]);
    }
}

const KEEPS: Scenario = Scenario { keeps: true, ..PLAIN };
const TORN: Scenario = Scenario { tears: TOP, ..PLAIN };
const ORDERED: Scenario = Scenario { ordered: true, ..PLAIN };
/// Clients take over claims of clients that live.
const STEALS: Scenario = Scenario { steals: [true; 3], ..PLAIN };
const FAILING: Scenario = Scenario { failures: 1, ..PLAIN };

#[test]
fn whole_words() {
    check_claims(&[
        (KEEPS, WITH_ROOM),
        (PLAIN, WITHOUT_ROOM),
        (Scenario { ordered: true, ..KEEPS }, WITH_ROOM),
        (ORDERED, &[REMOVED, REUSED]),
        (STEALS, WITH_ROOM),
        (STEALS, &[REMOVED, REUSED, CROWDED]),
    ]);
    let three = Scenario { orders: THREE, buckets: 3, ..PLAIN };
    check_rows(&[(three, &[CROWDED, REUSED])]);
}

#[test]
fn torn_words() {
    let ends = Scenario { tears: ENDS, ..PLAIN };
    check_claims(&[
        (Scenario { tears: TOP, ..KEEPS }, WITH_ROOM),
        (TORN, &[REMOVED, REUSED]),
        (Scenario { tears: ENDS, ..KEEPS }, WITH_ROOM),
    ]);
    check_rows(&[
        (TORN, &[CROWDED_SHORT]),
        (Scenario { orders: ALIKE, ..ends }, &[REMOVED_BEFORE]),
    ]);
}

#[test]
fn failures_with_late_effects() {
    check_claims(&[
        (FAILING, &[ONE_KEY_SHORT, CROWDED_SHORT]),
        (Scenario { ordered: true, ..FAILING }, &[ONE_KEY_SHORT]),
        (Scenario { steals: [true; 3], ..FAILING }, &[ONE_KEY_SHORT]),
    ]);
    // A request counts as failed, and as nothing else, if its lock could not be released.
    let locks = Scenario { mode: Mode::PartLocks, ..FAILING };
    check_rows(&[(locks, &[&[&[Remove(0)], &[Put(0)]], &[&[Put(0), Get(0)]]])]);
}

/// Values that are replaced only if they are still those that were read.
#[test]
fn replacements() {
    check_claims(&[(PLAIN, UPDATES), (TORN, UPDATES), (ORDERED, UPDATES), (STEALS, UPDATES)]);
}

/// Blocking calls, which get and, in the mode without locks, put without a machine if they can.
#[test]
fn blocking_calls() {
    for blocks in [[true; 3], [false, true, true]] {
        let plain = Scenario { blocks, ..PLAIN };
        check_claims(&[
            (Scenario { keeps: true, ..plain }, &[TWO_KEYS, OVER]),
            (plain, &[REMOVED, THREE_CLIENTS]),
        ]);
        check_rows(&[
            (Scenario { tears: ENDS, ..plain }, &[OVER]),
            (Scenario { failures: 1, ..plain }, &[ONE_KEY_SHORT]),
            (Scenario { mode: Mode::Unlocked, ..plain }, &[OVER, CROWDED_SHORT]),
            // A blocking put leaves comparisons to a machine.
            (Scenario { orders: ALIKE, ..plain }, &[MOVED]),
        ]);
    }
}

/// The paper's modes: no wrong value, and in those with locks no stale one, no key twice, and no lock
/// left. A request that waits too long may give up.
#[test]
fn modes() {
    for mode in [Mode::PartLocks, Mode::BucketLocks] {
        let plain = Scenario { mode, ..PLAIN };
        let alike = Scenario { orders: ALIKE, ..plain };
        let scripts: &[Scripts] =
            &[&[&[Put(0), Remove(0)], &[Get(0)]], CROWDED_SHORT, THREE_CLIENTS];
        check_rows(&[
            (plain, scripts),
            (alike, scripts),
            (plain, &[REPLACED_OR_PUT]),
            (alike, &[REPLACED_OR_REMOVED]),
        ]);
    }
    check_rows(&[
        (Scenario { mode: Mode::PartLocks, ..PLAIN }, &[ONE_KEY, OVER]),
        (Scenario { mode: Mode::Unlocked, ..PLAIN }, &[TWO_KEYS, ONE_KEY, OVER, REMOVED, CROWDED]),
    ]);
}

/// A remove or a replacement that passes the torn claim of its key finds no key, although the key is
/// present all the time. [`random`](super::random) finds the mutant that believes it.
#[test]
fn torn_claim_is_no_absence() {
    let scripts: &[Scripts] =
        &[&[&[Put(0), Put(0)], &[Remove(0)]], &[&[Put(0), Put(0)], &[Replace(0, 0)]]];
    let [top, ends] = [TOP, ENDS].map(|tears| Scenario { tears, ..KEEPS });
    check_rows(&[(top, scripts), (ends, scripts)]);
}
