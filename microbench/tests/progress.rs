//! The progress line of a command that prints nothing for long: on terminals.

use core::time::Duration;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::common::{LIMIT, Scratch, Terminal, port};

/// Returns commands that run longer than this test, each with a text of its progress line.
fn long(scratch: &Scratch) -> Vec<(Vec<String>, &'static str)> {
    let address = format!("127.0.0.1:{}", port());
    let out = scratch.path("tuning.toml");
    let secret = scratch.file("secret", "the secret of these tests");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let tune = format!("tune --direct off --rounds 999 --ops 20000 --out {out}");
    let waits = format!("bench-latency --rendezvous {address} --rank 0 --secret-file {secret}");
    let simulate = "simulate --experiment throughput --workload mixed --ops 200000 --machines 8 \
                    --ranks-per-machine 4";
    let commands = [
        ("bench-latency --ops 4000000000 --seconds-per-measurement 60", "READ 8 B"),
        ("bench-throughput --ops 100000 --rounds 999 --table-size 8MiB", "mixed"),
        ("roundtrips --table-size 1GiB", "C 8, load factor"),
        ("compare --transports shm --rounds 999 --table-size 1MiB", " over shm"),
        (&tune, " candidates"),
        (simulate, "mixed on 8 x 4"),
        (&waits, "waiting for all ranks"),
    ];
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
    commands.map(|(command, doing)| (words(command), doing)).into()
}

/// The line is drawn while the command runs. If one measurement takes longer than the test, the
/// line is drawn before it.
#[test]
fn terminal_shows_progress_line() {
    let scratch = Scratch::new();
    for (command, doing) in long(&scratch) {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let (mut running, pieces) = Terminal::new().start(&command);
        let mut seen = String::new();
        while !seen.contains(doing) {
            let piece = pieces.recv_timeout(Duration::from_secs(60));
            let piece = piece.unwrap_or_else(|error| panic!("{command:?}: {error}: {seen}"));
            seen.push_str(&String::from_utf8_lossy(&piece));
        }
        assert!(running.is_running(), "{command:?}: {seen}");
    }
}

/// With --quiet no line is drawn. The same command, started later without it, has drawn several by then.
#[test]
fn quiet_hides_line() {
    let long = ["bench-throughput", "--transport", "sim", "--rounds", "999", "--ops", "10000"];
    let (mut quiet, nothing) = Terminal::new().start(&[&long[..], &["--quiet"]].concat());
    let (_twin, pieces) = Terminal::new().start(&long);
    let mut seen = String::new();
    while seen.matches('%').count() < 5 {
        let piece = pieces.recv_timeout(LIMIT).expect(&seen);
        seen.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(quiet.is_running());
    drop(quiet);
    assert_eq!(nothing.iter().next(), None);
}
