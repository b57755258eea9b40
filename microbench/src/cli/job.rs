//! Options of a job, and their resolved values.

use std::path::PathBuf;

use clap::{Args, value_parser};
use probeline::exchange::Launch;
use probeline::table::Config;
use probeline::transport::{Sizes, WORD_BYTES};

use super::{
    NodesArgs, OutputArgs, PlaceArgs, RendezvousArgs, SimArgs, TransportName, UcxArgs, VerbsArgs,
    heading,
};
use crate::failure::{Failure, Result};
use crate::machine::less_than;
use crate::options::Options;
use crate::size::Size;

/// The ranks of a job, how they meet, and their transport.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = None::<&str>)]
pub(crate) struct JobArgs {
    /// Number of ranks (owners) of the job [default: the launcher's under mpirun or srun, else 2]
    #[arg(long = "ranks", value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    ranks_asked: Option<u32>,

    #[arg(skip)]
    pub(crate) ranks: u32,

    /// The number of ranks that certainly run on this machine.
    #[arg(skip)]
    pub(crate) ranks_here: u32,

    /// Transport of one-sided operations [default: shm; with --two-nodes verbs]
    #[arg(long = "transport", value_enum, value_name = "TRANSPORT")]
    pub(crate) transport_asked: Option<TransportName>,

    #[arg(skip)]
    pub(crate) transport: TransportName,

    /// Memory for the table's buckets, all ranks together
    #[arg(long = "table-size", value_name = "SIZE")]
    pub(crate) table_size_asked: Option<Size>,

    #[arg(skip)]
    pub(crate) table_size: Size,

    /// Seed of the keys and of the simulator
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) seed: u64,

    /// Take the defaults of C, M and the options for hiding latency from a file that probeline tune
    /// wrote
    #[arg(long, value_name = "FILE", help_heading = heading::LATENCY)]
    tuning: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) nodes: NodesArgs,

    #[command(flatten)]
    pub(crate) rendezvous: RendezvousArgs,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) verbs: VerbsArgs,

    #[command(flatten)]
    pub(crate) ucx: UcxArgs,

    #[command(flatten)]
    pub(crate) sim: SimArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Two ranks are the fewest that show the cost of remote access.
const DEFAULT_RANKS: u32 = 2;

impl JobArgs {
    /// Returns whether this is rank 0, which prints the results, as far as the environment shows
    /// before ranks meet.
    pub(crate) fn reports(&self) -> bool {
        if self.nodes.two_nodes.as_deref().is_some_and(|first| !first.is_empty()) {
            return false;
        }
        // An invalid environment is reported when ranks meet.
        let launch = Launch::from_env().ok().flatten();
        self.rendezvous.rank.or(launch.map(|launch| launch.rank)).unwrap_or(0) == 0
    }

    /// Resolves as [`resolve_with`](Self::resolve_with), with `over_verbs` or `table_size` by default.
    pub(crate) fn resolve(
        &mut self,
        table_size: Size,
        over_verbs: Size,
        chunk_buckets: &[u32],
    ) -> Result<()> {
        let verbs = |job: &Self| job.transport == TransportName::Verbs;
        self.resolve_with(|job| if verbs(job) { over_verbs } else { table_size }, chunk_buckets)
    }

    /// Resolves the transport, the number of ranks and the size of the table, which is `default` unless
    /// it is given. A chunk of each C must fit a rank's window.
    pub(crate) fn resolve_with(
        &mut self,
        default: impl FnOnce(&Self) -> Size,
        chunk_buckets: &[u32],
    ) -> Result<()> {
        let two_nodes = self.nodes.two_nodes.is_some();
        let transport = if two_nodes { TransportName::Verbs } else { TransportName::Shm };
        self.transport = self.transport_asked.unwrap_or(transport);
        self.check_options()?;
        if self.transport == TransportName::Mpi {
            self.check_mpi()?;
        }
        let launched = self.resolve_ranks()?;
        self.table_size = self.table_size_asked.unwrap_or_else(|| default(self));
        self.check_table_size(launched, chunk_buckets)
    }

