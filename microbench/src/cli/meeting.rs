//! Options of how ranks meet.

use core::time::Duration;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, value_parser};
use probeline::exchange::Server;

use crate::failure::{Failure, Result};

/// How ranks that this command does not start itself find each other.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Ranks started by hand, mpirun or srun")]
pub(crate) struct MeetingArgs {
    /// How ranks meet [default: at --rendezvous if given, else by the service of the launcher that
    /// started several ranks, else this command starts the ranks]
    #[arg(long = "exchange", value_enum, value_name = "EXCHANGE")]
    pub(crate) exchange: Option<ExchangeName>,

    /// Address where ranks meet over TCP: rank 0 listens there, the others connect
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) rendezvous: Option<String>,

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
    pub(crate) meet_timeout: Option<u64>,

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

impl MeetingArgs {
    /// Returns the launcher's service that `--exchange` names.
    pub(crate) fn server(&self) -> Option<Server> {
        match self.exchange? {
            ExchangeName::Pmix => Some(Server::Pmix),
            ExchangeName::Pmi => Some(Server::Pmi),
            ExchangeName::Tcp | ExchangeName::Spawn => None,
        }
    }

    /// Returns the limit of a collective call, excluding the time that the slowest rank measures.
    pub(crate) fn collective_limit(&self) -> Duration {
        Duration::from_secs(self.collective_timeout)
    }

    /// Refuses options that contradict each other.
    pub(super) fn check(&self, two_nodes: bool) -> Result<()> {
        let meets = self.rendezvous.is_some() || two_nodes;
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

/// Parses seconds to wait for other ranks, at most a day.
fn wait_s() -> RangedU64ValueParser {
    value_parser!(u64).range(1..=86_400)
}
