//! Every command for a moment on both transports, what it writes, and what it refuses.

mod common;

use core::time::Duration;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use common::{AT_ONCE, Running, Scratch, probeline, read_rows, run};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

/// What a report holds: names of fields, of parameters and of columns.
const GOLDEN: &str = include_str!("data/report.json");

/// A report in all its forms.
struct Reported {
    json: Value,
    csv: Vec<Vec<String>>,
    printed: String,
}

#[track_caller]
fn reported(arguments: &[&str]) -> Reported {
    let scratch = Scratch::new();
    let (json, csv) = (scratch.path("report.json"), scratch.path("rows.csv"));
    let printed = run(&[arguments, &["--json", &json, "--csv", &csv]].concat()).printed();
    let json = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(csv).unwrap();
    let line = |record: Result<csv::StringRecord, _>| {
        record.unwrap().iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let csv = reader.records().map(line).collect();
    Reported { json, csv, printed }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn keys(object: &Value) -> HashSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Runs a command on both transports and checks all that does not depend on which it is. Gives
/// the rows.
#[track_caller]
fn command(command: &str, options: &[&str], rows: usize) -> Vec<Value> {
    let transports = ["shm", "sim"].map(|transport| vec!["--transport", transport]);
    let transports = if command == "topology" { vec![vec![]] } else { transports.to_vec() };
    let mut all = Vec::new();
    for transport in transports {
        let report = reported(&[&[command], options, &transport].concat());
        check_form(command, &report);
        let found = report.json["rows"].as_array().unwrap();
        assert_eq!(found.len(), rows, "{}", report.printed);
        all.extend(found.iter().cloned());
    }
    all
}

#[track_caller]
fn check_form(command: &str, report: &Reported) {
    let Reported { json, csv, printed } = report;
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    assert_eq!(keys(json), HashSet::from_iter(names(&golden["report"])));
    assert_eq!(keys(&json["machine"]), HashSet::from_iter(names(&golden["machine"])));
    assert_eq!((&json["schema"], &json["command"]), (&Value::from(2), &Value::from(command)));
    let parameters = names(&golden["parameters"][command]);
    assert_eq!(keys(&json["parameters"]), HashSet::from_iter(parameters));
    assert!(!names(&json["transport"]).is_empty() && !names(&json["notes"]).is_empty());

    let columns = names(&golden["rows"][command]);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(csv[0], columns);
    assert_eq!(csv.len(), 1 + rows.len());
    for (row, record) in rows.iter().zip(&csv[1..]) {
        let mut expected = HashSet::from_iter(columns.iter().copied());
        // Of any length, so in no column.
        if command == "bench-latency" {
            expected.insert("histogram");
        }
        assert_eq!(keys(row), expected);
        for (column, cell) in columns.iter().zip(record) {
            check_cell(&row[column], cell, column);
        }
    }
    // For people: all rows, and nothing that only a terminal understands.
    assert!(printed.lines().count() > rows.len() + 5, "{printed}");
    assert!(printed.chars().all(|c| c == '\n' || !c.is_control()), "{printed:?}");
}

/// The same in CSV and JSON; numbers finite and not negative.
#[track_caller]
fn check_cell(value: &Value, cell: &str, column: &str) {
    match value {
        Value::String(text) => assert_eq!(text, cell),
        // JSON has null for a number that is none as well.
        Value::Null => assert!(cell.is_empty() && MAY_BE_EMPTY.contains(&column), "{column}"),
        number => {
            let number = number.as_f64().unwrap_or_else(|| panic!("{column}: {number}"));
            assert!(number.is_finite() && number >= 0.0, "{column}: {number}");
            // The last bit may be lost on the way through JSON.
            let off = (cell.parse::<f64>().unwrap() - number).abs();
            assert!(off <= number * 1e-15, "{column}: {cell} {number}");
        }
    }
}

/// What READ, WRITE, CAS and FAA by themselves do not have; and limits of memory or of a transport.
const MAY_BE_EMPTY: [&str; 10] = [
    "chunk_buckets",
    "load_factor",
    "effective_roundtrips",
    "outgoing_roundtrips",
    "floor_ns",
    "times_floor",
    "cores",
    "in_flight",
    "prefetch",
    "limit_share",
];

#[track_caller]
fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} of {row}"))
}

