//! Tests of `explore` with states of more than 63 bits, and of `--states`.

mod common;

use core::fmt::Write;

use common::{Scratch, rows, run};

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
fn peterson_2_has_its_published_size_with_any_number_of_ranks() {
    let ways = [
        &["--ranks", "1"][..],
        &["--ranks", "2"],
        &["--ranks", "3", "--batch", "1"],
        &["--ranks", "2", "--known-states", "0"],
        &["--transport", "sim", "--ranks", "2"],
    ];
    for way in ways {
        let (counts, row) = explore("peterson:2", &[way, &["--table-size", "2MiB"]].concat());
        assert_eq!(counts, [20_754, 62_262, 0], "{way:?}");
        assert_eq!((row("bits"), row("bytes")), (102.0, 24.0));
        assert!(row("false_read_share") < 0.01, "{way:?}");
    }
}

#[test]
fn flat_states_of_few_bits_give_the_same_counts() {
    for (model, size) in [("fms:2", [3_444, 16_311, 0]), ("philosophers:9", [19_683, 137_781, 2])] {
        for way in [
            &["--ranks", "1"][..],
            &["--ranks", "3", "--batch", "7", "--known-states", "2"],
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

/// Bounded, but with no invariant that shows it. The packing has 63 bits when the search starts, and
/// needs one more once `whole` holds 1,024 tokens (see `too_long_to_foresee` of another file).
#[test]
fn states_get_a_second_word_and_the_search_restarts() {
    let place = |id: &str, tokens: u32| {
        format!(
            r#"<place id="{id}"><initialMarking><text>{tokens}</text></initialMarking></place>"#
        )
    };
    let mut parts = [("part", 1500), ("whole", 0), ("never", 0), ("left", 60), ("right", 0)]
        .map(|(id, tokens)| place(id, tokens))
        .concat();
    parts.extend((0..30).map(|number| place(&format!("full_{number}"), 1)));
    for (id, inputs, outputs) in [
        ("assemble", &["part"][..], &["whole"][..]),
        ("move", &["left"], &["right"]),
        ("feed", &["never"], &["never", "whole", "part"]),
    ] {
        write!(parts, r#"<transition id="{id}"/>"#).unwrap();
        let inputs = inputs.iter().map(|place| (*place, id));
        for (from, to) in inputs.chain(outputs.iter().map(|place| (id, *place))) {
            write!(parts, r#"<arc id="{from}_{to}" source="{from}" target="{to}"/>"#).unwrap();
        }
    }
    let scratch = Scratch::new();
    let file = scratch.file(
        "net.pnml",
        &format!(
            r#"<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
            <net id="n" type="http://www.pnml.org/version-2009/grammar/ptnet"><page id="g">{parts}
            </page></net></pnml>"#
        ),
    );
    for ranks in ["1", "3"] {
        let (counts, row) = explore(&file, &["--ranks", ranks, "--table-size", "8MiB"]);
        assert_eq!(counts, [1501 * 61, 1500 * 61 + 1501 * 60, 1], "{ranks} ranks");
        assert_eq!((row("bits") > 63.0, row("bytes")), (true, 24.0));
    }
}

#[test]
fn a_full_table_advises_a_size_until_one_is_large_enough() {
    for options in [&["--ranks", "1"][..], &["--ranks", "2"]] {
        let mut size = "64KiB".to_owned();
        for _ in 0..8 {
            let ended = run(&[&["explore", "peterson:2", "--table-size", &size], options].concat());
            if ended.code == Some(0) {
                break;
            }
            let said = ended.failed_in_one_line();
            assert!(said.contains("the table is full: it has no room"), "{said}");
            assert!(said.contains(" states in ") && said.contains(" were found"), "{said}");
            let (_, rest) = said.split_once("--table-size ").unwrap();
            size = rest.split(',').next().unwrap().to_owned();
        }
        assert_eq!(size, "1MiB", "{options:?}");
    }
}

/// The path is the same as with states of one word.
#[test]
fn counterexamples_are_those_of_states_of_one_word() {
    let printed = ["auto", "flat"].map(|states| {
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
}

#[test]
fn options_without_effect_and_unknown_choices_are_refused() {
    let refusals = [
        (&["--states", "flat", "--cache", "64"][..], "--cache is for states of at most 63 bits"),
        (
            &["--states", "flat", "--one-roundtrip", "on"],
            "--one-roundtrip is for states of at most",
        ),
        (&["--states", "deep"], "possible values: auto, flat"),
    ];
    for (options, expected) in refusals {
        let ended = run(&[&["explore", "fms:2"], options].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
    }
}
