//! Tests of `explore`: the published sizes of state spaces, nets from files, and unsupported nets.

use std::collections::HashSet;

use crate::common::{AT_ONCE, Scratch, rows, run, trace};

/// Returns the states, arcs and deadlocks of a net, and the output.
#[track_caller]
fn explore(model: &str, options: &[&str]) -> ([u64; 3], String) {
    let (rows, printed) = rows(&[&["explore", model], options].concat());
    assert_eq!(rows.len(), 1);
    (["states", "arcs", "deadlocks"].map(|count| rows[0][count].parse().unwrap()), printed)
}

/// As published for `Kanban-PT-00005` of the Model Checking Contest (examination `StateSpace`).
#[test]
fn reproduces_kanban_5() {
    for ranks in ["1", "2", "4"] {
        let (counts, printed) = explore("kanban:5", &["--ranks", ranks]);
        println!("{printed}");
        assert_eq!(counts, [2_546_432, 24_460_016, 0], "{ranks} ranks");
    }
}

/// As published for `FMS-PT-00002` and `Philosophers-PT-000005` of the contest.
const SMALL: [(&str, [u64; 3]); 2] =
    [("fms:2", [3_444, 16_311, 0]), ("philosophers:5", [243, 945, 2])];

/// If a roundtrip takes a millisecond of virtual time, levels take many rounds.
#[test]
fn counts_ignore_rounds_per_level() {
    let slow = [
        "--transport",
        "sim",
        "--sim-roundtrip-ns",
        "1000000",
        "--recent-states",
        "0",
        "--all-successors",
    ];
    for ranks in ["1", "3"] {
        let options = [&slow[..], &["--ranks", ranks, "--table-size", "1MiB"]].concat();
        let (counts, printed) = explore("philosophers:10", &options);
        assert_eq!(counts, [59_049, 459_270, 2], "{printed}");
    }
}

/// Batches of one and of several, split at any place; states that are remembered, forgotten at
/// once, and not remembered.
const WAYS: [&[&str]; 12] = [
    &["--batch", "1", "--recent-states", "0", "--all-successors"],
    &["--batch", "1"],
    &["--batch", "7", "--recent-states", "2"],
    &["--batch", "1000000", "--recent-states", "0", "--all-successors"],
    &["--batch", "64", "--in-flight", "2", "--recent-states", "1024"],
    &["--paper"],
    &["--cache", "1024", "--recent-states", "0", "--all-successors"],
    &["--probing", "lines"],
    &["--probing", "jump", "-C", "8", "-M", "128"],
    &["--direct", "off", "--one-roundtrip", "on", "--cache", "256"],
    &["--direct", "off", "--adaptive-chunks", "--read-ahead", "likely"],
    &["--direct", "off", "--probing", "lines", "--read-ahead", "never", "--one-roundtrip", "auto"],
];

#[test]
fn counts_ignore_search_options() {
    let transports = [&["--ranks", "1"][..], &["--ranks", "3"], &["--transport", "sim"]];
    for (model, size) in &SMALL {
        for way in WAYS {
            for transport in transports {
                let options = [way, transport, &["--table-size", "1MiB"]].concat();
                let (counts, printed) = explore(model, &options);
                assert_eq!(counts, *size, "{printed}");
            }
        }
    }
}

#[test]
fn filters_known_states() {
    let puts = |known| {
        let options = ["--ranks", "1", "--table-size", "1MiB", "--recent-states", known];
        let all = if known == "0" { &["--all-successors"][..] } else { &[] };
        let (rows, _) = rows(&[&["explore", "fms:2"], &options[..], all].concat());
        rows[0]["find_or_puts_per_state"].parse::<f64>().unwrap()
    };
    let (arcs, states) = (16_311.0, 3_444.0);
    // Each arc and the initial state are put once.
    assert_eq!(puts("0"), (arcs + 1.0) / states);
    assert!((1.0..1.5).contains(&puts("65536")), "{}", puts("65536"));
    assert!(puts("16") < puts("0") && puts("16") > puts("65536"));
}

/// Returns whether there are hits of the known states and hits of the cache. Both are counted
/// separately, and neither is looked up in the table. The cache has no part in lines that the CPU
/// examines.
#[track_caller]
fn hits(transport: &str, known: &str, cache: &str) -> [bool; 2] {
    let size = ["--transport", transport, "--ranks", "2", "--table-size", "1MiB"];
    let options = ["--direct", "off", "--recent-states", known, "--cache", cache];
    let all = if known == "0" { &["--all-successors"][..] } else { &[] };
    let (rows, _) = rows(&[&["explore", "fms:2"], &size[..], &options, all].concat());
    let number = |column: &str| rows[0][column].parse::<f64>().unwrap();
    let (arcs, states) = (number("arcs"), number("states"));
    let known = number("known_share") * arcs;
    let puts = number("find_or_puts_per_state") * states;
    // No arc leads to the initial state.
    assert!((arcs + 1.0 - known - puts).abs() < 1e-6, "{rows:?}");
    let hits = number("cache_hit_share") * puts;
    assert!(hits <= puts - states + 1e-6, "what is new is in no cache: {rows:?}");
    // Few puts repeat an earlier one with --recent-states.
    [known > 0.1 * arcs, hits > 0.05 * puts]
}

