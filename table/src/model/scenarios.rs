//! The scenarios of the model check: requests, shapes of the table, and options.

use super::subject::{Case, Narrow, report};
use super::{PAPER, Scenario, Scripts, Shape, find, put};
use crate::direct::Direct;
use crate::layout::Probing;

const SHAPES: &[Shape] = &[(2, 2, 1), (3, 1, 3), (3, 2, 2), (4, 2, 2)];
/// Shapes for three clients, which have many more worlds.
const SMALL_SHAPES: &[Shape] = &[(2, 2, 1), (2, 1, 2), (3, 1, 3)];

const THREE_KEYS: (Scripts, &[Shape]) = (&[&[put(0)], &[put(1)], &[put(2)]], SMALL_SHAPES);
const CROSSED: (Scripts, &[Shape]) = (&[&[put(0), put(1)], &[put(1), put(0)]], SHAPES);

const CROSSED_AND_FOUND: (Scripts, &[Shape]) = (&[&[put(0), find(1)], &[put(1), find(0)]], SHAPES);
const ONE_KEY: (Scripts, &[Shape]) = (&[&[put(0)], &[put(0)], &[find(0)]], SMALL_SHAPES);
const CROWDED: (Scripts, &[Shape]) = (&[&[put(0), put(1)], &[put(2)]], SHAPES);
/// Requests that repeat keys seen before.
const AGAIN: (Scripts, &[Shape]) =
    (&[&[put(0), put(1), find(2)], &[put(2), put(0)]], &[(3, 1, 3), (3, 3, 1)]);
/// A key whose probe order passes a torn word of another key, and then the key that this word
/// resembles.
const LIKE: (Scripts, &[Shape]) = (&[&[put(2), find(0)], &[put(1)]], SHAPES);

/// Without the scenario of three keys and three clients, which has millions of worlds more.
const SHORT: [(Scripts, &[Shape]); 4] = [CROSSED, ONE_KEY, CROSSED_AND_FOUND, CROWDED];

fn check_each(all: &[(Scripts, &[Shape])], switched: Scenario) {
    for (scripts, shapes) in all {
        report("narrow keys", &switched.in_shapes(Narrow, scripts, shapes));
    }
}

fn check_all(switched: Scenario) {
    check_each(&SHORT, switched);
    check_each(&[THREE_KEYS], switched);
}

fn report_one(scenario: Scenario) {
    report("narrow keys", &[Case { scenario, subject: Narrow }]);
}

#[test]
fn whole_and_torn_words() {
    for words_tear in [false, true] {
        check_all(Scenario { words_tear, ..PAPER });
        check_all(Scenario { words_tear, failures: 1, ..PAPER });
    }
}

/// One-roundtrip claims by all clients, and by one client only.
#[test]
fn one_roundtrip_claims() {
    for one_roundtrip in [[true; 3], [true, false, false]] {
        let claiming = Scenario { one_roundtrip, ..PAPER };
        check_all(claiming);
        check_all(Scenario { ahead_from: u32::MAX, ..claiming });
        check_all(Scenario { words_tear: true, ..claiming });
        check_each(&SHORT, Scenario { failures: 1, ..claiming });
        let torn = Scenario { words_tear: true, failures: 1, ..claiming };
        check_each(&SHORT.map(|(scripts, _)| (scripts, SMALL_SHAPES)), torn);
    }
}

#[test]
fn caches() {
    for (one_roundtrip, words_tear) in [(false, true), (true, false), (true, true), (false, false)]
    {
        let one_roundtrip = [one_roundtrip; 3];
        let cached = Scenario { one_roundtrip, words_tear, clears: !words_tear, ..PAPER };
        // One entry for all buckets, and more entries than buckets.
        for cache_entries in [1, 4] {
            let switched = Scenario { cache_entries, ..cached };
            check_each(&[AGAIN, CROSSED, LIKE], switched);
            check_each(&[LIKE], Scenario { failures: 1, ..switched });
        }
    }
}

/// Chunks that straddle two owners, and storage for two operations: a request starts while READs of
/// the previous one are in flight.
#[test]
fn two_owners_and_two_operations() {
    const TWO_CLIENTS: [Scripts; 2] =
        [&[&[put(0), put(1)], &[put(1)]], &[&[put(0), find(1)], &[put(1)]]];
    let two = Scenario { owners: 2, ..PAPER };
    for switched in [
        two,
        Scenario { words_tear: true, ..two },
        Scenario { storage: 2, ..two },
        Scenario { storage: 2, one_roundtrip: [true; 3], ..PAPER },
        Scenario { storage: 2, failures: 1, ..PAPER },
    ] {
        let shape: &[Shape] = if switched.storage == 1 { &[(4, 2, 2)] } else { &[(2, 1, 2)] };
        check_each(&TWO_CLIENTS.map(|scripts| (scripts, shape)), switched);
    }
}

/// One line, probed with wrap-around: by READs, whose cache knows a part of it before the first one,
/// and by a CPU that can address it, among clients that cannot. With two owners it continues to a
/// line that it cannot address.
#[test]
fn lines_by_reads_and_cpu() {
    const LINE: Scenario = Scenario {
        buckets: 8,
        chunk: 8,
        max_chunks: 1,
        probing: Probing::Lines,
        filled: &[0, 2, 3, 4, 5],
        scripts: &[&[put(0), put(1), put(2)], &[put(2), find(0)]],
        ..PAPER
    };
    const TWO: Scenario = Scenario {
        owners: 2,
        buckets: 16,
        max_chunks: 2,
        probing: Probing::Linear,
        filled: &[0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14],
        ..LINE
    };
    for (line, homes) in [
        (LINE, [6, 7, 6]),
        (LINE, [7, 5, 2]),
        (LINE, [0, 1, 7]),
        (TWO, [4, 2, 7]),
        (TWO, [8, 3, 4]),
    ] {
        for cache_entries in [0, 8] {
            let line = Scenario { homes, cache_entries, ..line };
            for one_roundtrip in [[false; 3], [true; 3]] {
                let line = Scenario { one_roundtrip, ..line };
                if line.owners == 1 {
                    report_one(line);
                    report_one(Scenario { words_tear: true, ..line });
                }
                for direct in [Direct::Claims, Direct::Loads] {
                    report_one(Scenario { direct: [direct, Direct::Off, Direct::Off], ..line });
                }
            }
            for direct in [Direct::Claims, Direct::Loads] {
                report_one(Scenario { direct: [direct; 3], failures: 1, ..line });
            }
        }
    }
}
