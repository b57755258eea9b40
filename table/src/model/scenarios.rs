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

const ALL: [(&str, (Scripts, &[Shape])); 5] = [
    ("two keys crossed", CROSSED),
    ("one key, three clients", (&[&[put(0)], &[put(0)], &[find(0)]], SMALL_SHAPES)),
    ("finds among puts", (&[&[put(0), find(1)], &[put(1), find(0)]], SHAPES)),
    ("three keys", THREE_KEYS),
    ("more keys than room", (&[&[put(0), put(1)], &[put(2)]], SHAPES)),
];

fn cases((scripts, shapes): (Scripts, &[Shape]), switched: Scenario) -> Vec<Case<Narrow>> {
    switched.in_shapes(Narrow, scripts, shapes)
}

fn check_all(switched: Scenario) {
    for (name, scenario) in ALL {
        report(name, &cases(scenario, switched));
    }
}

fn report_one(name: &str, scenario: Scenario) {
    report(name, &[Case { scenario, subject: Narrow }]);
}

#[test]
fn whole_words() {
    check_all(PAPER);
}

#[test]
fn torn_words() {
    check_all(Scenario { words_tear: true, ..PAPER });
}

#[test]
fn torn_words_and_late_effect() {
    check_all(Scenario { words_tear: true, failures: 1, ..PAPER });
}

#[test]
fn whole_words_and_failing_claim() {
    check_all(Scenario { failures: 1, ..PAPER });
}

/// One-roundtrip claims by all clients, and by one client only.
const WHO: [[bool; 3]; 2] = [[true; 3], [true, false, false]];

#[test]
fn one_roundtrip_claims() {
    for one_roundtrip in WHO {
        check_all(Scenario { one_roundtrip, ..PAPER });
        check_all(Scenario { one_roundtrip, ahead_from: u32::MAX, ..PAPER });
        check_all(Scenario { one_roundtrip, words_tear: true, ..PAPER });
    }
}

/// Omits the scenario of three keys and three clients, which has millions of worlds more.
#[test]
fn one_roundtrip_claims_late_effect() {
    for one_roundtrip in WHO {
        for words_tear in [false, true] {
            let switched = Scenario { one_roundtrip, words_tear, failures: 1, ..PAPER };
            for (name, (scripts, shapes)) in
                ALL.into_iter().filter(|(name, _)| *name != "three keys")
            {
                let shapes = if words_tear { SMALL_SHAPES } else { shapes };
                report(name, &cases((scripts, shapes), switched));
            }
        }
    }
}

/// Requests that repeat keys seen before.
const AGAIN: (Scripts, &[Shape]) =
    (&[&[put(0), put(1), find(2)], &[put(2), put(0)]], &[(3, 1, 3), (3, 3, 1)]);

/// A key whose probe order passes a torn word of another key, and then the key that this word
/// resembles.
const LIKE: (Scripts, &[Shape]) = (&[&[put(2), find(0)], &[put(1)]], SHAPES);

#[test]
fn caches() {
    for (one_roundtrip, words_tear) in [(false, true), (true, false), (true, true), (false, false)]
    {
        let one_roundtrip = [one_roundtrip; 3];
        let cached = Scenario { one_roundtrip, words_tear, clears: !words_tear, ..PAPER };
        // One entry for all buckets, and more entries than buckets.
        for cache_entries in [1, 4] {
            let switched = Scenario { cache_entries, ..cached };
            report("again", &cases(AGAIN, switched));
            report("two keys crossed", &cases(CROSSED, switched));
            report("keys alike", &cases(LIKE, switched));
            let failing = Scenario { failures: 1, ..switched };
            report("keys alike", &cases(LIKE, failing));
        }
    }
}

/// One line, probed with wrap-around; the cache knows a part of it before the first READ.
#[test]
fn lines_probed_with_wrap_around() {
    const LINE: Scenario = Scenario {
        buckets: 8,
        chunk: 8,
        max_chunks: 1,
        probing: Probing::Lines,
        filled: &[0, 2, 3, 4, 5],
        scripts: &[&[put(0), put(1), put(2)], &[put(2), find(0)]],
        ..PAPER
    };
    for one_roundtrip in [[false; 3], [true; 3], [true, false, false]] {
        for cache_entries in [0, 8] {
            for homes in [[6, 7, 6], [7, 5, 2], [0, 1, 7]] {
                let line = Scenario { one_roundtrip, cache_entries, homes, ..LINE };
                report_one("a line", line);
                let torn = Scenario { words_tear: true, ..line };
                report_one("a line", torn);
            }
        }
    }
}

/// Chunks that straddle two owners, and storage for two operations: a request starts while READs of
/// the previous one are in flight.
#[test]
fn two_owners_and_two_operations() {
    let two = Scenario { owners: 2, ..PAPER };
    for (switched, name) in [
        (two, "two owners"),
        (Scenario { words_tear: true, ..two }, "two owners"),
        (Scenario { storage: 2, ..two }, "two owners, storage for two"),
        (Scenario { storage: 2, one_roundtrip: [true; 3], ..PAPER }, "storage for two"),
        (Scenario { storage: 2, failures: 1, ..PAPER }, "storage for two"),
    ] {
        const SHORT: [Scripts; 2] =
            [&[&[put(0), put(1)], &[put(1)]], &[&[put(0), find(1)], &[put(1)]]];
        let shape: &[Shape] = if switched.storage == 1 { &[(4, 2, 2)] } else { &[(2, 1, 2)] };
        for scripts in SHORT {
            report(name, &cases((scripts, shape), switched));
        }
    }
}

/// One client's CPU can address a line of which others claim buckets with posts. It then continues
/// to a line that it cannot address.
#[test]
fn direct_path_beside_posts() {
    const LINES: Scenario = Scenario {
        buckets: 8,
        chunk: 8,
        max_chunks: 1,
        probing: Probing::Lines,
        filled: &[0, 2, 3, 4, 5],
        scripts: &[&[put(0), put(1), find(2)], &[put(2), put(0)]],
        ..PAPER
    };
    const TWO: Scenario = Scenario {
        owners: 2,
        buckets: 16,
        max_chunks: 2,
        probing: Probing::Linear,
        filled: &[0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14],
        ..LINES
    };
    for direct in [Direct::Claims, Direct::Loads] {
        for (lines, homes) in
            [(LINES, [6, 7, 6]), (LINES, [7, 5, 2]), (TWO, [4, 2, 7]), (TWO, [8, 3, 4])]
        {
            for cache_entries in [0, 8] {
                let direct = [direct, Direct::Off, Direct::Off];
                let one = Scenario { homes, direct, cache_entries, ..lines };
                report_one("a line of the CPU's", one);
                let claiming = Scenario { one_roundtrip: [true; 3], ..one };
                report_one("a line of the CPU's", claiming);
                let both = Scenario { direct: [direct[0]; 3], failures: 1, ..one };
                report_one("a line of the CPUs'", both);
            }
        }
    }
}
