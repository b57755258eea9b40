//! Tests of `explore --find-deadlock` and `--invariant`, and of nets without a bound on their tokens.

use std::collections::HashSet;
use std::fs;

use crate::common::pnml::{full_places, net, place, transition};
use crate::common::{AT_ONCE, Scratch, run};
use probeline_programs::petri::Net;
use serde_json::Value;

/// The status of an exploration that found a counterexample.
const REFUTED: Option<i32> = Some(4);

/// Runs the command and returns its row of the JSON, its status and what it printed.
#[track_caller]
fn explored(model: &str, options: &[&str]) -> (Value, Option<i32>, String) {
    let scratch = Scratch::new();
    let json = scratch.path("run.json");
    let ended = run(&[&["explore", model, "--json", &json, "-q"], options].concat());
    let text = fs::read(&json).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let mut report: Value = serde_json::from_slice(&text).unwrap();
    (report["rows"][0].take(), ended.code, ended.stdout)
}

/// Fires the path of a verdict from the initial marking, and checks the marking at its end. Returns
/// the marking and the number of transitions.
#[track_caller]
fn replay(net: &Net, verdict: &Value) -> (Vec<u64>, usize) {
    let path = verdict["path"].as_array().unwrap();
    let mut marking = net.initial();
    for id in path {
        let transition = net.transitions().iter().find(|of| of.id == *id).unwrap();
        assert!(transition.is_enabled(&marking), "{id} in {verdict}");
        transition.fire(&mut marking);
    }
    let tokens = |id: &str| verdict["marking"].get(id).map_or(0, |tokens| tokens.as_u64().unwrap());
    let printed: Vec<u64> = net.places().iter().map(|place| tokens(&place.id)).collect();
    assert_eq!(printed, marking, "{verdict}");
    (marking, path.len())
}

fn is_dead(net: &Net, marking: &[u64]) -> bool {
    !net.transitions().iter().any(|transition| transition.is_enabled(marking))
}

/// The result is the same with any number of ranks, and with batches of one.
#[test]
fn deadlock_path_ignores_rank_count() {
    let net = Net::load("philosophers:6").unwrap();
    let mut paths = HashSet::new();
    for options in [&["--ranks", "1"][..], &["--ranks", "2"], &["--ranks", "3", "--batch", "1"]] {
        let asked = ["--find-deadlock", "--table-size", "256KiB"];
        let (row, code, printed) = explored("philosophers:6", &[options, &asked].concat());
        assert_eq!(code, REFUTED, "{printed}");
        let verdict = &row["properties"][0];
        let (marking, length) = replay(&net, verdict);
        assert!(length == 6 && is_dead(&net, &marking), "{verdict}");
        assert!(printed.starts_with("deadlock after 6 transitions\n  path: take_"), "{printed}");
        assert!(printed.contains("\n  marked: has_"), "{printed}");
        paths.insert(verdict["path"].to_string());
    }
    assert_eq!(paths.len(), 1, "{paths:?}");
}

#[test]
fn ends_once_all_properties_fail() {
    let asked = ["--ranks", "2", "--table-size", "1MiB", "--invariant"];
    let first = [&asked[..], &["work_1 < 1"]].concat();
    let (row, code, printed) = explored("kanban:3", &first);
    assert_eq!((code, &row["complete"], &row["levels"]), (REFUTED, &false.into(), &2.into()));
    assert!(row["states_not_expanded"].as_u64() > Some(0), "{row}");
    assert!(printed.contains("\nstopped at the counterexample after level 2: "), "{printed}");
    let both =
        [&first[..], &["--invariant", "ticket_1 + work_1 + rework_1 + done_1 == 3"]].concat();
    let (row, code, printed) = explored("kanban:3", &both);
    assert_eq!((code, &row["complete"], &row["states"]), (REFUTED, &true.into(), &58_400.into()));
    assert_eq!(row["properties"][0]["holds"], false);
    assert!(printed.contains("\nholds: ticket_1 + work_1 + rework_1 + done_1 == 3\n"), "{printed}");
}

#[test]
fn checks_initial_and_all_states() {
    let asked = ["--ranks", "1", "--table-size", "1MiB", "--invariant"];
    let (row, code, printed) = explored("fms:2", &[&asked[..], &["-raw_1 >= 0"]].concat());
    assert_eq!((code, &row["properties"][0]["path"]), (REFUTED, &Value::Array(Vec::new())));
    assert!(printed.starts_with("violated: -raw_1 >= 0, in the initial state\n"), "{printed}");
    let (row, code, printed) =
        explored("fms:2", &[&asked[..], &["raw_1 <= 2"], &["--find-deadlock"]].concat());
    assert_eq!((code, &row["states"]), (Some(0), &3_444.into()));
    assert!(
        printed.starts_with("no deadlock\nholds: raw_1 <= 2\nfms:2: 3,444 states"),
        "{printed}"
    );
}