#[track_caller]
fn rise(row: &Value, columns: &[&str]) {
    let numbers: Vec<f64> = columns.iter().map(|column| number(row, column)).collect();
    assert!(numbers.is_sorted(), "{columns:?} of {row}");
}

/// Ten READs, ten WRITEs, a CAS and two FAAs.
const RAW_ROWS: usize = 23;

#[test]
fn bench_latency_reports() {
    let options = ["--ops", "1000", "--table-size", "256KiB", "-C", "8,64", "--paper"];
    let options = [&options[..], &["--load-factors", "0.1,0.5,0.9"]].concat();
    // Two floors for each C; inserted and found for each C and load factor.
    let rows = command("bench-latency", &options, RAW_ROWS + 2 * 2 + 2 * 2 * 3);
    for row in &rows {
        assert!(number(row, "operations") > 0.0, "{row}");
        assert!(number(row, "mean_ns") > 0.0 && number(row, "max_ns") > 0.0, "{row}");
        rise(row, &["min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"]);
        check_histogram(row);
        assert_eq!(row["load_factor"].is_null(), row["times_floor"].is_null());
        if !row["load_factor"].is_null() {
            assert!(number(row, "effective_roundtrips") >= 1.0, "{row}");
            assert!(number(row, "floor_ns") > 0.0 && number(row, "times_floor") > 0.0, "{row}");
            rise(row, &["effective_roundtrips", "outgoing_roundtrips"]);
        }
    }
    let names: Vec<&str> = rows.iter().map(|row| row["operation"].as_str().unwrap()).collect();
    for bytes in (3..=12).map(|power| 1 << power) {
        for operation in ["READ", "WRITE"] {
            assert!(names.contains(&&*format!("{operation} {bytes} B")), "{operation} {bytes}");
        }
    }
}

/// Pairs of a latency and a count, rising; about half of the operations, from the least to the
/// true maximum.
#[track_caller]
fn check_histogram(row: &Value) {
    let pairs = row["histogram"].as_array().unwrap();
    let number = |pair: &Value, at: usize| pair[at].as_u64().unwrap();
    assert!(pairs.iter().all(|pair| pair.as_array().unwrap().len() == 2 && number(pair, 1) > 0));
    assert!(pairs.is_sorted_by(|one, other| number(one, 0) < number(other, 0)), "{row}");
    let timed: u64 = pairs.iter().map(|pair| number(pair, 1)).sum();
    let operations = row["operations"].as_u64().unwrap();
    assert!(timed * 2 <= operations && timed * 4 >= operations, "{timed} of {operations}");
    assert_eq!(number(pairs.last().unwrap(), 0), row["max_ns"].as_u64().unwrap());
}

/// In virtual time every operation has its price, so a distribution that was not filled shows.
#[test]
fn bench_latency_of_few_operations_is_of_all_of_them() {
    let options = ["--transport", "sim", "--sim-roundtrip-ns", "3000", "--ops", "10", "-C", "8"];
    let options = [&options[..], &["--table-size", "64KiB", "--load-factors", "0.5"]].concat();
    let report = reported(&[&["bench-latency"], &options[..]].concat());
    let rows = report.json["rows"].as_array().unwrap();
    let raw = rows.iter().filter(|row| row["chunk_buckets"].is_null());
    assert_eq!(raw.clone().count(), RAW_ROWS);
    for row in raw {
        assert_eq!(number(row, "operations"), 10.0);
        for column in ["min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns"] {
            assert_eq!(number(row, column), 3000.0, "{column} of {row}");
        }
    }
    assert!(!report.printed.contains("cut short"), "{}", report.printed);
}

