//! Options of a job on two nodes.

use clap::{Args, ValueHint, value_parser};

/// Two nodes, one command on each.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Two nodes")]
pub(crate) struct NodesArgs {
    /// Run one rank on each of two nodes. Without FIRST_NODE this is the first node, which prints
    /// the command for the second, waits for it and prints the results; with FIRST_NODE, the name
    /// or address of the first node, this is the second
    #[arg(long, value_name = "FIRST_NODE", num_args = 0..=1, default_missing_value = "")]
    #[arg(value_hint = ValueHint::Hostname)]
    #[arg(conflicts_with_all = ["rendezvous", "rank", "ranks_asked", "allow_remote"])]
    pub(crate) two_nodes: Option<String>,

    /// TCP port of the first node where the nodes meet
    #[arg(long, default_value_t = DEFAULT_PORT, value_name = "PORT", requires = "two_nodes")]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,
}

/// Outside the range that systems use for outgoing connections.
pub(crate) const DEFAULT_PORT: u16 = 7471;
