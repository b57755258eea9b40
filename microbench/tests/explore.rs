//! Tests of `explore`: results and errors of a search. The library's tests have the searches.

use serde_json::Value;

use crate::common::pnml::{full_places, net, place, transition};
use crate::common::reported::{command, number, rows_over};
use crate::common::{Scratch, read_rows, run};

/// As published for `Kanban-PT-00005` of the Model Checking Contest (examination `StateSpace`), and for its
/// philosophers.
#[test]
fn reports_published_counts() {
    let kanban = rows_over("explore", &["kanban:5"], &["--ranks", "2"], 1);
    let counts = ["states", "arcs", "deadlocks", "growths"].map(|name| number(&kanban[0], name));
    assert_eq!(counts, [2_546_432.0, 24_460_016.0, 0.0, 0.0], "{kanban:?}");
    for row in command("explore", &["philosophers:5", "--table-size", "64KiB"], 1) {
        assert_eq!((number(&row, "states"), number(&row, "arcs")), (243.0, 945.0));
        assert!(number(&row, "seconds") > 0.0 && number(&row, "states_per_s") > 0.0, "{row}");
        assert!((1.0..=2.0).contains(&number(&row, "imbalance")), "{row}");
    }
    // With --paper, each arc and the initial state are put once.
    let paper = rows_over("explore", &["fms:2", "--table-size", "1MiB"], &["--paper"], 1);
    assert_eq!(number(&paper[0], "find_or_puts_per_state"), 16_312.0 / 3_444.0, "{paper:?}");
}

/// A violation is a result, with a status of its own, and so are the counts until then.
#[test]
fn prints_counterexample() {
    let scratch = Scratch::new();
    let (json, csv) = (scratch.path("run.json"), scratch.path("rows.csv"));
    let files = ["-q", "--json", &json, "--csv", &csv];
    let asked = ["--invariant", "think_1 >= 1", "--invariant", "-eat_1 >= 0"];
    let ended = run(&[&["explore", "philosophers:6", "--ranks", "2"], &files[..], &asked].concat());
    assert_eq!((ended.code, &*ended.stderr), (Some(4), ""), "{ended:?}");
    let first =
        "violated: think_1 >= 1, after 1 transition\n  path: take_left_1\n  marked: fork_1,";
    assert!(ended.stdout.starts_with(first), "{ended:?}");
    for part in [
        "\nviolated: -eat_1 >= 0, after 2 transitions\n  path: take_left_1, then_right_1\n",
        "\nstopped at the counterexample after level 3: ",
    ] {
        assert!(ended.stdout.contains(part), "{part:?} is not in {ended:?}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let row = &report["rows"][0];
    let violated = &row["properties"][1];
    assert_eq!((&row["complete"], &violated["holds"]), (&false.into(), &false.into()));
    assert_eq!(violated["path"].as_array().unwrap().len(), 2, "{row}");
    assert_eq!(violated["marking"]["eat_1"], 1, "{row}");
    assert_eq!(read_rows(&csv)[0]["complete"], "false");
}

/// Checks that the command fails with these parts in an error of one line, with two ranks.
#[track_caller]
fn fails(arguments: &str, parts: &[&str]) -> String {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let ended = run(&[&["explore", "--ranks", "2"], &*arguments].concat());
    let said = ended.failed_in_one_line();
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    said
}

#[test]
fn full_table_has_advice() {
    let full = ["the table is full", " states in ", " levels were found"];
    let said = fails("philosophers:10 --transport sim --table-size 256KiB", &full);
    assert!(
        said.contains("does not grow over sim. Start again with --table-size 512KiB"),
        "{said}"
    );
    let sizes = "--table-size 4KiB --max-table-size 256KiB";
    for states in ["auto", "flat"] {
        let said = fails(&format!("philosophers:10 --states {states} {sizes}"), &full);
        assert!(said.contains("Start again with a larger --max-table-size than 256KiB"), "{said}");
        let is_wide = said.contains("it has no room for another state of 16 bytes");
        assert_eq!(is_wide, states == "flat", "{said}");
        // The table is nearly full.
        let (before, _) = said.split_once(" states in ").unwrap();
        let found = before.rsplit(' ').next().unwrap().replace(',', "");
        assert!((9_000..59_049).contains(&found.parse().unwrap()), "{said}");
    }
}

/// Returns a net with these places and transitions, 24 tokens that move at any time, and places that take the
/// other bits.
fn large_net(parts: Vec<String>, full: u32) -> String {
    let movers = [place("left", 24), place("right", 0), transition("move", &["left"], &["right"])];
    net(&parts.into_iter().chain(movers).chain(full_places(full)).collect::<Vec<_>>())
}

const UNBOUNDED: &str = "the net is unbounded, it has infinitely many states: ";

#[test]
fn explains_unbounded_net() {
    let scratch = Scratch::new();
    // A producer fills a buffer that no transition empties.
    let fails = |full: u32, size: &str, end: &[&str]| {
        let parts = vec![
            place("ready", 1),
            place("busy", 0),
            place("buffer", 0),
            transition("work", &["ready"], &["busy"]),
            transition("deliver", &["busy"], &["ready", "buffer"]),
        ];
        let file = scratch.file("net.pnml", &large_net(parts, full));
        let grows = "can fire again and again, each time adding tokens to place buffer; ";
        fails(
            &format!("{file} --table-size {size}"),
            &[&[UNBOUNDED, "deliver", grows], end].concat(),
        );
    };
    fails(0, "16KiB", &[" complete levels were found before the table was full"]);
    // Neither a search of 20,000 states nor a walk of 1,024 steps puts 1,024 tokens in the buffer.
    let put =
        "transition deliver put 1,024 tokens in place buffer, beyond the 1024 bits of a state";
    fails(1002, "64MiB", &[" states in 2,047 complete levels", put]);
    fails(1020, "1MiB", &["nothing was explored: a state needs at least"]);
}

/// Bounded by the tokens of `part`, but no invariant shows it, because of `feed`, which never fires.
#[test]
fn names_place_that_outgrows_state() {
    let parts = vec![
        place("part", 1500),
        place("whole", 0),
        place("never", 0),
        transition("assemble", &["part"], &["whole"]),
        transition("feed", &["never"], &["never", "whole", "part"]),
    ];
    let scratch = Scratch::new();
    let file = scratch.file("net.pnml", &large_net(parts, 993));
    let needs = "needs at least 1025 bits, and 1024 fit a packed state; take a smaller instance";
    let end = " were found before transition assemble put 1,024 tokens in place whole";
    let levels = " states in 1,023 complete levels";
    fails(&format!("{file} --table-size 64MiB"), &[needs, "whole (11)", levels, end]);
}
