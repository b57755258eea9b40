//! `--two-nodes`: the address where the nodes meet, the command that starts the second node, and
//! the advice if they do not meet.

use core::net::Ipv6Addr;
use std::borrow::Cow;
use std::env;
use std::path::Path;

use probeline::exchange::{JoinError, Rendezvous, SECRET_VARIABLE, Secret, Start};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::cli::{DEFAULT_PORT, NodesArgs};
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::terminal;

/// Bytes of a fresh secret, two hexadecimal digits each.
const SECRET_BYTES: usize = 16;

/// Exists if the kernel has IPv6; a socket that listens at `[::]` then accepts IPv4 too.
const IPV6: &str = "/proc/net/if_inet6";

/// Options that only the first node has.
const OF_FIRST: [&str; 4] = ["two-nodes", "json", "csv", "full"];

/// Options whose values may differ on the second node.
const OF_MACHINE: [&str; 4] = ["device", "ib-port", "gid-index", "pkey-index"];

pub(crate) struct Node {
    pub(crate) start: Start,
    /// A fresh secret; `None` if one was given.
    pub(crate) secret: Option<Secret>,
    pub(crate) said: String,
    pub(crate) last_line: Option<String>,
    pub(crate) waits_for: String,
}

impl Node {
    /// Creates the state of a rank of any other job.
    pub(crate) fn from_start(start: Start, secret: Option<Secret>) -> Self {
        let waits_for = "waiting for all ranks".to_owned();
        Self { start, secret, said: String::new(), last_line: None, waits_for }
    }
}

/// Creates the state of this node, or `None` without `--two-nodes`. The node waits for `limit_s`
/// seconds. `secret` is that of an option, if given.
pub(crate) fn node(
    args: &NodesArgs,
    options: &Options,
    limit_s: u64,
    secret: Option<Secret>,
) -> Result<Option<Node>> {
    match args.two_nodes.as_deref() {
        None => Ok(None),
        Some("") => first(args.port, options, limit_s, secret).map(Some),
        Some(host) => second(host, args.port, limit_s, secret).map(Some),
    }
}

fn first(port: u16, options: &Options, limit_s: u64, given: Option<Secret>) -> Result<Node> {
    let fresh = given.is_none() && env::var_os(SECRET_VARIABLE).is_none();
    let digits = fresh.then(random_digits).transpose()?;
    let (secret, assignment) = match digits {
        Some(digits) => {
            let assignment = format!("{SECRET_VARIABLE}={digits} ");
            (Some(Secret::new(digits.into_bytes())?), assignment)
        }
        None => (given, String::new()),
    };
    let host = probeline::exchange::host_name().unwrap_or_else(|| "FIRST_NODE".to_owned());
    let program = env::args().next().unwrap_or_default();
    let command = second_command(&program, &host, options);
    let folder = folder_of(&program);
    let machine = options_of_machine(options);
    let secret_there = if fresh { "" } else { "\nwith the same secret there as here.\n" };
    let addresses: Vec<_> =
        probeline::exchange::addresses()?.iter().map(ToString::to_string).collect();
    let addresses =
        if addresses.is_empty() { "none found".to_owned() } else { addresses.join(", ") };
    let said = format!(
        "On the other node, within {limit_s} s (--rendezvous-timeout){folder}:\n\n  \
         {assignment}{command}\n{machine}{secret_there}\n{host} is this machine; its \
         addresses: {addresses}. It listens at TCP port {port}.\n"
    );
    let any = if Path::new(IPV6).exists() { "[::]" } else { "0.0.0.0" };
    Ok(Node {
        start: placed(0, format!("{any}:{port}")),
        secret,
        said,
        last_line: None,
        waits_for: format!("waiting for the other node, for {limit_s} s"),
    })
}

fn second(host: &str, port: u16, limit_s: u64, secret: Option<Secret>) -> Result<Node> {
    let address = format!("{}:{port}", host_part(host)?);
    Ok(Node {
        said: unless_quiet(format!(
            "Joining the first node at {address}, for {limit_s} s (--rendezvous-timeout).\n"
        ))
        .unwrap_or_default(),
        last_line: unless_quiet(format!("The first node, {host}, prints the report.")),
        waits_for: format!("joining {address}, for {limit_s} s"),
        start: placed(1, address),
        secret,
    })
}

/// Returns status text, which `--quiet` omits. The text of the first node is not status: a user
/// needs it to start the second node.
fn unless_quiet(text: String) -> Option<String> {
    (!terminal::is_quiet()).then_some(text)
}

/// Returns the host in the form that precedes the colon of a port.
fn host_part(host: &str) -> Result<String> {
    let Some((name, port)) = host.rsplit_once(':') else { return Ok(host.to_owned()) };
    if host.contains('%') || host.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{host}]"));
    }
    let port = port.parse().unwrap_or(DEFAULT_PORT);
    Err(Failure::usage(format!(
        "--two-nodes {host} is neither a name nor an address: give the port by --port {port}, as \
         in --two-nodes {name} --port {port}"
    )))
}

