//! Tests of `explore` with states of more than 63 bits, and of `--states`.

use crate::common::pnml::{full_places, net, place, transition};
use crate::common::{Scratch, rows, run};

/// Returns the states, arcs and deadlocks of a net, and its row.
#[track_caller]
fn explore(model: &str, options: &[&str]) -> ([u64; 3], impl Fn(&str) -> f64 + use<>) {
    let (rows, _) = rows(&[&["explore", model], options].concat());
    assert_eq!(rows.len(), 1);
    let row = rows[0].clone();
    let counts = ["states", "arcs", "deadlocks"].map(|count| row[count].parse().unwrap());
    (counts, move |column| row[column].parse().unwrap())
}

/// As published for `Peterson-PT-2` of the Model Checking Contest (examination `StateSpace`).
#[test]
fn reproduces_peterson_2() {
    let ways = [
        &["--ranks", "1"][..],
        &["--ranks", "2"],
        &["--ranks", "3", "--batch", "1"],
        &["--ranks", "2", "--recent-states", "0", "--all-successors"],
        &["--transport", "sim", "--ranks", "2"],
    ];
    for way in ways {
        let (counts, row) = explore("peterson:2", &[way, &["--table-size", "2MiB"]].concat());
        assert_eq!(counts, [20_754, 62_262, 0], "{way:?}");
        assert_eq!((row("bits"), row("bytes")), (102.0, 24.0));
        assert!(row("false_read_share") < 0.01, "{way:?}");
    }
}

/// Returns a net of 8,000 states of many places: three counters, of which each has the places of a
/// ring.
fn rings(lengths: [usize; 3]) -> String {
    let mut parts = Vec::new();
    for (ring, length) in lengths.into_iter().enumerate() {
        for at in 0..length {
            let [here, next] = [at, (at + 1) % length].map(|at| format!("p{ring}_{at}"));
            parts.push(place(&here, u64::from(at == 0)));
            parts.push(transition(&format!("t{ring}_{at}"), &[&here], &[&next]));
        }
    }
    net(&parts)
}

/// Trees hold the same states as entries, in few bytes each.
#[test]
fn tree_states_give_same_counts() {
    let scratch = Scratch::new();
    let rings_of = |name: &str, lengths| {
        let path = scratch.path(name);
        std::fs::write(&path, rings(lengths)).unwrap();
        path
    };
    for (model, size) in [
        ("peterson:2".to_owned(), [20_754, 62_262, 0]),
        ("fms:2".to_owned(), [3_444, 16_311, 0]),
        (rings_of("short.pnml", [20, 20, 30]), [12_000, 36_000, 0]),
        (rings_of("long.pnml", [100, 20, 7]), [14_000, 42_000, 0]),
        (rings_of("longest.pnml", [300, 7, 7]), [14_700, 44_100, 0]),
    ] {
        for way in [
            &["--ranks", "1"][..],
            &["--ranks", "2"],
            &["--ranks", "2", "--batch", "1", "--recent-states", "0", "--all-successors"],
            &["--ranks", "2", "--direct", "off"],
            &["--ranks", "3", "--in-flight", "2"],
            &["--ranks", "3", "--in-flight", "2", "--direct", "off"],
            &["--transport", "sim", "--ranks", "2"],
        ] {
            let all = [&["--states", "tree", "--table-size", "1MiB"], way].concat();
            let (counts, row) = explore(&model, &all);
            assert_eq!(counts, size, "{model} {way:?}");
            // A bucket, and at most one inner node a state in nets as small as these.
            assert!((8.0..20.0).contains(&row("bytes")), "{model} {}", row("bytes"));
            let flat = [&["--states", "flat", "--table-size", "8MiB"], way].concat();
            assert_eq!(explore(&model, &flat).0, size, "{model} {way:?}");
        }
    }
}

/// Trees of more nodes than the table has buckets, or than a short probe limit finds room for.
#[test]
fn grows_for_initial_state() {
    let scratch = Scratch::new();
    let net = scratch.file("long.pnml", &rings([100, 20, 7]));
    for ranks in ["1", "3"] {
        let tiny = ["--table-size", "192B", "-C", "8", "-M", "1", "--ranks", ranks];
        let (counts, row) = explore(&net, &[&["--states", "tree"], &tiny[..]].concat());
        assert_eq!(counts, [14_000, 42_000, 0], "{ranks} ranks");
        assert_eq!(row("levels"), 125.0);
        assert!(row("growths") > 0.0);
    }
}

