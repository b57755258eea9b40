//! Tests of the help of the command line, and of the errors for invalid options.

use rustix::process::Signal;

use crate::common::{LIMIT, LONG, Running, Scratch, probeline, refuses, run, signal, wait_until};

#[test]
fn help_groups_options_by_heading() {
    for command in ["bench-latency", "bench-throughput", "roundtrips", "explore"] {
        let help = run(&[command, "--help"]).printed();
        let (_, results) = help.split_once("\nResults:\n").unwrap();
        let options = results.lines().filter(|line| line.trim_start().starts_with('-'));
        let options: Vec<&str> = options.map(str::trim).collect();
        let expected = ["--json <FILE>", "--csv <FILE>", "--full"];
        assert_eq!(options, expected, "{help}");
        assert!(help.contains("-C, --chunk-buckets") && help.contains("-M, --max-chunks"));
    }
}

/// The help does not offer an option that the command refuses because it has no table.
#[test]
fn help_offers_tuning_with_table() {
    for (command, offers) in
        [("limits", false), ("tune", false), ("simulate", true), ("bench-latency", true)]
    {
        let help = run(&[command, "--help"]).printed();
        assert_eq!(help.contains("--tuning <FILE>"), offers, "{command}: {help}");
    }
}

/// Invalid command lines, and the permitted values that the error names.
const REFUSED: [(&str, &str); 70] = [
    ("bench-map --key-distribution zipf --workload fill", "is for --workload read, write or mixed"),
    ("explore fms:2 -C 4294967288", "C is a multiple of 8 from 8 to 65536"),
    ("bench-throughput -M 65537", "65537 is not in 1..=65536"),
    ("bench-throughput --key-range 9223372036854775809", "is not in 1..=9223372036854775808"),
    ("bench-latency --load-factor 0.5,0.5", "give values from 0.02 to 0.95, in ascending order"),
    ("explore fms:2 --recent-states 536870912", "a power of two"),
    ("explore kanban:x", "kanban:N"),
    ("explore fms:2 --states flat --cache 64", "--cache is for states of at most 63 bits"),
    ("explore fms:2 --seed 1", "--seed is for --transport sim: leave it out"),
    ("explore peterson:2 --one-roundtrip on", "--one-roundtrip is for states of at most"),
    ("explore philosophers:5 --invariant eat_9", "character 1: the net has no place 'eat_9'"),
    ("explore fms:2 -C 12", "C is a multiple of 8 from 8 to 65536"),
    ("bench-latency -C 8,12", "C is a multiple of 8 from 8 to 65536"),
    ("explore fms:2 -M 0", "0 is not in 1..=65536"),
    ("explore fms:2 --table-size 511", "takes 512B at least"),
    ("bench-throughput --ranks 64 --table-size 8KiB -C 128", "takes 64KiB at least"),
    ("explore fms:2 --table-size 1000TiB", "iB of memory available"),
    ("bench-throughput --ops 4294967295 --ranks 4096 --table-size 2MiB", "iB of memory available"),
    ("roundtrips --table-size MiB", "write for example 128MiB"),
    ("explore fms:2 --ranks 0", "0 is not in 1..=4096"),
    ("bench-latency --ranks 4097", "4097 is not in 1..=4096"),
    ("roundtrips --transport smoke", "[possible values: shm, verbs, ucx, sim]"),
    ("bench-throughput --workload all", "mixed, read-intensive, write-intensive, uniform, zipf"),
    ("bench-throughput --key-range 0", "0 is not in 1..=9223372036854775808"),
    ("bench-throughput --ops 0", "0 is not in 1.."),
    ("bench-throughput --rounds 0", "0 is not in 1..=999"),
    ("bench-latency --ops 1", "1 is not in 2.."),
    ("bench-latency --load-factor 0.01", "give values from 0.02 to 0.95, in ascending order"),
    ("bench-latency --load-factor 0.96", "give values from 0.02 to 0.95, in ascending order"),
    ("bench-latency --load-factor NaN", "give values from 0.02 to 0.95, in ascending order"),
    ("explore fms:2 --transport sim --sim-roundtrip-ns 0", "0 is not in 1.."),
    ("bench-latency --seconds-per-measurement 0", "seconds from 0.001 to 3600"),
    ("bench-latency --table-size 2KiB", "too few for --rounds 5"),
    ("bench-latency --adaptive-chunks", "give a larger -C"),
    ("bench-latency --probing double-hash", "add -C 8"),
    ("bench-latency --cache 3", "a power of two"),
    ("bench-latency --probing square", "[possible values: linear, lines, double-hash]"),
    ("limits --in-flight 16385", "16385 is not in 1..=16384"),
    ("bench-latency --load-factor 0.5,0.5000001", "too few for --rounds 5"),
    ("explore fms:2 --transport verbs --qp-retry-count 7", "7 is not in 0..=6"),
    ("explore fms:2 --transport verbs --qp-timeout 0", "0 is not in 1..=31"),
    ("bench-latency --two-nodes --transport sim", "--two-nodes"),
    ("bench-latency --two-nodes --ranks 2", "cannot be used with"),
    ("bench-latency --two-nodes --rank 1", "cannot be used with"),
    ("bench-latency --two-nodes n1 --allow-remote", "cannot be used with"),
    ("explore fms:2 --two-nodes --rendezvous 127.0.0.1:1 --rank 1", "cannot be used with"),
    ("explore fms:2 --port 7000", "--two-nodes"),
    ("explore fms:2 --rendezvous-timeout 0", "0 is not in 1..=86400"),
    ("explore fms:2 --collective-timeout 0", "0 is not in 1..=86400"),
    ("explore fms:2 --device x", "--device is for --transport verbs: add that, or leave it out"),
    ("roundtrips --transport sim --pin none", "--pin is for --transport shm or verbs"),
    ("explore fms:2 --transport sim --huge-pages try", "--huge-pages is for --transport shm or"),
    ("explore fms:2 --sim-roundtrip-ns 9", "--sim-roundtrip-ns is for --transport sim: add that"),
    (
        "roundtrips --transport sim --sim-profile das5-fdr --sim-roundtrip-ns 9",
        "cannot be used with",
    ),
    ("explore fms:2 --transport verbs --ib-port 0", "0 is not in 1..=255"),
    ("explore fms:2 --transport verbs --service-level 16", "16 is not in 0..=15"),
    ("explore fms:2 --secret-file x", "--rendezvous or --two-nodes"),
    (
        "explore fms:2 --transport sim --rendezvous 127.0.0.1:1 --rank 0",
        "without a launcher and --",
    ),
    ("explore fms:2 --rendezvous 127.0.0.1:1", "say which rank this is with --rank"),
    ("explore fms:2 --rank 1", "--rendezvous <HOST:PORT>"),
    ("limits --rounds 0", "0 is not in 1..=999"),
    ("bench-latency --rounds 0", "0 is not in 1..=999"),
    ("bench-latency -M 0", "0 is not in 1..=65536"),
    ("roundtrips -M 0", "0 is not in 1..=65536"),
    ("topology --ranks 0", "0 is not in 1.."),
    ("explore fms:2 --batch 0", "1..=1048576"),
    ("explore fms:2 --recent-states 1", "a power of two"),
    ("explore fms:2 --max-table-size 1MiB", "is less than the initial size, 32MiB"),
    ("explore fms:2 --max-table-size 1GiB --transport sim", "over sim it does not"),
    (
        "explore fms:2 --table-size 17GiB --states tree",
        "is too large for --states tree, which has tables of at most 16GiB",
    ),
];