    /// Resolves as [`resolve`](Self::resolve), for a command without a table.
    pub(crate) fn resolve_without_table(&mut self) -> Result<()> {
        Options::refuse(&["table-size"], "is not for this command")?;
        self.resolve(Size::mib(1), Size::mib(1), &[])
    }

    /// Refuses a seed over transports other than the simulator, for a command that draws nothing itself.
    pub(crate) fn refuse_seed(&self) -> Result<()> {
        match self.transport {
            TransportName::Sim => Ok(()),
            _ => Options::refuse(&["seed"], "is for --transport sim"),
        }
    }

    /// Resolves the number of ranks. Returns the launcher's information if one started several.
    fn resolve_ranks(&mut self) -> Result<Option<Launch>> {
        let two_nodes = self.nodes.two_nodes.is_some();
        self.rendezvous.check(two_nodes)?;
        if !two_nodes && self.rendezvous.address.is_none() {
            Options::refuse(&["secret-file"], "is for --rendezvous or --two-nodes")?;
        }
        // With --exchange pmix or pmi, and over MPI, a job may have one rank.
        let its_own = self.rendezvous.server().is_some() || self.transport == TransportName::Mpi;
        let launched = Launch::from_env()?.filter(|launch| launch.size > 1 || its_own);
        self.ranks = match (self.ranks_asked, launched) {
            (_, Some(launch)) if two_nodes => {
                return Err(Failure::usage(format!(
                    "--two-nodes, but {} has started {} processes: start one on each node by hand, \
                     or give --rendezvous HOST:PORT instead",
                    launch.launcher, launch.size
                )));
            }
            (Some(asked), Some(launch)) if asked != launch.size => {
                return Err(Failure::usage(format!(
                    "--ranks {asked}, but the launcher started {} ranks: leave out --ranks",
                    launch.size
                )));
            }
            (Some(asked), _) => asked,
            (None, Some(launch)) => launch.size,
            (None, None) => DEFAULT_RANKS,
        };
        Ok(launched)
    }

    /// Sets the size of the table, of a command without one, to that of all windows.
    ///
    /// # Errors
    /// This machine has less memory available.
    pub(crate) fn set_window_bytes(&mut self, sizes: &Sizes) -> Result<()> {
        let words = sizes.window_words.saturating_mul(self.ranks.into());
        self.table_size = Size(words.saturating_mul(WORD_BYTES as u64));
        self.check_available(self.table_size.0, |available| {
            let here = Size(self.bytes_here(self.table_size.0)).rounded();
            format!(
                "the windows of the ranks on this machine take {here}, and {available} of memory is \
                 available: give fewer --ranks, or less work to each"
            )
        })
    }

    /// Resolves the same options for the jobs of `transports`, which run in turn on this machine.
    pub(crate) fn resolve_columns(
        &mut self,
        transports: &[&str],
        chunk_buckets: u32,
    ) -> Result<()> {
        let why = "is for the other commands, choose the columns with --transports";
        Options::refuse(&["transport", "ucx-tls"], why)?;
        let columns = ["verbs", "ucx-shm, ucx-tcp or ucx-rc", "sim"];
        for (&(heading, its), columns) in heading::OF_TRANSPORTS.iter().zip(columns) {
            let chosen = transports.iter().any(|transport| its.contains(transport));
            if let Some(option) = Options::given().given_under(heading).filter(|_| !chosen) {
                return Err(Failure::usage(format!(
                    "{option} is for the column {columns}: add it to --transports, or leave the \
                     option out"
                )));
            }
        }
        self.transport = TransportName::Shm;
        self.table_size = self.table_size_asked.unwrap_or_default();
        self.resolve_ranks()?;
        self.check_table_size(None, &[chunk_buckets])
    }