/// In virtual time nothing but roundtrips costs anything, so that a find-or-put of the paper that
/// takes one chunk costs its floor, whichever owners it goes to.
#[test]
fn in_virtual_time_one_chunk_costs_its_floor() {
    for (ranks, seed) in [("1", "1"), ("2", "1"), ("3", "7")] {
        let options = ["--transport", "sim", "-C", "64", "--load-factors", "0.1,0.3", "--ops", "2"];
        let more = ["--table-size", "192KiB", "--ranks", ranks, "--seed", seed, "--paper"];
        let report = reported(&[&["bench-latency"], &options[..], &more].concat());
        let rows = report.json["rows"].as_array().unwrap();
        let beside: Vec<_> = rows.iter().filter(|row| !row["times_floor"].is_null()).collect();
        assert_eq!(beside.len(), 4);
        for row in beside {
            // A chunk that straddles two owners is two READs, the floor is one.
            let times = number(row, "times_floor");
            assert!((times - 1.0).abs() < 0.01, "{ranks} ranks: {row}");
        }
    }
}

/// The price list is the model's: on the paper's cluster a claim costs more than a READ.
#[test]
fn bench_latency_of_the_papers_cluster_has_its_prices() {
    let options = ["--transport", "sim", "--sim-model", "oortwijn2015", "--ops", "10", "-C", "8"];
    let options = [&options[..], &["--table-size", "64KiB", "--load-factors", "0.5"]].concat();
    let report = reported(&[&["bench-latency"], &options[..]].concat());
    let rows = report.json["rows"].as_array().unwrap();
    for (operation, ns) in [("READ 64 B", 3310 + 95), ("CAS random word", 3745)] {
        let of = |row: &&Value| row["operation"] == operation;
        let row = rows.iter().find(of).unwrap_or_else(|| panic!("{operation} in {rows:?}"));
        assert_eq!(number(row, "p50_ns"), f64::from(ns), "{row}");
    }
    assert!(report.printed.contains("DAS-5"), "{}", report.printed);
}

/// A roundtrip takes 5 ms of virtual time, so that a second is over after 200.
#[test]
fn measurements_end_with_their_time() {
    let options = ["--transport", "sim", "--sim-roundtrip-ns", "5000000", "-C", "8"];
    let more = ["--table-size", "512KiB", "--load-factors", "0.1,0.7"];
    let limit = ["--seconds-per-measurement", "1", "--rounds", "5"];
    let report = reported(&[&["bench-latency"], &options[..], &more, &limit].concat());
    let rows = report.json["rows"].as_array().unwrap();
    let raw = rows.iter().filter(|row| row["chunk_buckets"].is_null());
    for row in raw {
        let operations = number(row, "operations");
        assert!((200.0..=260.0).contains(&operations), "{row}");
    }
    for row in rows.iter().filter(|row| !row["load_factor"].is_null()) {
        // To this rank's own part a roundtrip takes a tenth; an insert takes two or three.
        assert!((90.0..=460.0).contains(&number(row, "operations")), "{row}");
    }
    let said = &report.printed;
    let all = format!("{0} of {0} rows were cut short after 1 s", rows.len());
    assert!(said.contains(&all) && said.contains("--seconds-per-measurement"), "{said}");
}

#[test]
fn bench_throughput_reports_all_workloads() {
    let workloads = ["mixed", "read-intensive", "write-intensive", "uniform", "zipf"];
    // The shares of finds that the workloads are made for, and how far off they may be.
    let shares = [(0.50, 0.03), (0.80, 0.03), (0.19, 0.03), (0.0, 0.001), (0.68, 0.05)];
    let options = ["--ops", "5000", "--table-size", "1MiB", "--repeat", "3", "--ranks", "3"];
    let list = workloads.join(",");
    let rows = command("bench-throughput", &[&options[..], &["--workload", &list]].concat(), 5);
    for (row, (workload, (share, off))) in rows.iter().zip(workloads.iter().zip(shares).cycle()) {
        assert_eq!(row["workload"], **workload);
        assert_eq!((number(row, "ranks"), number(row, "operations")), (3.0, 15_000.0));
        let (found, inserted) = (number(row, "found_share"), number(row, "inserted_share"));
        assert!((found - share).abs() <= off, "{row}");
        assert!((found + inserted - 1.0).abs() < 1e-9 && number(row, "full") == 0.0, "{row}");
        assert!(number(row, "least_ops_per_s") > 0.0 && number(row, "mean_latency_ns") > 0.0);
        rise(row, &["least_ops_per_s", "median_ops_per_s", "most_ops_per_s"]);
        let limit = number(row, "limit_ops_per_s") * number(row, "limit_share");
        assert!((limit / number(row, "median_ops_per_s") - 1.0).abs() < 1e-9, "{row}");
    }
}

