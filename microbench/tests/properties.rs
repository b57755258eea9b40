//! Tests of `explore --find-deadlock` and `--invariant`: the counts, the shortest paths and the
//! verdicts are those of a plain search on markings. And of nets without a bound on their tokens.

mod common;

use std::collections::HashSet;
use std::fs;

use common::pnml::{arc, full_places, net, place, transition};
use common::{AT_ONCE, Scratch, run};
use probeline_petri::Net;
use serde_json::Value;

/// The status of an exploration that found a counterexample.
const REFUTED: Option<i32> = Some(4);

/// The result of a plain breadth-first search.
struct Plain {
    /// States, arcs and deadlocks.
    counts: [u64; 3],
    /// The markings of each level, and whether each is a deadlock.
    levels: Vec<Vec<(Vec<u64>, bool)>>,
}

impl Plain {
    fn search(net: &Net) -> Self {
        let mut seen = HashSet::from([net.initial()]);
        let (mut counts, mut levels, mut current) = ([0; 3], Vec::new(), vec![net.initial()]);
        while !current.is_empty() {
            let (mut level, mut next) = (Vec::new(), Vec::new());
            for marking in current {
                let before = counts[1];
                for transition in net.transitions().iter().filter(|of| of.is_enabled(&marking)) {
                    counts[1] += 1;
                    let mut after = marking.clone();
                    transition.fire(&mut after);
                    if seen.insert(after.clone()) {
                        next.push(after);
                    }
                }
                let is_dead = counts[1] == before;
                counts[0] += 1;
                counts[2] += u64::from(is_dead);
                level.push((marking, is_dead));
            }
            levels.push(level);
            current = next;
        }
        Self { counts, levels }
    }

    /// Returns the distance of the nearest state that violates a property.
    fn distance(&self, violates: impl Fn(&[u64], bool) -> bool) -> Option<usize> {
        let has =
            |level: &Vec<(Vec<u64>, bool)>| level.iter().any(|(at, dead)| violates(at, *dead));
        self.levels.iter().position(has)
    }
}

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

/// Checks the verdict on a property whose nearest violation has this distance, if there is one.
#[track_caller]
fn check(net: &Net, verdict: &Value, distance: Option<usize>, violates: impl Fn(&[u64]) -> bool) {
    let Some(distance) = distance else {
        assert_eq!(verdict["holds"], true, "{verdict}");
        assert!(verdict["path"].is_null() && verdict["marking"].is_null(), "{verdict}");
        return;
    };
    assert_eq!(verdict["holds"], false, "{verdict}");
    let (marking, length) = replay(net, verdict);
    assert_eq!(length, distance, "{verdict}");
    assert!(violates(&marking), "{verdict}");
}

fn is_dead(net: &Net, marking: &[u64]) -> bool {
    !net.transitions().iter().any(|transition| transition.is_enabled(marking))
}

/// Returns the PNML of a net of `places` places and as many tokens, which `transitions` random
/// transitions move.
fn random_net(seed: u64, places: u64, transitions: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |end: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut tokens = vec![0; usize::try_from(places).unwrap()];
    (0..places).for_each(|_| tokens[usize::try_from(random(places)).unwrap()] += 1);
    let mut parts: Vec<String> =
        tokens.iter().enumerate().map(|(at, &tokens)| place(&format!("p{at}"), tokens)).collect();
    for at in 0..transitions {
        let id = format!("t{at}");
        parts.push(transition(&id, &[], &[]));
        for number in 0..1 + random(3) {
            let (from, to) = (format!("p{}", random(places)), format!("p{}", random(places)));
            // Several arcs may have the same ends, but each needs an `id` of its own.
            let other = |arc: String| arc.replacen("id=\"", &format!("id=\"{number}_"), 1);
            parts.extend([arc(&from, &id, 1), arc(&id, &to, 1)].map(other));
        }
    }
    net(&parts)
}

