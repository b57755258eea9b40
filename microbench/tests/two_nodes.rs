//! Tests of two nodes, which are two processes on this machine: the first prints a command, with
//! which the test starts the second.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::common::{
    AT_ONCE, Ended, Running, Scratch, notes_and_others, port, probeline, run, wait_until,
};

/// A small run over shared memory, because this machine may have no RDMA device.
const SMALL: [&str; 11] = [
    "bench-latency",
    "--transport",
    "shm",
    "--ops",
    "100",
    "--table-size",
    "64KiB",
    "--load-factor",
    "0.5",
    "-C",
    "8,16",
];

const VARIABLE: &str = "PROBELINE_SECRET=";

/// The first node, whose output is read while it runs.
struct First {
    running: Running,
    scratch: Scratch,
}

impl First {
    fn start(arguments: &[&str], secret: Option<&str>) -> Self {
        let scratch = Scratch::new();
        let mut command = probeline(arguments);
        command.envs(secret.map(|secret| ("PROBELINE_SECRET", secret)));
        let [output, said] = ["output", "said"].map(|name| File::create(scratch.path(name)));
        let running = Running::start_with(command.stdout(output.unwrap()).stderr(said.unwrap()));
        Self { running, scratch }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.scratch.path(name)).unwrap()
    }

    /// Returns all output before the node waits.
    fn says(&self) -> String {
        let told = wait_until(AT_ONCE, || self.read("said").contains("listens at TCP port"));
        assert!(told, "{}", self.read("said"));
        self.read("said")
    }

    fn end(self) -> Ended {
        let Self { running, scratch } = self;
        let mut ended = running.end();
        let read = |name| fs::read_to_string(scratch.path(name)).unwrap();
        ended.stdout = read("output");
        [ended.notes, ended.stderr] = notes_and_others(&read("said"));
        ended
    }
}

/// Returns the secret and the words of a command line in the output, without the variable.
fn printed_command(said: &str, start: &str) -> (Option<String>, Vec<String>) {
    let split = |line: &str| shlex::split(line).unwrap();
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = lines.map(|line| match line.strip_prefix(VARIABLE) {
        Some(line) => (line.split(' ').next().map(str::to_owned), split(line)[1..].to_vec()),
        None => (None, split(line)),
    });
    let mut commands = commands.filter(|(_, words)| words[0].ends_with(start));
    commands.next().unwrap_or_else(|| panic!("no {start} in {said}"))
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
    let first = First::start(&[&SMALL[..], &own].concat(), None);
    let said = first.says();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(said.contains("On the other node, within 600 s (--rendezvous-timeout)"), "{said}");
    assert!(
        said.contains(&format!("TCP port {port}")) && said.contains("its addresses: "),
        "{said}"
    );

    let (secret, words) = printed_command(&said, "probeline");
    let secret = secret.unwrap();
    assert!(secret.len() == 32 && secret.chars().all(|c| c.is_ascii_hexdigit()), "{secret}");
    assert!(words.contains(&name.trim().to_owned()), "{words:?}");
    assert!(!said.contains(&json), "the second has no results: {said}");
    let (recipe_secret, recipe) = printed_command(&said, "just");
    assert_eq!(recipe_secret.as_ref(), Some(&secret));
    assert_eq!(recipe[..3], ["just", "bench-latency", name.trim()]);
    assert_eq!(recipe[3..], words[4..], "{said}");

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
fn generates_secrets_hides_given_ones() {
    let given = "a secret that both nodes know";
    let [one, two] = [port(), port()].map(|port| {
        let port = port.to_string();
        let arguments = ["explore", "fms:2", "--transport", "shm", "--two-nodes", "--port", &port];
        First::start(&arguments, None)
    });
    let [one, two] = [one, two].map(|first| printed_command(&first.says(), "probeline").0.unwrap());
    assert_ne!(one, two);

    let port = port().to_string();
    let arguments = ["explore", "fms:2", "--transport", "shm", "--two-nodes", "--port", &port];
    let first = First::start(&arguments, Some(given));
    let said = first.says();
    let (secret, words) = printed_command(&said, "probeline");
    assert!(secret.is_none() && !said.contains(given) && !said.contains("just "), "{said}");
    assert!(said.contains("with the same secret there as here"), "{said}");
    let second = Running::start(&mut second(&words, Some(given))).end();
    let first = first.end();
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    assert!(first.stdout.contains("3444  16311"), "{first:?}");
}

#[test]
fn rejects_another_secret() {
    let port = port().to_string();
    // Both processes with wrong secrets connect within this time, even on a busy machine.
    let own = ["--two-nodes", "--port", &port, "--rendezvous-timeout", "20"];
    let first = First::start(&[&SMALL[..], &own].concat(), None);
    let said = first.says();
    assert!(said.contains("within 20 s"), "{said}");
    let (secret, words) = printed_command(&said, "probeline");
    let stranger = Running::start(&mut second(&words, Some("another secret altogether"))).end();
    assert_eq!(stranger.code, Some(1), "{stranger:?}");
    assert!(stranger.stderr.contains("secret is not rank 0's"), "{stranger:?}");
    assert!(stranger.stderr.contains("PROBELINE_SECRET") && stranger.stdout.is_empty());
    let without = Running::start(&mut second(&words, None)).end();
    let advice = "copy the whole line that the first node prints, with PROBELINE_SECRET=";
    assert!(without.code == Some(1) && without.stderr.contains(advice), "{without:?}");

    let first = first.end();
    assert_eq!((first.code, first.stdout.as_str()), (Some(1), ""), "{first:?}");
    let last = first.stderr.lines().last().unwrap();
    assert!(last.contains("the other node did not come within 20 s"), "{last}");
    assert!(!last.contains(&secret.unwrap()), "{last}");
}

#[test]
fn names_differing_options() {
    let port = port().to_string();
    let first = First::start(&[&SMALL[..], &["--two-nodes", "--port", &port]].concat(), None);
    let (secret, mut words) = printed_command(&first.says(), "probeline");
    let at = words.iter().position(|word| word == "--ops").unwrap() + 1;
    "101".clone_into(&mut words[at]);
    let second = Running::start(&mut second(&words, secret.as_deref())).end();
    for ended in [first.end(), second] {
        assert!(ended.code == Some(1) && ended.took < AT_ONCE, "{ended:?}");
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.contains("has other parameters: --ops is "), "{last}");
        assert!(last.ends_with("as in the command that the first node prints"), "{last}");
    }
}