#[test]
fn counts_hits_separately() {
    for transport in ["shm", "sim"] {
        assert_eq!(hits(transport, "0", "0"), [false, false]);
        assert_eq!(hits(transport, "65536", "0"), [true, false]);
        assert_eq!(hits(transport, "0", "65536"), [false, true]);
        assert_eq!(hits(transport, "2", "65536"), [true, true]);
    }
}

#[test]
fn simulator_repeats_counts_and_trace() {
    let mut traces = HashSet::new();
    for (model, size) in &SMALL {
        for ranks in ["1", "3"] {
            let options = ["--transport", "sim", "--ranks", ranks, "--seed", "7"];
            let options = [&options[..], &["--table-size", "1MiB"]].concat();
            let (counts, first) = explore(model, &options);
            assert_eq!(counts, *size, "{first}");
            let (_, second) = explore(model, &options);
            assert_eq!(trace(&first), trace(&second));
            traces.insert(trace(&first).to_owned());
        }
    }
    assert_eq!(traces.len(), 4, "the trace does not show what was done: {traces:?}");
}

/// A token of `raw` becomes two of `part`; three of these become one of `whole`. There are two
/// pages; the second refers to `part` on the first.
const TWO_PAGES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
  <net id="works" type="http://www.pnml.org/version-2009/grammar/ptnet">
    <page id="cut">
      <place id="raw"><initialMarking><text>70</text></initialMarking></place>
      <place id="part"/>
      <transition id="split"/>
      <arc id="a1" source="raw" target="split"/>
      <arc id="a2" source="split" target="part"><inscription><text>2</text></inscription></arc>
    </page>
    <page id="join">
      <referencePlace id="part_here" ref="part"/>
      <place id="whole"/>
      <transition id="assemble"/>
      <arc id="a3" source="part_here" target="assemble"><inscription><text>3</text></inscription></arc>
      <arc id="a4" source="assemble" target="whole"/>
    </page>
  </net>
</pnml>
"#;

/// Returns the state space of [`TWO_PAGES`], computed from its two rules.
fn size_of_two_pages() -> [u64; 3] {
    let (mut seen, mut open) = (HashSet::from([(70, 0, 0)]), vec![(70, 0, 0)]);
    let (mut arcs, mut deadlocks) = (0, 0);
    while let Some((raw, part, whole)) = open.pop() {
        let split = (raw >= 1).then(|| (raw - 1, part + 2, whole));
        let assemble = (part >= 3).then(|| (raw, part - 3, whole + 1));
        let next: Vec<(i32, i32, i32)> = split.into_iter().chain(assemble).collect();
        arcs += next.len() as u64;
        deadlocks += u64::from(next.is_empty());
        open.extend(next.into_iter().filter(|state| seen.insert(*state)));
    }
    [seen.len() as u64, arcs, deadlocks]
}

#[test]
fn explores_net_from_file() {
    let scratch = Scratch::new();
    let file = scratch.file("two pages.pnml", TWO_PAGES);
    let size = size_of_two_pages();
    assert!(size[0] > 1000 && size[2] == 1, "{size:?}");
    for options in [&["--ranks", "1"][..], &["--ranks", "3"], &["--transport", "sim"]] {
        let options = [options, &["--table-size", "1MiB"]].concat();
        let (counts, printed) = explore(&file, &options);
        assert_eq!(counts, size, "{printed}");
    }
}