/// Neither a table nor a state has room for all states, and another property holds in all of them.
#[test]
fn reports_counterexample_when_room_ends() {
    let scratch = Scratch::new();
    let file = scratch.file("net.pnml", &producer(0));
    let wide = scratch.file("wide.pnml", &producer(1000));
    let outgrown = "transition deliver put 1,024 tokens in place buffer, beyond the 1024 bits";
    let full = "were found before the table was full";
    for (file, size, distance, invariant, reason) in [
        (file.as_str(), "16KiB", 12, "buffer <= 5", full),
        (wide.as_str(), "64MiB", 12, "buffer <= 5", outgrown),
        ("philosophers:10", "16KiB", 2, "eat_1 == 0", "the table is full"),
    ] {
        for ranks in ["1", "2"] {
            let asked = ["--find-deadlock", "--invariant", invariant];
            let sizes = ["--ranks", ranks, "--table-size", size, "--max-table-size", size];
            let (row, code, printed) = explored(file, &[&asked[..], &sizes].concat());
            assert_eq!((code, &row["complete"]), (REFUTED, &false.into()), "{printed}");
            let [deadlock, violated] = [0, 1].map(|at| &row["properties"][at]);
            assert_eq!((&deadlock["holds"], &violated["holds"]), (&Value::Null, &false.into()));
            assert_eq!(replay(&Net::load(file).unwrap(), violated).1, distance, "{printed}");
            let stopped = printed.lines().position(|line| line.starts_with("stopped for lack of"));
            let said = printed.lines().nth(stopped.unwrap() + 1).unwrap();
            assert!(said.starts_with("  ") && said.contains(reason), "{printed}");
        }
    }
}

#[test]
fn names_position_of_invalid_inequality() {
    let refusals = [
        ("eat_1 + eat_9 <= 1", "character 9: the net has no place 'eat_9'; did you mean eat_1"),
        ("eat_1 = 1", "character 7: '=' is not a comparison; write =="),
        ("eat_1 <= 1 and eat_2 <= 1", "character 12: expected the end, '+' or '-', found 'and'"),
        ("", "character 1: expected a place or a number, found the end"),
    ];
    for (text, expected) in refusals {
        for ranks in ["1", "2"] {
            let ended = run(&["explore", "philosophers:5", "--ranks", ranks, "--invariant", text]);
            assert!(ended.everything_gone < AT_ONCE, "{ended:?}");
            assert_eq!(ended.code, Some(2), "{ended:?}");
            assert!(ended.stderr.contains(expected), "{ended:?}");
        }
    }
}

/// Returns a producer that fills a buffer which no transition empties, beside 60 tokens that move at any
/// time, and places that take the other bits.
fn producer(full: u32) -> String {
    let mut parts = vec![place("ready", 1), place("busy", 0), place("buffer", 0)];
    parts.push(transition("work", &["ready"], &["busy"]));
    parts.push(transition("deliver", &["busy"], &["ready", "buffer"]));
    parts.extend(movers());
    parts.extend(full_places(full));
    net(&parts)
}

fn movers() -> [String; 3] {
    [place("left", 60), place("right", 0), transition("move", &["left"], &["right"])]
}

/// Checks that exploring ends with one line that has these parts, with any number of ranks.
#[track_caller]
fn ends(net: &str, size: &str, parts: &[&str]) {
    let scratch = Scratch::new();
    let file = scratch.file("net.pnml", net);
    for ranks in ["1", "2"] {
        let ended = run(&["explore", &file, "--ranks", ranks, "--table-size", size]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let said = ended.failed_in_one_line();
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
    }
}

const UNBOUNDED: &str = "the net is unbounded, it has infinitely many states: ";
const GROWS: &str = "can fire again and again, each time adding tokens to place buffer; ";

#[test]
fn unbounded_net_fills_table() {
    let end = " complete levels were found before the table was full";
    ends(&producer(0), "16KiB", &[UNBOUNDED, "deliver", GROWS, " states in ", end]);
}

/// Neither a search of 20,000 states nor a walk of 1,024 steps puts 1,024 tokens in the buffer.
#[test]
fn unbounded_net_outgrows_state() {
    let end =
        "transition deliver put 1,024 tokens in place buffer, beyond the 1024 bits of a state";
    ends(&producer(1000), "64MiB", &[UNBOUNDED, GROWS, " states in 2,047 complete levels", end]);
}

#[test]
fn refuses_unbounded_net_without_room() {
    ends(
        &producer(1020),
        "1MiB",
        &[UNBOUNDED, GROWS, "nothing was explored: a state needs at least"],
    );
}

/// Bounded by the tokens of `part`, but no invariant shows it, because of `feed`, which never fires.
#[test]
fn names_place_that_outgrows_state() {
    let mut parts = vec![place("part", 1500), place("whole", 0), place("never", 0)];
    parts.push(transition("assemble", &["part"], &["whole"]));
    parts.push(transition("feed", &["never"], &["never", "whole", "part"]));
    parts.extend(movers());
    parts.extend(full_places(991));
    let net = net(&parts);
    let needs = "needs at least 1025 bits, and 1024 fit a packed state; take a smaller instance";
    let end = " were found before transition assemble put 1,024 tokens in place whole";
    ends(&net, "64MiB", &[needs, "whole (11)", " states in 1,023 complete levels", end]);
}