#[test]
fn a_cache_answers_some_of_what_comes_again() {
    let options = ["--workload", "zipf", "--ops", "5000", "--table-size", "1MiB", "--repeat", "1"];
    for row in command("bench-throughput", &[&options[..], &["--cache", "1024"]].concat(), 1) {
        let (hits, found) = (number(&row, "cache_hit_share"), number(&row, "found_share"));
        assert!(hits > 0.1 && hits <= found, "{row}");
    }
}

/// Each limit of memory on two kinds of pages; READs of 8 sizes and a CAS, and both at 6 depths.
#[test]
fn limits_reports() {
    let options = ["--size", "1MiB", "--cores", "one", "--seconds-per-measurement", "0.001"];
    let options = [&options[..], &["--table-size", "64KiB", "--rounds", "3"]].concat();
    for row in command("limits", &options, 2 * 6 + 8 + 1 + 2 * 6) {
        assert!(number(&row, "least_ops_per_s") > 0.0 && number(&row, "mean_ns") > 0.0, "{row}");
        rise(&row, &["least_ops_per_s", "median_ops_per_s", "most_ops_per_s"]);
        let limit = row["limit"].as_str().unwrap();
        assert_eq!(row["prefetch"].is_null(), !limit.starts_with("prefetched "), "{row}");
        assert_ne!(row["cores"].is_null(), row["in_flight"].is_null(), "{row}");
    }
}

#[test]
fn roundtrips_reports() {
    let rows = command("roundtrips", &["--table-size", "128KiB", "-C", "16,128"], 2 * 46);
    for row in rows {
        assert!(number(&row, "inserts") > 0.0 && number(&row, "load_factor") < 0.93, "{row}");
        rise(&row, &["effective_roundtrips", "outgoing_roundtrips"]);
    }
}

#[test]
fn explore_reports() {
    let rows = command("explore", &["philosophers:5", "--table-size", "64KiB"], 1);
    for row in rows {
        assert_eq!((number(&row, "states"), number(&row, "arcs")), (243.0, 945.0));
        assert!(number(&row, "seconds") > 0.0 && number(&row, "states_per_s") > 0.0, "{row}");
        assert!((1.0..=2.0).contains(&number(&row, "imbalance")), "{row}");
    }
}

#[test]
fn topology_reports() {
    let rows = command("topology", &["--ranks", "3"], 3);
    for (rank, row) in rows.iter().enumerate() {
        assert_eq!(row["rank"], rank);
    }
}

#[test]
fn keys_follow_the_seed_and_the_simulator_follows_the_keys() {
    let trace = |seed| {
        let options = ["--transport", "sim", "--ops", "500", "--table-size", "64KiB"];
        let printed =
            run(&[&["bench-throughput", "--seed", seed], &options[..]].concat()).printed();
        printed.lines().find(|line| line.starts_with("trace ")).unwrap().to_owned()
    };
    assert_eq!(trace("1"), trace("1"));
    assert_ne!(trace("1"), trace("2"));
}

/// Takes minutes; the tests end it once they have seen enough.
const LONG: [&str; 7] =
    ["bench-throughput", "--repeat", "999", "--ops", "100000", "--table-size", "8MiB"];

/// A terminal and what is written to it, piece by piece.
struct Terminal {
    its_end: OwnedFd,
    pieces: Receiver<Vec<u8>>,
}

