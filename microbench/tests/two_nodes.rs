//! Tests of two nodes, which are two processes on this machine: the first prints a command, with
//! which the test starts the second.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::common::{AT_ONCE, Running, Scratch, port, probeline, run, wait_until};

/// A small run over shared memory, because this machine may have no RDMA device.
const SMALL: [&str; 9] =
    ["bench-latency", "--transport", "shm", "--ops", "100", "--table-size", "64KiB", "-C", "8,16"];

const VARIABLE: &str = "PROBELINE_SECRET=";

/// Starts the first node. Returns all output before it waits.
fn start_first(arguments: &[&str], secret: Option<&str>) -> (Running, String) {
    let mut command = probeline(arguments);
    let first = Running::start(command.envs(secret.map(|secret| ("PROBELINE_SECRET", secret))));
    let said = || first.printed_so_far("stderr");
    assert!(wait_until(AT_ONCE, || said().contains("listens at TCP port")), "{}", said());
    let said = said();
    (first, said)
}

/// Returns the secret and the words of a command line in the output, without the variable.
fn printed_command(said: &str) -> (Option<String>, Vec<String>) {
    let split = |line: &str| shlex::split(line).unwrap();
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = lines.map(|line| match line.strip_prefix(VARIABLE) {
        Some(line) => (line.split(' ').next().map(str::to_owned), split(line)[1..].to_vec()),
        None => (None, split(line)),
    });
    let mut commands = commands.filter(|(_, words)| words[0].ends_with("probeline"));
    commands.next().unwrap_or_else(|| panic!("no command in {said}"))
}

/// Creates the printed command with an address that certainly belongs to this machine.
fn second(words: &[String], secret: Option<&str>) -> Command {
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let host = words.iter().position(|&word| word == "--two-nodes").unwrap() + 1;
    let mut command = probeline(&[&words[..host], &["127.0.0.1"], &words[host + 1..]].concat());
    command.envs(secret.map(|secret| ("PROBELINE_SECRET", secret)));
    command
}

/// The output of the first node, with the secret, is sufficient to start the second.
#[test]
fn printed_command_starts_second_node() {
    let (port, scratch) = (port().to_string(), Scratch::new());
    let json = scratch.path("report.json");
    let own = ["--two-nodes", "--port", &port, "--json", &json];
    let (first, said) = start_first(&[&SMALL[..], &own].concat(), None);
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(said.contains("On the other node, within 600 s (--rendezvous-timeout)"), "{said}");
    assert!(
        said.contains(&format!("TCP port {port}")) && said.contains("its addresses: "),
        "{said}"
    );

    let (secret, words) = printed_command(&said);
    let secret = secret.unwrap();
    assert!(secret.len() == 32 && secret.chars().all(|c| c.is_ascii_hexdigit()), "{secret}");
    assert!(words.contains(&name.trim().to_owned()), "{words:?}");
    assert!(!said.contains(&json), "the second has no results: {said}");

    // A stranger disturbs no node.
    for (given, advice) in [
        (Some("another secret altogether"), "secret is not rank 0's"),
        (None, "the second node runs the whole command that the first one prints"),
    ] {
        let stranger = Running::start(&mut second(&words, given)).end();
        assert_eq!((stranger.code, &*stranger.stdout), (Some(1), ""), "{stranger:?}");
        assert!(stranger.stderr.contains(advice), "{stranger:?}");
    }

    let second = Running::start(&mut second(&words, Some(&secret))).end();
    let first = first.end();
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    assert!(first.stdout.contains("shm, 2 ranks") && first.stdout.contains("found"), "{first:?}");
    assert!(fs::read_to_string(json).unwrap().contains("times_floor"));
    assert_eq!(second.stdout, "The first node, 127.0.0.1, prints the report.\n");
    assert!(second.stderr.contains(&format!("Joining the first node at 127.0.0.1:{port}")));
    assert!(!second.stderr.contains(&secret) && !second.stderr.contains("waiting"), "{second:?}");
}

#[test]
fn hides_given_secret() {
    let (given, port) = ("a secret that both nodes know", port().to_string());
    let arguments = ["explore", "fms:2", "--transport", "shm", "--two-nodes", "--port", &port];
    let (first, said) = start_first(&arguments, Some(given));
    let (secret, words) = printed_command(&said);
    assert!(secret.is_none() && !said.contains(given), "{said}");
    assert!(said.contains("with the same secret there as here"), "{said}");
    let second = Running::start(&mut second(&words, Some(given))).end();
    let first = first.end();
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    assert!(first.stdout.contains("3444  16311"), "{first:?}");
}

/// Checks the error of a node that waits in vain for a second.
#[track_caller]
fn fails_alone(node: &[&str], port: &str, parts: &[&str]) {
    let own = [node, &["--port", port, "--rendezvous-timeout", "1"]].concat();
    let mut command = probeline(&[&SMALL[..], &own].concat());
    let ended = Running::start(command.env("PROBELINE_SECRET", "the secret of these tests")).end();
    assert!(ended.code == Some(1) && ended.took < AT_ONCE, "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is not in {ended:?}");
    }
}

#[test]
fn lone_node_fails() {
    let port = port().to_string();
    let is_open = format!("that TCP port {port} of the first is free and open to the second");
    fails_alone(&["--two-nodes"], &port, &["the second node did not come within 1 s", &is_open]);
    fails_alone(&["--two-nodes", "127.0.0.1"], &port, &["rank 0 did not start the job", &is_open]);
    let host = "no such host";
    fails_alone(&["--two-nodes", host], &port, &[host, "give the name of the first node or"]);
    let _listener = TcpListener::bind(("0.0.0.0", port.parse().unwrap())).unwrap();
    fails_alone(&["--two-nodes"], &port, &[&port, "Give another --port"]);
}

/// No machine has a device of this name, which is reported before the other node is needed.
/// `verbs/tests/opening.rs` has the errors.
#[test]
fn missing_device_fails_before_rendezvous() {
    for node in [&["--two-nodes"][..], &["--two-nodes", "127.0.0.1"]] {
        let more = ["--device", "nosuch0", "--port", "7000"];
        let ended = run(&[&["bench-latency"], node, &more].concat());
        assert!(ended.took < AT_ONCE, "{ended:?}");
        let said = ended.failed_in_one_line();
        assert!(said.contains("no RDMA device") || said.contains("libibverbs.so.1"), "{said}");
        assert!(!said.contains("On the other node") && !said.contains("Joining"), "{said}");
    }
}