/// With and without successors that are left out, with one and with several ranks.
#[test]
fn counts_paths_and_verdicts_are_those_of_a_plain_search() {
    let scratch = Scratch::new();
    let (mut deadlocks, mut violations) = (0, 0);
    for seed in 0..16 {
        let text = random_net(seed, 4 + seed % 4, 5 + seed % 5);
        let (file, net) = (scratch.file("net.pnml", &text), Net::from_pnml(&text).unwrap());
        let plain = Plain::search(&net);
        let ranks = ["1", "3"][usize::from(seed % 4 == 3)];
        let known = ["16384", "0"][usize::from(seed % 5 == 4)];
        let options = ["--ranks", ranks, "--known-states", known, "--table-size", "256KiB"];
        let (row, code, _) = explored(&file, &options);
        let counts = ["states", "arcs", "deadlocks"].map(|count| row[count].as_u64().unwrap());
        assert_eq!((counts, code), (plain.counts, Some(0)), "{text}");
        assert_eq!(row["levels"], plain.levels.len(), "{text}");

        let bound = 1 + plain.levels.iter().flatten().map(|(at, _)| at[1]).max().unwrap() / 2;
        let invariant = format!("p0 + 2*p1 <= {bound} + p2");
        let violates = |at: &[u64]| at[0] + 2 * at[1] > bound + at[2];
        let asked = ["--find-deadlock", "--invariant", &invariant, "--invariant", "p0 >= 0"];
        let (row, code, printed) = explored(&file, &[&options[..], &asked].concat());
        let properties = &row["properties"];
        let distances = [plain.distance(|_, dead| dead), plain.distance(|at, _| violates(at))];
        check(&net, &properties[0], distances[0], |at| is_dead(&net, at));
        check(&net, &properties[1], distances[1], violates);
        check(&net, &properties[2], None, |_| false);
        assert_eq!(row["complete"], true, "one property is not violated: {printed}");
        let violated = distances.iter().flatten().count();
        assert_eq!(code, if violated > 0 { REFUTED } else { Some(0) }, "{printed}");
        deadlocks += usize::from(distances[0].is_some_and(|distance| distance > 1));
        violations += usize::from(distances[1].is_some_and(|distance| distance > 1));
    }
    assert!(deadlocks >= 4 && violations >= 3, "{deadlocks} {violations}");
}

/// The result is the same with any number of ranks, and with batches of one.
#[test]
fn a_shortest_path_to_a_deadlock_does_not_depend_on_the_ranks() {
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
fn exploring_ends_once_all_properties_are_violated() {
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
fn properties_of_the_initial_state_and_of_all_states() {
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
fn a_counterexample_is_reported_although_another_property_is_open_when_room_ends() {
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
fn invalid_inequalities_are_refused_with_their_position() {
    let refusals = [
        ("eat_1 + eat_9 <= 1", "character 9: the net has no place 'eat_9'; did you mean eat_1"),
        ("eat_1 = 1", "character 7: '=' is no comparison; write =="),
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

/// A producer that fills a buffer which no transition empties, beside 60 tokens that move at any time, and
/// places that take the other bits.
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
fn an_unbounded_net_that_fills_the_table_ends_with_the_reason_and_the_counts() {
    let end = " complete levels were found before the table was full";
    ends(&producer(0), "16KiB", &[UNBOUNDED, "deliver", GROWS, " states in ", end]);
}

/// Neither a search of 20,000 states nor a walk of 1,024 steps puts 1,024 tokens in the buffer.
#[test]
fn an_unbounded_net_that_outgrows_a_state_ends_with_the_reason_and_the_counts() {
    let end =
        "transition deliver put 1,024 tokens in place buffer, beyond the 1024 bits of a state";
    ends(&producer(1000), "64MiB", &[UNBOUNDED, GROWS, " states in 2,047 complete levels", end]);
}

#[test]
fn an_unbounded_net_without_room_for_its_first_states_is_refused() {
    ends(
        &producer(1020),
        "1MiB",
        &[UNBOUNDED, GROWS, "nothing was explored: a state needs at least"],
    );
}

/// Bounded by the tokens of `part`, but no invariant shows it, because of `feed`, which never fires.
#[test]
fn a_place_that_outgrows_a_state_of_a_bounded_net_is_named_with_the_counts() {
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
