//! Two nodes: where they meet, and what the first says about how to start the second.

use std::env;
use std::path::Path;

use exchange::{Rendezvous, SECRET_VARIABLE, Secret, Start};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::addresses;
use crate::cli::NodesArgs;
use crate::failure::{Failure, Result};

/// Bytes of a fresh secret, two hexadecimal digits each.
const SECRET_BYTES: usize = 16;

/// There only if the kernel has IPv6, where a socket for any address takes IPv4 as well.
const IPV6: &str = "/proc/net/if_inet6";

/// Options that say where this node's results go; each takes a value.
const OWN_OPTIONS: [&str; 2] = ["--json", "--csv"];

/// One of two nodes, before they have met.
pub(crate) struct Node {
    pub(crate) start: Start,
    /// `None` for one that was given.
    pub(crate) secret: Option<Secret>,
    /// What to say before waiting for the other.
    pub(crate) said: String,
    /// What to say in the end.
    pub(crate) farewell: Option<String>,
    /// While it waits.
    pub(crate) waits_for: String,
}

/// What the job's options say of it; `None` where there are no two nodes. Waits for `limit_s`
/// seconds; a `secret` may have been given by an option.
pub(crate) fn node(args: &NodesArgs, limit_s: u64, secret: Option<Secret>) -> Result<Option<Node>> {
    match args.two_nodes.as_deref() {
        None => Ok(None),
        Some("") => first(args.port, limit_s, secret).map(Some),
        Some(host) => Ok(Some(second(host, args.port, limit_s, secret))),
    }
}

fn first(port: u16, limit_s: u64, given: Option<Secret>) -> Result<Node> {
    let fresh = given.is_none() && env::var_os(SECRET_VARIABLE).is_none();
    let digits = fresh.then(random_digits).transpose()?;
    let (secret, assignment) = match digits {
        Some(digits) => {
            let assignment = format!("{SECRET_VARIABLE}={digits} ");
            (Some(Secret::new(digits.into_bytes())?), assignment)
        }
        None => (given, String::new()),
    };
    let host = addresses::host_name().unwrap_or_else(|| "FIRST_NODE".to_owned());
    let command = Command::new(env::args());
    let mut said = format!(
        "On the other node, within {limit_s} s (--meet-timeout):\n\n  {assignment}{}\n",
        command.of_second(&host)
    );
    if let Some(recipe) = command.recipe_of_second(&host) {
        said.push_str(&format!("\nor the same by its recipe:\n\n  {assignment}{recipe}\n"));
    }
    if !fresh {
        said.push_str("\nwith the same secret there as here.\n");
    }
    let addresses: Vec<_> = addresses::of_this_machine().iter().map(ToString::to_string).collect();
    let addresses =
        if addresses.is_empty() { "none found".to_owned() } else { addresses.join(", ") };
    said.push_str(&format!(
        "\n{host} is this machine; its addresses: {addresses}. It listens at TCP port {port}.\n"
    ));
    let any = if Path::new(IPV6).exists() { "[::]" } else { "0.0.0.0" };
    Ok(Node {
        start: placed(0, format!("{any}:{port}")),
        secret,
        said,
        farewell: None,
        waits_for: format!("waiting for the other node, for {limit_s} s"),
    })
}

fn second(host: &str, port: u16, limit_s: u64, secret: Option<Secret>) -> Node {
    let host_part = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let address = format!("{host_part}:{port}");
    Node {
        said: format!("Joining the first node at {address}, for {limit_s} s (--meet-timeout).\n"),
        farewell: Some(format!("The first node, {host}, prints the report.")),
        waits_for: format!("joining {address}, for {limit_s} s"),
        start: placed(1, address),
        secret,
    }
}

fn placed(rank: u32, address: String) -> Start {
    Start::Placed { rank, size: 2, rendezvous: Rendezvous { address, allow_remote: true } }
}

fn random_digits() -> Result<String> {
    let mut bytes = [0_u8; SECRET_BYTES];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if filled < SECRET_BYTES {
        return Err(Failure::new("the system gives no random bytes for a secret"));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// How this process was started as the first node.
struct Command {
    program: String,
    /// What it does.
    name: String,
    /// Options that the second node has to have too.
    options: Vec<String>,
}

impl Command {
    /// From program, command and options.
    fn new(mut arguments: impl Iterator<Item = String>) -> Self {
        let program = arguments.next().unwrap_or_default();
        let name = arguments.next().unwrap_or_default();
        let mut options = Vec::new();
        while let Some(argument) = arguments.next() {
            let option = argument.split('=').next().unwrap_or_default();
            match OWN_OPTIONS.contains(&option) {
                true if option == argument => drop(arguments.next()),
                true => {}
                false if option == "--two-nodes" => {}
                false => options.push(argument),
            }
        }
        Self { program, name, options }
    }

    fn of_second(&self, host: &str) -> String {
        let command = [&self.program, &self.name].map(|word| quoted(word)).join(" ");
        format!("{command} --two-nodes {host}{}", self.options())
    }

    /// By the recipe of the justfile, where there is one.
    fn recipe_of_second(&self, host: &str) -> Option<String> {
        (self.name == "bench-latency")
            .then(|| format!("just bench-latency {host}{}", self.options()))
    }

    fn options(&self) -> String {
        self.options.iter().map(|option| format!(" {}", quoted(option))).collect()
    }
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::DEFAULT_PORT;

    fn command(line: &str) -> Command {
        Command::new(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn the_second_gets_the_options_of_the_first_without_its_files() {
        let line =
            "t/probeline bench-latency --two-nodes --json a -C 8,16 --csv=b --ops 10 --port 7";
        let first = command(line);
        let expected = "t/probeline bench-latency --two-nodes n1 -C 8,16 --ops 10 --port 7";
        assert_eq!(first.of_second("n1"), expected);
        let recipe = "just bench-latency n1 -C 8,16 --ops 10 --port 7";
        assert_eq!(first.recipe_of_second("n1").as_deref(), Some(recipe));
        let first = command("p explore fms:2 --two-nodes --seed=2");
        assert_eq!(first.of_second("n1"), "p explore --two-nodes n1 fms:2 --seed=2");
        assert_eq!(first.recipe_of_second("n1"), None);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("kanban:5"), "kanban:5");
        assert_eq!(quoted("my net.pnml"), "'my net.pnml'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn an_ipv6_address_is_bracketed() {
        for (host, address) in
            [("n1", "n1:7471"), ("10.0.0.1", "10.0.0.1:7471"), ("fd00::1", "[fd00::1]:7471")]
        {
            let Start::Placed { rank: 1, size: 2, rendezvous } =
                second(host, DEFAULT_PORT, 60, None).start
            else {
                panic!("{host} is not the second of two");
            };
            assert_eq!(rendezvous.address, address);
            assert!(rendezvous.allow_remote);
        }
    }
}