#[test]
fn narrow_flat_states_keep_counts() {
    for (model, size) in [("fms:2", [3_444, 16_311, 0]), ("philosophers:9", [19_683, 137_781, 2])] {
        for way in [
            &["--ranks", "1"][..],
            &["--ranks", "3", "--batch", "7", "--recent-states", "2"],
            &["--ranks", "2", "--probing", "jump", "-C", "8", "-M", "128"],
            &["--ranks", "2", "--paper"],
            &["--ranks", "2", "--direct", "off", "--adaptive-chunks"],
        ] {
            let size_and_states = ["--states", "flat", "--table-size", "2MiB"];
            let (counts, row) = explore(model, &[way, &size_and_states].concat());
            assert_eq!(counts, size, "{model} {way:?}");
            assert_eq!(row("bytes"), 24.0);
        }
        let (counts, row) = explore(model, &["--states", "auto", "--table-size", "1MiB"]);
        assert_eq!((counts, row("bytes")), (size, 8.0), "{model}");
    }
}

/// Returns a net that outgrows its packing after the search has started.
///
/// It is bounded, but `never`, which stays empty, keeps invariants from showing it. 1,024 tokens in
/// `whole` need one bit more than expected: neither a search of 20,000 states nor a walk of 1,024
/// steps reaches them.
fn too_long_to_foresee(full: u32) -> String {
    let mut parts = vec![place("part", 1500), place("whole", 0), place("never", 0)];
    parts.extend([place("left", 60), place("right", 0)]);
    parts.extend(full_places(full));
    parts.push(transition("assemble", &["part"], &["whole"]));
    parts.push(transition("move", &["left"], &["right"]));
    parts.push(transition("feed", &["never"], &["never", "whole", "part"]));
    net(&parts)
}

/// The packing grows within one word, or from 63 bits to a second word.
#[test]
fn restarts_with_wider_states() {
    let scratch = Scratch::new();
    for (full, bytes) in [(29, 8.0), (30, 24.0)] {
        let file = scratch.file("net.pnml", &too_long_to_foresee(full));
        for (ranks, size) in [("1", "8MiB"), ("3", "8MiB"), ("1", "4KiB"), ("2", "4KiB")] {
            let (counts, row) = explore(&file, &["--ranks", ranks, "--table-size", size]);
            assert_eq!(counts, [1501 * 61, 1500 * 61 + 1501 * 60, 1], "{ranks} ranks, {size}");
            assert_eq!((row("bits") > 63.0, row("bytes")), (bytes > 8.0, bytes));
            // The search has also started again in tables that had grown.
            assert_eq!(row("growths") > 0.0, size == "4KiB");
        }
    }
}

#[test]
fn full_table_names_state_width() {
    for ranks in ["1", "2"] {
        let sizes = ["--table-size", "64KiB", "--max-table-size", "64KiB"];
        let ended = run(&[&["explore", "peterson:2", "--ranks", ranks], &sizes[..]].concat());
        let said = ended.failed_in_one_line();
        assert!(said.contains("the table is full: it has no room for another state of"), "{said}");
        assert!(said.contains(" states in ") && said.contains(" were found"), "{said}");
    }
}

/// The path is the same as with states of one word.
#[test]
fn counterexamples_ignore_state_encoding() {
    let printed = ["auto", "flat", "tree"].map(|states| {
        let options = ["--ranks", "2", "--states", states, "--table-size", "1MiB", "-q"];
        let asked = ["--find-deadlock", "--invariant", "eat_1 + eat_3 <= 1"];
        let ended = run(&[&["explore", "philosophers:6"], &options[..], &asked].concat());
        assert_eq!(ended.code, Some(4), "{ended:?}");
        let (verdicts, _) = ended.stdout.split_once("\nphilosophers:6").unwrap();
        verdicts.lines().filter(|line| !line.starts_with("stopped")).collect::<Vec<_>>().join("\n")
    });
    assert!(printed[0].contains("deadlock after 6 transitions"), "{}", printed[0]);
    assert!(
        printed[0].contains("violated: eat_1 + eat_3 <= 1, after 4 transitions"),
        "{printed:?}"
    );
    assert_eq!(printed[0], printed[1]);
    assert_eq!(printed[0], printed[2]);
}

#[test]
fn refuses_ineffective_and_unknown_options() {
    let refusals = [
        (&["--states", "flat", "--cache", "64"][..], "--cache is for states of at most 63 bits"),
        (
            &["--states", "flat", "--one-roundtrip", "on"],
            "--one-roundtrip is for states of at most",
        ),
        (&["--states", "deep"], "possible values: auto, flat, tree"),
    ];
    for (options, expected) in refusals {
        let ended = run(&[&["explore", "fms:2"], options].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
    }
}