impl Terminal {
    fn new() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let its_end = File::options().read(true).write(true).open(path).unwrap().into();
        let (send, pieces) = channel();
        thread::spawn(move || {
            let mut ours = File::from(ours);
            let mut piece = [0; 4096];
            // The last to close the other end makes this an error.
            while let Ok(length @ 1..) = ours.read(&mut piece) {
                if send.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { its_end, pieces }
    }

    /// Starts the command here; its end of the terminal closes when the command ends.
    fn start(self, arguments: &[&str]) -> (Running, Receiver<Vec<u8>>) {
        let mut command = probeline(arguments);
        command.stdout(self.its_end.try_clone().unwrap()).stderr(self.its_end);
        (Running::start_with(&mut command), self.pieces)
    }
}

#[test]
fn a_terminal_sees_a_bar_after_two_seconds() {
    let start = Instant::now();
    let (mut running, pieces) = Terminal::new().start(&LONG);
    let mut seen = String::new();
    while !(seen.contains('%') && seen.contains("mixed")) {
        let piece = pieces.recv_timeout(Duration::from_secs(20)).expect("no bar");
        assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", String::from_utf8_lossy(&piece));
        seen.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(running.is_running(), "{seen}");
}

#[test]
fn a_terminal_sees_no_bar_before() {
    let (running, pieces) = Terminal::new().start(&["explore", "fms:2", "--table-size", "1MiB"]);
    assert_eq!(running.end().code, Some(0));
    let seen: Vec<u8> = pieces.iter().flatten().collect();
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("3444") && !seen.contains('\x1b'), "{seen:?}");
}

/// Long enough for a bar to have been drawn.
#[test]
fn no_terminal_sees_no_bar() {
    let running = Running::start(&mut probeline(&LONG));
    thread::sleep(Duration::from_secs(3));
    assert_eq!(running.kill(), ["", ""]);
}

#[test]
fn results_that_cannot_be_written_are_known_before_the_run() {
    let scratch = Scratch::new();
    let nowhere = scratch.path("no/such/directory/results");
    let directory = scratch.path("");
    for option in ["--json", "--csv"] {
        for (path, why) in [(&nowhere, ErrorKind::NotFound), (&directory, ErrorKind::IsADirectory)]
        {
            let ended = run(&[&LONG[..], &[option, path]].concat());
            assert!(ended.took < AT_ONCE, "{:?}", ended.took);
            let said = ended.failed_in_one_line();
            let expected = format!("{path} cannot be written: ");
            assert!(said.contains(&expected), "{said}");
            let error = fs::File::create(path).unwrap_err();
            assert_eq!(error.kind(), why);
            assert!(said.contains(&error.to_string()), "{said}");
        }
    }
    assert!(!Path::new(&nowhere).exists());
}

#[test]
fn results_replace_those_of_before_only_where_there_are_any() {
    let scratch = Scratch::new();
    let before = "x".repeat(100_000);
    let [json, csv] = ["report.json", "rows.csv"].map(|name| scratch.file(name, &before));
    let run = |size| {
        let arguments = ["explore", "fms:2", "--table-size", size, "--json", &json, "--csv", &csv];
        run(&arguments)
    };
    assert!(run("4KiB").failed_in_one_line().contains("the table is full"));
    for path in [&json, &csv] {
        assert_eq!(fs::read_to_string(path).unwrap(), before);
    }
    run("1MiB").printed();
    assert!(serde_json::from_slice::<Value>(&fs::read(json).unwrap()).is_ok());
    assert_eq!(read_rows(&csv).len(), 1);
}

#[test]
fn help_lists_options_under_their_headings() {
    for command in ["bench-latency", "bench-throughput", "roundtrips", "explore"] {
        let help = run(&[command, "--help"]).printed();
        let (_, results) = help.split_once("\nResults:\n").unwrap();
        let options = results.lines().filter(|line| line.trim_start().starts_with('-'));
        let options: Vec<&str> = options.map(str::trim).collect();
        assert_eq!(options, ["--json <FILE>", "--csv <FILE>"], "{help}");
        assert!(help.contains("-C, --chunk-buckets") && help.contains("-M, --max-chunks"));
    }
}

/// What each command refuses, and what it says is allowed.
const REFUSED: [(&str, &str); 80] = [
    ("explore fms:2 -C 12", "C is a multiple of 8 from 8 to 65536"),
    ("explore fms:2 -C 0", "C is a multiple of 8 from 8 to 65536"),
    ("explore fms:2 -C 4294967288", "C is a multiple of 8 from 8 to 65536"),
    ("bench-latency -C 8,12", "C is a multiple of 8 from 8 to 65536"),
    ("bench-latency -C 8,,16", "C is a multiple of 8 from 8 to 65536"),
    ("bench-throughput -C 12", "C is a multiple of 8 from 8 to 65536"),
    ("roundtrips -C x", "C is a multiple of 8 from 8 to 65536"),
    ("explore fms:2 -M 0", "0 is not in 1..=65536"),
    ("bench-latency -M 0", "0 is not in 1..=65536"),
    ("bench-throughput -M 65537", "65537 is not in 1..=65536"),
    ("roundtrips -M 0", "0 is not in 1..=65536"),
    ("explore fms:2 --table-size 0", "takes 512B at least"),
    ("explore fms:2 --table-size 511", "takes 512B at least"),
    ("bench-latency --table-size 1KiB", "takes 2KiB at least"),
    ("bench-throughput --ranks 64 --table-size 8KiB -C 128", "takes 64KiB at least"),
    ("roundtrips --table-size 1KiB --transport sim", "takes 2KiB at least"),
    ("explore fms:2 --table-size 1000TiB", "MiB of memory available"),
    ("bench-latency --table-size 1000TiB", "MiB of memory available"),
    ("bench-throughput --table-size 1000TiB --transport sim", "MiB of memory available"),
    ("bench-throughput --ops 4294967295 --ranks 4096 --table-size 2MiB", "MiB of memory available"),
    ("roundtrips --table-size 99999999999TiB", "more bytes than there are"),
    ("roundtrips --table-size 12MB", "KiB, MiB, GiB or TiB"),
    ("roundtrips --table-size MiB", "write for example 128MiB"),
    ("explore fms:2 --ranks 0", "0 is not in 1..=4096"),
    ("bench-latency --ranks 4097", "4097 is not in 1..=4096"),
    ("bench-throughput --ranks x", "invalid value 'x' for '--ranks <N>'"),
    ("roundtrips --transport smoke", "[possible values: shm, verbs, sim]"),
    ("bench-throughput --workload all", "mixed, read-intensive, write-intensive, uniform, zipf"),
    ("bench-throughput --key-range 0", "0 is not in 1..=9223372036854775808"),
    ("bench-throughput --key-range 9223372036854775809", "is not in 1..=9223372036854775808"),
    ("bench-throughput --ops 0", "0 is not in 1.."),
    ("bench-throughput --repeat 0", "0 is not in 1..=999"),
    ("bench-latency --ops 1", "1 is not in 2.."),
    ("bench-latency --load-factors 0.5,0.3", "rise from 0.02 or more to 0.95 at most"),
    ("bench-latency --load-factors 0.5,0.5", "rise from 0.02 or more to 0.95 at most"),
    ("bench-latency --load-factors 0.01", "rise from 0.02 or more to 0.95 at most"),
    ("bench-latency --load-factors 0.96", "rise from 0.02 or more to 0.95 at most"),
    ("bench-latency --load-factors NaN", "rise from 0.02 or more to 0.95 at most"),
    ("explore fms:2 --transport sim --sim-roundtrip-ns 0", "0 is not in 1.."),
    ("bench-latency --rounds 0", "0 is not in 1..=999"),
    ("bench-latency --seconds-per-measurement 0", "seconds from 0.001 to 3600"),
    ("bench-latency --seconds-per-measurement NaN", "seconds from 0.001 to 3600"),
    ("bench-latency --table-size 2KiB", "too few for --rounds 5"),
    ("bench-latency --load-factors 0.5,0.5000001", "too few for --rounds 5"),
    ("explore fms:2 --transport verbs --retries 7", "7 is not in 0..=6"),
    ("explore fms:2 --transport verbs --timeout 0", "0 is not in 1..=31"),
    ("bench-latency --two-nodes --transport sim", "--two-nodes"),
    ("bench-latency --two-nodes --ranks 2", "cannot be used with"),
    ("explore fms:2 --two-nodes n1 --rendezvous 127.0.0.1:1", "cannot be used with"),
    ("bench-latency --two-nodes --rank 1", "cannot be used with"),
    ("bench-latency --two-nodes n1 --allow-remote", "cannot be used with"),
    ("explore fms:2 --two-nodes --rendezvous 127.0.0.1:1 --rank 1", "cannot be used with"),
    ("explore fms:2 --port 7000", "--two-nodes"),
    ("explore fms:2 --meet-timeout 0", "0 is not in 1..=86400"),
    ("explore fms:2 --collective-timeout 0", "0 is not in 1..=86400"),
    ("explore fms:2 --collective-timeout 86401", "86401 is not in 1..=86400"),
    ("explore fms:2 --device x", "--device is for --transport verbs: add that, or leave it out"),
    ("roundtrips --transport sim --timeout 16", "--timeout is for --transport verbs: add that"),
    ("roundtrips --transport sim --pin none", "--pin is for --transport shm or verbs"),
    ("explore fms:2 --transport sim --huge-pages try", "--huge-pages is for --transport shm or"),
    ("bench-throughput --retries 6", "--retries is for --transport verbs: add that"),
    ("bench-latency --gid-index 3", "--gid-index is for --transport verbs: add that"),
    ("explore fms:2 --sim-roundtrip-ns 9", "--sim-roundtrip-ns is for --transport sim: add that"),
    ("roundtrips --sim-model oortwijn2015", "--sim-model is for --transport sim: add that"),
    (
        "roundtrips --transport sim --sim-model oortwijn2015 --sim-roundtrip-ns 9",
        "--sim-roundtrip-ns is for --sim-model simple",
    ),
    ("bench-latency --two-nodes --sim-roundtrip-ns 9", "--sim-roundtrip-ns is for --transport sim"),
    ("explore fms:2 --transport verbs --ib-port 0", "0 is not in 1..=255"),
    ("explore fms:2 --transport verbs --service-level 16", "16 is not in 0..=15"),
    ("explore fms:2 --secret-file x", "--rendezvous or --two-nodes"),
    (
        "explore fms:2 --transport sim --rendezvous 127.0.0.1:1 --rank 0",
        "without a launcher and --",
    ),
    ("explore fms:2 --rendezvous 127.0.0.1:1", "say which rank this is with --rank"),
    ("explore fms:2 --rank 1", "--rendezvous <HOST:PORT>"),
    ("limits --size 63KiB", "--size 63KiB is too small to be measured: it takes"),
    ("limits --size 1000TiB", "MiB of memory available"),
    ("limits --pages 2k", "[possible values: 4k, huge]"),
    ("limits --cores two", "[possible values: one, all]"),
    ("limits --seconds-per-measurement 0", "seconds from 0.001 to 3600"),
    ("limits --rounds 0", "0 is not in 1..=999"),
    ("topology --ranks 0", "0 is not in 1.."),
    ("topology --near nosuch0", "nosuch0"),
];

#[test]
fn what_makes_no_sense_is_refused_at_once_with_what_would() {
    for (line, expected) in REFUSED {
        let arguments: Vec<&str> = line.split(' ').collect();
        let ended = run(&arguments);
        assert!(ended.everything_gone < AT_ONCE, "{line}: {:?}", ended.took);
        // The command line's own errors have a hint to --help below them.
        let said = match ended.code {
            Some(1) => ended.failed_in_one_line(),
            _ => ended.failed(),
        };
        assert!(said.contains(expected), "{line}: {said}");
    }
}