    /// Refuses options of another transport, which would have no effect.
    fn check_options(&self) -> Result<()> {
        let transport = self.transport.name();
        // The options of how ranks meet have checks of their own.
        let of_others =
            heading::OF_TRANSPORTS[..4].iter().filter(|(_, its)| !its.contains(&&*transport));
        let mut given = of_others
            .filter_map(|(heading, its)| Some((Options::given().given_under(heading)?, its[0])));
        // UCX and MPI allocate windows themselves.
        let pages =
            Options::given().is_given("huge-pages") && ["ucx", "mpi"].contains(&&*transport);
        let pages = || pages.then(|| ("--huge-pages".to_owned(), "shm"));
        let Some((option, first)) = given.next().or_else(pages) else { return Ok(()) };
        let transport = if first == "shm" { "shm or verbs" } else { first };
        Err(Failure::usage(format!(
            "{option} is for --transport {transport}: add that, or leave it out"
        )))
    }

    /// Creates the failure of a build without MPI.
    pub(crate) fn no_mpi() -> Failure {
        Failure::usage(
            "this build has no MPI: build with --features mpi and the mpicc of the MPI library, or \
             choose another transport",
        )
    }

    /// Refuses MPI in a build without it, and options of another way to meet, which would have no effect.
    fn check_mpi(&self) -> Result<()> {
        if cfg!(not(feature = "mpi")) {
            return Err(Self::no_mpi());
        }
        let options = ["two-nodes", "exchange", "rendezvous", "secret-file", "rendezvous-timeout"];
        let why = "has no effect over MPI, whose launcher starts the ranks and which connects them \
                   itself";
        Options::refuse(&options, why)
    }

    /// Returns the number of ranks that certainly run on this machine, whose memory holds their
    /// windows. Over verbs, ranks that this command does not start may run elsewhere.
    fn ranks_here(&self, launched: Option<Launch>) -> u32 {
        let meet = self.nodes.two_nodes.is_some() || self.rendezvous.address.is_some();
        let apart = !matches!(self.transport, TransportName::Shm | TransportName::Sim);
        match launched {
            Some(launch) if apart => launch.local_size.unwrap_or(1),
            None if apart && meet => 1,
            _ => self.ranks,
        }
    }

    fn check_table_size(&mut self, launched: Option<Launch>, chunk_buckets: &[u32]) -> Result<()> {
        let (size, ranks) = (self.table_size, self.ranks);
        self.ranks_here = self.ranks_here(launched);
        let widest = chunk_buckets.iter().copied().max().unwrap_or(8);
        let min = Size(u64::from(widest) * 8 * u64::from(ranks));
        if size.0 < min.0 {
            return Err(Failure::usage(format!(
                "--table-size {size} is too small: a chunk of C = {widest} in the part of each of \
                 {ranks} ranks takes {min} at least"
            )));
        }
        self.check_available(size.0, |available| {
            format!(
                "--table-size {size} is too large: this machine has {available} of memory available"
            )
        })
    }

    /// Checks that this machine has memory for `bytes` of all ranks beside the table. `too_many` says
    /// which options ask for them, and what takes them.
    pub(crate) fn check_memory(&self, bytes: u64, too_many: &str) -> Result<()> {
        self.check_available(self.table_size.0.saturating_add(bytes), |available| {
            let (bytes, size) = (Size(bytes).rounded(), self.table_size);
            format!(
                "{too_many} take {bytes}, and this machine has {available} of memory available for \
                 them and --table-size {size}"
            )
        })
    }

    /// Checks that this machine has memory for its ranks' share of `bytes`; `refusal` describes them, given
    /// the memory that it has.
    fn check_available(&self, bytes: u64, refusal: impl Fn(String) -> String) -> Result<()> {
        let available = less_than(self.bytes_here(bytes));
        available.map_or(Ok(()), |available| Err(Failure::usage(refusal(available))))
    }

    /// Returns the share of `bytes`, the total of all ranks, that this machine's ranks have.
    pub(crate) fn bytes_here(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.ranks.max(1))).saturating_mul(self.ranks_here.into())
    }

    /// Returns the configuration of the table of this job, with the paper's algorithm.
    pub(crate) fn config(&self, chunk_buckets: u32, max_chunks: u32) -> Config {
        Config { chunk_buckets, max_chunks, ..Config::paper(self.buckets_per_owner()) }
    }

    /// Returns the buckets of each owner, whole lines of 8.
    pub(crate) fn buckets_per_owner(&self) -> u64 {
        self.table_size.0 / 8 / u64::from(self.ranks.max(1)) / 8 * 8
    }
}