pub(crate) fn not_met(error: JoinError, args: &NodesArgs) -> Failure {
    if args.two_nodes.is_none() {
        return error.into();
    }
    let (port, host) = (args.port, args.two_nodes.as_deref().unwrap_or_default());
    let advice = format!(
        "see that the second node runs the whole command that the first one prints, and that TCP \
         port {port} of the first is free and open to the second"
    );
    match error {
        JoinError::Address { error, .. } => Failure::new(format!(
            "--two-nodes {host} is not the address of a machine ({error}): give the name of the \
             first node or an address that it prints"
        )),
        JoinError::Listen { error, .. } => Failure::new(format!(
            "the first node cannot listen at TCP port {port}: {error}. Give another --port"
        )),
        JoinError::Missing { after_s, .. } => {
            Failure::new(format!("the second node did not come within {after_s} s: {advice}"))
        }
        JoinError::Unreachable { .. } | JoinError::NoSecret => {
            Failure::from(error).or(&format!("and {advice}"))
        }
        _ => error.into(),
    }
}

fn placed(rank: u32, address: String) -> Start {
    Start::Manual { rank, ranks: 2, rendezvous: Rendezvous { address, allow_remote: true } }
}

fn random_digits() -> Result<String> {
    let mut bytes = [0_u8; SECRET_BYTES];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if filled < SECRET_BYTES {
        return Err(Failure::new("the system gives no random bytes for a secret"));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the command of the second node, with the options of the first that it needs as well.
fn second_command(program: &str, host: &str, options: &Options) -> String {
    let command = [program, options.command()].map(quoted).join(" ");
    let argv = options.clone().only(|name| !OF_FIRST.contains(&name)).to_argv();
    let argv = argv.iter().map(|argument| format!(" {}", quoted(&argument.to_string_lossy())));
    format!("{command} --two-nodes {host}{}", argv.collect::<String>())
}

/// Returns where the second node finds the program, if its path is relative.
fn folder_of(program: &str) -> &'static str {
    if program.contains('/') && Path::new(program).is_relative() {
        ", in the folder of this repository there, after cargo build --release"
    } else {
        ""
    }
}

/// Returns a line for each given option whose value may differ on the second node.
fn options_of_machine(options: &Options) -> String {
    let given = OF_MACHINE.iter().filter(|name| options.is_given(name));
    let lines = given.map(|name| format!("(with the --{name} of that machine, if it differs)\n"));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Quotes the word for a POSIX shell if necessary. Arguments of a process contain no NUL.
fn quoted(word: &str) -> Cow<'_, str> {
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::parsed;

    fn options(line: &str) -> Options {
        parsed(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn second_command_omits_files() {
        let line = "bench-latency --two-nodes --full --json a -C 8,16 --csv=b --ops 10 --port 7";
        let first = options(line);
        let expected =
            "t/probeline bench-latency --two-nodes n1 --chunk-buckets '8,16' --ops 10 --port 7";
        assert_eq!(second_command("t/probeline", "n1", &first), expected);
        let first = options("explore fms:2 --two-nodes --seed=2");
        assert_eq!(second_command("p", "n1", &first), "p explore --two-nodes n1 --seed 2 fms:2");
        let first = options("-q explore fms:2 --two-nodes");
        assert_eq!(second_command("p", "n1", &first), "p explore --two-nodes n1 --quiet fms:2");
    }

    #[test]
    fn names_folder_of_relative_paths() {
        assert!(folder_of("target/release/probeline").contains("cargo build --release"));
        assert_eq!([folder_of("/usr/bin/probeline"), folder_of("probeline")], ["", ""]);
    }

    #[test]
    fn brackets_ipv6_addresses() {
        for (host, address) in [
            ("n1", "n1:7471"),
            ("10.0.0.1", "10.0.0.1:7471"),
            ("fd00::1", "[fd00::1]:7471"),
            ("fe80::1%eth0", "[fe80::1%eth0]:7471"),
        ] {
            let Start::Manual { rank: 1, ranks: 2, rendezvous } =
                second(host, DEFAULT_PORT, 60, None).unwrap().start
            else {
                panic!("{host} is not the second of two");
            };
            assert_eq!(rendezvous.address, address);
            assert!(rendezvous.allow_remote);
        }
    }

    #[test]
    fn refuses_port_in_host() {
        for (host, option) in [("n1:7000", "--port 7000"), ("n1:", "--port 7471")] {
            let failure = second(host, DEFAULT_PORT, 60, None).err().unwrap();
            assert!(failure.to_string().contains(option), "{failure}");
        }
    }

    #[test]
    fn names_machine_dependent_options() {
        let first = options("explore fms:2 --two-nodes --device=mlx5_0 --gid-index 3");
        let lines = "\n(with the --device of that machine, if it differs)\n\
                     (with the --gid-index of that machine, if it differs)\n";
        assert_eq!(options_of_machine(&first), lines);
        assert_eq!(options_of_machine(&options("explore fms:2")), "");
    }
}
