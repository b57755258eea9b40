//! Batches: blocking calls of several requests, beside clients that submit theirs.

use super::subject::{Case, Narrow, is_detected, report};
use super::{Mutant, PAPER, Request, Scenario, put};
use crate::direct::Direct;

/// Four buckets in two parts of a ring; all keys have their home in the first.
const RING: Scenario =
    Scenario { owners: 2, buckets: 4, chunk: 2, max_chunks: 2, batch: true, storage: 2, ..PAPER };

/// Checks a batch of these keys beside a client that puts others.
fn is_right(name: &str, scenario: Scenario, keys: &[usize], rivals: &[usize]) {
    let puts = |keys: &[usize]| -> &'static [Request] {
        keys.iter().map(|key| put(*key)).collect::<Vec<_>>().leak()
    };
    let scripts = vec![puts(keys), puts(rivals)].leak();
    report(name, &[Case { scenario: Scenario { scripts, ..scenario }, subject: Narrow }]);
}

#[test]
fn batches() {
    for homes in [[0, 0, 0], [0, 1, 3], [3, 3, 0]] {
        for ahead_from in [0, u32::MAX] {
            let ring = Scenario { homes, ahead_from, ..RING };
            is_right("a ring", ring, &[0, 1], &[]);
            is_right("a ring", ring, &[0, 0], &[]);
        }
        // One chunk at a time, which limits the number of orders.
        let calm = Scenario { homes, ahead_from: u32::MAX, ..RING };
        is_right("a ring", calm, &[0, 1, 0], &[]);
        is_right("a ring", calm, &[0, 1], &[1]);
        is_right("a ring", Scenario { storage: 1, ..calm }, &[0, 1, 2], &[2, 0]);
        is_right("claims first", Scenario { one_roundtrip: [true; 3], ..calm }, &[0, 1], &[1]);
        is_right("cached", Scenario { cache_entries: 4, ..calm }, &[0, 1, 0], &[]);
    }
}

/// Two lines, of which the CPU can address only the first, which the batch or the rival fills.
#[test]
fn batches_beyond_addressable_part() {
    let lines = Scenario {
        buckets: 16,
        chunk: 8,
        filled: &[0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 15],
        homes: [2, 4, 9],
        direct: [Direct::Claims, Direct::Off, Direct::Off],
        ahead_from: u32::MAX,
        ..RING
    };
    for homes in [[2, 4, 9], [5, 5, 5], [4, 9, 0]] {
        is_right("two lines", Scenario { homes, ..lines }, &[0, 1, 2], &[1]);
        is_right("two lines", Scenario { homes, ..lines }, &[1, 0, 1], &[2, 0]);
    }
}

#[test]
fn detects_misreported_batch_claims() {
    const RIGHT: Scenario = Scenario { scripts: &[&[put(0), put(1)]], ..RING };
    let mutant = Scenario { mutant: Mutant::MisreportsClaims, ..RIGHT };
    let [mutant, right] = [mutant, RIGHT].map(|scenario| [Case { scenario, subject: Narrow }]);
    is_detected(&mutant, &right);
}