/// Checks that the error is the same line with any number of ranks, and appears at once.
#[track_caller]
fn refused(model: &str, expected: &[&str]) {
    for ranks in ["1", "2"] {
        let ended = run(&["explore", model, "--ranks", ranks]);
        assert!(ended.everything_gone < AT_ONCE, "{ended:?}");
        let said = ended.failed_in_one_line();
        for part in expected {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
    }
}

#[test]
fn names_line_of_malformed_file() {
    let scratch = Scratch::new();
    let file = scratch.file("open.pnml", &TWO_PAGES.replace("    </page>\n  </net>", "  </net>"));
    refused(&file, &[&format!("{file}:17: "), "not well-formed XML"]);
    let file = scratch.file("empty.pnml", "");
    refused(&file, &[&format!("{file}:1: ")]);
}

#[test]
fn lists_models_for_unknown_name() {
    let scratch = Scratch::new();
    let names = ["kanban:N", "fms:N", "philosophers:N"];
    let missing = scratch.path("missing.pnml");
    refused(&missing, &[&[missing.as_str(), "no such file"][..], &names].concat());
    for model in ["kanban", "kanban:", "kanban:-1", "fms:0", "philosophers:99999999999", "petri:3"]
    {
        refused(model, &names);
    }
    refused(&scratch.path(""), &["directory"]);
}

#[test]
fn refuses_net_with_excess_bits() {
    refused("philosophers:205", &["needs at least 1025 bits", "1024 fit", "smaller instance"]);
    refused("peterson:20", &["needs at least 36624 bits", "1024 fit", "wants_0 (1)"]);
}

/// The simulator has one table in a job.
#[test]
fn full_table_advises_sufficient_size() {
    for options in [&["--ranks", "1"][..], &["--batch", "1"]] {
        let mut size = "4KiB".to_owned();
        // From 512 buckets to 65,536, doubled each time, for 59,049 states.
        for _ in 0..8 {
            let arguments =
                ["explore", "philosophers:10", "--transport", "sim", "--table-size", &size];
            let ended = run(&[&arguments[..], options].concat());
            if ended.code == Some(0) {
                break;
            }
            let said = ended.failed_in_one_line();
            assert!(said.contains("the table is full"), "{said}");
            assert!(said.contains("does not grow over sim. Start again with"), "{said}");
            let (_, rest) = said.split_once("--table-size ").unwrap();
            let asked = rest.split([',', '\n']).next().unwrap().to_owned();
            assert_ne!(asked, size, "{said}");
            size = asked;
        }
        assert_eq!(size, "512KiB", "{options:?}");
    }
}

/// The counts are those of a table that is large enough from the start, also with one key a call and
/// a short probe limit, with which the table is full far below a load factor of 0.8.
#[test]
fn grows_small_table() {
    let ways = [&["--ranks", "1"][..], &["--ranks", "2"], &["--ranks", "3", "-M", "2"]];
    let more = [&["--batch", "1", "--ranks", "1"][..], &["--ranks", "2", "--direct", "off"]];
    for way in ways.into_iter().chain(more) {
        for states in ["auto", "flat", "tree"] {
            let options = [way, &["--table-size", "4KiB", "--states", states]].concat();
            let (rows, printed) = rows(&[&["explore", "philosophers:10"], &options[..]].concat());
            let counts = ["states", "arcs", "deadlocks"].map(|name| rows[0][name].as_str());
            assert_eq!(counts, ["59049", "459270", "2"], "{options:?}: {printed}");
            let growths: u32 = rows[0]["growths"].parse().unwrap();
            assert!((1..4).contains(&growths), "{growths} {options:?}");
            let bytes: u64 = rows[0]["table_bytes"].parse().unwrap();
            assert!(bytes >= 1 << 20, "{bytes} {options:?}");
            assert!(printed.contains("the table grew "), "{printed}");
        }
    }
}

#[test]
fn full_largest_table_reports_counts() {
    for (states, size, most, least) in [
        ("auto", "4KiB", "256KiB", 10_000),
        ("flat", "4KiB", "512KiB", 10_000),
        // Clients hold as many entries as the larger table has more than the smaller one.
        ("flat", "8KiB", "10KiB", 1),
    ] {
        for ranks in ["1", "2"] {
            let sizes = ["--table-size", size, "--max-table-size", most, "--states", states];
            let arguments = [&["explore", "philosophers:10", "--ranks", ranks], &sizes[..]];
            let said = run(&arguments.concat()).failed_in_one_line();
            let advice = format!("Start again with a larger --max-table-size than {most}");
            for part in ["the table is full", &advice, " states in ", " levels were found"] {
                assert!(said.contains(part), "{part:?} is not in {said}");
            }
            let (before, _) = said.split_once(" states in ").unwrap();
            let found = before.rsplit(' ').next().unwrap().replace(',', "");
            // The table is nearly full.
            assert!((least..59_049).contains(&found.parse().unwrap()), "{said}");
        }
    }
}

/// A growth that fails ends the run, but not before the counterexample found so far is printed.
#[test]
fn prints_counterexample_despite_failed_growth() {
    for ranks in ["1", "2"] {
        let sizes = ["--table-size", "8KiB", "--max-table-size", "10KiB", "--states", "flat"];
        let asked = ["--invariant", "think_1 >= 1", "--invariant", "eat_1 <= 1"];
        let arguments =
            [&["explore", "philosophers:10", "-q", "--ranks", ranks], &sizes[..], &asked];
        let ended = run(&arguments.concat());
        assert_eq!(ended.code, Some(4), "{ended:?}");
        for part in [
            "violated: think_1 >= 1, after 1 transition",
            "not violated so far: eat_1 <= 1",
            "the table is full",
        ] {
            assert!(ended.stdout.contains(part), "{part:?} is not in {ended:?}");
        }
    }
}