#[test]
fn refuses_invalid_command_lines() {
    refuses(2, &REFUSED);
    // The device is looked up at run time, so this is not a usage error.
    let scratch = Scratch::new();
    let file = scratch.file("open.pnml", "<pnml>\n<net>\n</pnml>\n");
    refuses(
        1,
        &[
            ("topology --near nosuch0", "nosuch0"),
            ("explore nosuch.pnml", "no such file"),
            (
                "explore philosophers:205",
                "needs at least 1025 bits, and 1024 fit a packed state; take",
            ),
            (&format!("explore {file}"), &format!("{file}:3: not well-formed XML")),
        ],
    );
}

/// The exit statuses are those in the help; tests of the errors and of `doctor` have them too.
#[test]
fn exit_statuses_match_help() {
    let listed = run(&["--help"]).printed();
    let (_, listed) = listed.split_once("\nExit status:\n").unwrap();
    let listed: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, ["0", "1", "2", "3", "4", "130", "143"]);

    run(&["--version"]).printed();

    let running = Running::start(&mut probeline(&LONG));
    assert!(wait_until(LIMIT, || running.pid_of_rank(1).is_some()));
    signal(running.pid(), Signal::INT);
    let ended = running.end();
    // A shell reports 130 for this signal.
    assert!((ended.signal, ended.code) == (Some(2), None) || ended.code == Some(130), "{ended:?}");
}

#[cfg(not(feature = "mpi"))]
#[test]
fn names_missing_mpi_feature() {
    let said = run(&["bench-latency", "--transport", "mpi"]).failed();
    assert!(said.contains("this build has no MPI: build with --features mpi"), "{said}");
}

/// MPI connects its ranks itself, and has those that its launcher has started.
#[cfg(feature = "mpi")]
#[test]
fn refuses_options_ignored_by_mpi() {
    let throughput = ["bench-throughput", "--ops", "20", "--table-size", "1MiB"];
    let without_effect: [&[&str]; 5] = [
        &["--exchange", "spawn"],
        &["--exchange", "pmix"],
        &["--rendezvous", "127.0.0.1:1", "--rank", "0"],
        &["--rendezvous-timeout", "9"],
        &["--two-nodes"],
    ];
    for options in without_effect {
        let said = run(&[&throughput, &["--transport", "mpi"][..], options].concat()).failed();
        assert!(said.contains(&format!("{} has no effect over MPI", options[0])), "{said}");
    }
    // Without a launcher MPI has this process only.
    for (options, ranks) in [(&["--ranks", "4"][..], 4), (&[], 2)] {
        let said = run(&[&throughput, &["--transport", "mpi"][..], options].concat()).failed();
        assert!(said.contains(&format!("has started 1 rank, not {ranks}: start it")), "{said}");
    }
}