#[test]
fn lone_node_times_out() {
    let port = port().to_string();
    let said = alone(&["--two-nodes"], &port);
    assert!(
        said.contains("the other node did not come within 1 s: start this one again"),
        "{said}"
    );
    assert!(said.contains(&format!("TCP port {port} of this machine is open to it")), "{said}");
    let said = alone(&["--two-nodes", "127.0.0.1"], &port);
    assert!(said.contains("rank 0 did not start the job at 127.0.0.1:"), "{said}");
    assert!(said.ends_with(&format!("and that its TCP port {port} is open\n")), "{said}");
}

/// Returns the error of a node that waits in vain for a second.
fn alone(node: &[&str], port: &str) -> String {
    let own = [node, &["--port", port, "--rendezvous-timeout", "1"]].concat();
    let ended = First::start(&[&SMALL[..], &own].concat(), Some("the secret of these tests")).end();
    // A host with a port is refused before any wait.
    let status = if node.contains(&"n1:7000") { 2 } else { 1 };
    assert!(ended.code == Some(status) && ended.took < AT_ONCE, "{ended:?}");
    ended.stderr
}

#[test]
fn explains_wrong_host_or_port() {
    let used = port().to_string();
    let said = alone(&["--two-nodes", "no such host"], &used);
    let advice = "give --two-nodes the first node's name or one of the addresses it prints";
    assert!(said.contains(advice), "{said}");
    let said = alone(&["--two-nodes", "n1:7000"], &used);
    assert!(said.contains("give the port by --port 7000"), "{said}");

    let _listener = TcpListener::bind(("0.0.0.0", used.parse().unwrap())).unwrap();
    let said = alone(&["--two-nodes"], &used);
    assert!(said.contains(&format!("cannot listen at TCP port {used}")), "{said}");
    assert!(said.ends_with("give both nodes another --port\n"), "{said}");
}

/// The program's path may be relative to the repository, which is in another folder on the other
/// node.
#[test]
fn prints_path_relative_to_repository() {
    let scratch = Scratch::new();
    symlink(env!("CARGO_BIN_EXE_probeline"), scratch.path("probeline")).unwrap();
    let (port, said) = (port().to_string(), scratch.path("said"));
    let mut first = Command::new("./probeline");
    first.args(SMALL).args(["--two-nodes", "--port", &port]).env_remove("PROBELINE_SECRET");
    first.current_dir(scratch.path("")).stdout(Stdio::null());
    let _running = Running::start_with(first.stderr(File::create(&said).unwrap()));
    let expected = "On the other node, in the folder of this repository there, within 600 s";
    let read = || fs::read_to_string(&said).unwrap();
    assert!(wait_until(AT_ONCE, || read().contains(expected)), "{}", read());
}

/// Returns why commands over verbs cannot run here, as reported by libibverbs; `None` if a device
/// has an active port.
fn missing_for_verbs() -> Option<&'static str> {
    let Ok(library) = probeline::verbs::Library::load() else {
        return Some("libibverbs.so.1 cannot be loaded; install libibverbs1");
    };
    let list = probeline::verbs::DeviceList::new(library).unwrap();
    let active = |device: probeline::verbs::Device<'_>| {
        let context = device.open().unwrap();
        let ports = 1..=context.limits().unwrap().ports;
        ports.into_iter().any(|number| context.port(number).unwrap().active)
    };
    match list.iter().count() {
        0 => Some("no RDMA device: load the RDMA driver of the network card"),
        _ if list.iter().any(active) => None,
        _ => Some("no active port among"),
    }
}

/// No machine has a device of this name, which is reported before the other node is needed.
#[test]
fn missing_device_fails_before_rendezvous() {
    let missing = match missing_for_verbs() {
        Some(missing) if !missing.starts_with("no active port") => missing,
        _ => "no RDMA device nosuch0: choose among",
    };
    for node in [&["--two-nodes"][..], &["--two-nodes", "127.0.0.1"]] {
        let ended =
            run(&[&["bench-latency"], node, &["--device", "nosuch0", "--port", "7000"]].concat());
        assert!(ended.took < AT_ONCE, "{ended:?}");
        let said = ended.failed_in_one_line();
        assert!(said.contains(missing), "{said}");
        assert!(!said.contains("On the other node") && !said.contains("Joining"), "{said}");
    }
}

/// Runs a job over verbs if there is a device; otherwise checks that the error names what is
/// missing.
#[test]
fn verbs_run_or_name_missing() {
    let arguments = ["explore", "fms:2", "--transport", "verbs", "--table-size", "1MiB"];
    let ended = run(&arguments);
    let Some(missing) = missing_for_verbs() else {
        assert!(ended.printed().contains("3444  16311"));
        return;
    };
    let said = ended.failed();
    // Rank 0 checks its device before it starts the others.
    assert!(said.starts_with("probeline: ") && said.contains(missing), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
