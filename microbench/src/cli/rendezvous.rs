//! Options of the ranks: how they meet, on which nodes and cores.

use std::path::PathBuf;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint, value_parser};
use probeline::exchange::Server;
use probeline::pin::HugePages;

use super::{heading, one_of};
use crate::failure::{Failure, Result};

/// Rendezvous of ranks that this command does not start itself.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::RENDEZVOUS)]
pub(crate) struct RendezvousArgs {
    /// How ranks meet [default: at --rendezvous if given, else by the service of the launcher that
    /// started several ranks, else this command starts the ranks]
    #[arg(long = "exchange", value_enum, value_name = "EXCHANGE")]
    pub(crate) exchange: Option<ExchangeName>,

    /// Address where ranks meet over TCP: rank 0 listens there, the others connect
    #[arg(id = "rendezvous", long = "rendezvous", value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,

    /// Rank of this process, if no launcher sets it
    #[arg(long, value_name = "RANK", requires = "rendezvous")]
    pub(crate) rank: Option<u32>,

    /// File with the shared secret [default: the variable PROBELINE_SECRET]
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// Allow a rendezvous address that other machines can connect to
    #[arg(long, requires = "rendezvous")]
    pub(crate) allow_remote: bool,

    /// Seconds to wait until all ranks have met [default: 60; 600 on the first of two nodes]
    #[arg(long, value_name = "SECONDS", value_parser = wait_s())]
    pub(crate) rendezvous_timeout: Option<u64>,

    /// Seconds to wait for the slowest rank in a collective call, in addition to the time that it
    /// measures
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = wait_s())]
    pub(crate) collective_timeout: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExchangeName {
    /// PMIx, which mpirun of Open MPI and srun --mpi=pmix serve; needs libpmix
    Pmix,
    /// PMI, which mpiexec of MPICH and srun --mpi=pmi2 serve
    Pmi,
    /// At the address of --rendezvous
    Tcp,
    /// This command starts the other ranks itself
    Spawn,
}

impl RendezvousArgs {
    pub(crate) fn server(&self) -> Option<Server> {
        match self.exchange? {
            ExchangeName::Pmix => Some(Server::Pmix),
            ExchangeName::Pmi => Some(Server::Pmi),
            ExchangeName::Tcp | ExchangeName::Spawn => None,
        }
    }

    pub(super) fn check(&self, two_nodes: bool) -> Result<()> {
        let meets = self.address.is_some() || two_nodes;
        let advice = match self.exchange {
            Some(ExchangeName::Tcp) if !meets => {
                "--exchange tcp: say where ranks meet with --rendezvous HOST:PORT"
            }
            Some(ExchangeName::Pmix | ExchangeName::Pmi | ExchangeName::Spawn) if meets => {
                "--rendezvous and --two-nodes are for --exchange tcp: leave out one of the two"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(advice))
    }
}

fn wait_s() -> RangedU64ValueParser {
    value_parser!(u64).range(1..=86_400)
}

/// Two nodes, one command on each.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::NODES)]
pub(crate) struct NodesArgs {
    /// Run one rank on each of two nodes: start it on the first, then run what it prints on the second
    ///
    /// Without FIRST_NODE this is the first node, which prints the command for the second, waits for it and
    /// prints the results; with FIRST_NODE, the name or address of the first node, this is the second.
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

/// Cores, nodes and pages.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::PLACEMENT)]
pub(crate) struct PlaceArgs {
    /// Pin each rank to its own core and prefer memory of that core's node, or leave both to the
    /// kernel [default: cores, but ranks that cannot be pinned continue]
    #[arg(long, value_name = "PIN", value_parser = one_of(&[("cores", "", true), ("none", "", false)]))]
    pub(crate) pin: Option<bool>,

    /// Use huge pages for the windows
    #[arg(long, value_name = "HUGE_PAGES", default_value = "try", value_parser = huge_pages())]
    pub(crate) huge_pages: HugePages,
}

fn huge_pages() -> impl TypedValueParser<Value = HugePages> {
    one_of(&[
        ("try", "If the machine has free ones", HugePages::Try),
        ("never", "", HugePages::Never),
        ("require", "Fail without them", HugePages::Require),
    ])
}
