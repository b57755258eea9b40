//! The options that several commands share.

use std::path::PathBuf;

use clap::builder::{RangedI64ValueParser, RangedU64ValueParser};
use clap::{Args, ValueEnum, value_parser};
use exchange::{Launch, Server};
use table::Config;

use crate::failure::{Failure, Result};
use crate::machine::memory_available;
use crate::size::Size;

/// Which ranks there are, how they meet, and what they run over.
#[derive(Args, Clone, Debug)]
pub(crate) struct JobArgs {
    /// Ranks (owners) of the job: the launcher's number under mpirun or srun, else 2
    #[arg(long = "ranks", value_name = "N", value_parser = value_parser!(u32).range(1..=4096))]
    ranks_asked: Option<u32>,

    /// What that comes to.
    #[arg(skip)]
    pub(crate) ranks: u32,

    /// How many of them are on this machine, as far as is known.
    #[arg(skip)]
    ranks_here: u32,

    /// What one-sided operations go over: shm without it, or verbs with --two-nodes
    #[arg(long = "transport", value_enum, value_name = "TRANSPORT")]
    transport_asked: Option<TransportName>,

    /// What that comes to.
    #[arg(skip)]
    pub(crate) transport: TransportName,

    /// Memory for the table's buckets, all ranks together. Without it bench-latency and roundtrips,
    /// which fill the table several times, take 32MiB, or 1MiB over verbs; bench-throughput and
    /// explore take 128MiB over anything; limits, which reads and changes as much memory without a
    /// table, 256MiB for each rank, but no more than a quarter of what is available, and over verbs
    /// and in the simulator as bench-latency
    #[arg(long = "table-size", value_name = "SIZE")]
    table_size_asked: Option<Size>,

    /// What that comes to.
    #[arg(skip)]
    pub(crate) table_size: Size,

    /// Seed of the data and of the simulator; an exploration leaves nothing to chance
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) nodes: NodesArgs,

    #[command(flatten)]
    pub(crate) meeting: MeetingArgs,

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportName {
    /// Shared memory between processes of this machine
    #[default]
    Shm,
    /// RDMA: reliable connected queue pairs of libibverbs
    Verbs,
    /// UCP of UCX
    Ucx,
    /// One-sided MPI, for ranks that the launcher of this MPI library has started
    #[cfg(feature = "mpi")]
    Mpi,
    /// The seeded simulator, in virtual time
    Sim,
}

impl TransportName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Verbs => "verbs",
            Self::Ucx => "ucx",
            #[cfg(feature = "mpi")]
            Self::Mpi => "mpi",
            Self::Sim => "sim",
        }
    }
}

/// Two nodes, one command on each.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Two nodes")]
pub(crate) struct NodesArgs {
    /// One of the two ranks here, the other on another node: without FIRST_NODE this is the first,
    /// which prints the command for the second, waits for it and reports; with it, the name or
    /// address of the first, this is the second
    #[arg(long, value_name = "FIRST_NODE", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["rendezvous", "rank", "ranks_asked", "allow_remote"])]
    pub(crate) two_nodes: Option<String>,

    /// TCP port of the first node at which they meet
    #[arg(long, default_value_t = DEFAULT_PORT, value_name = "PORT", requires = "two_nodes")]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,
}

/// No port that a system hands out for outgoing connections.
pub(crate) const DEFAULT_PORT: u16 = 7471;

/// How ranks that this command does not start itself find each other.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Ranks started by hand, mpirun or srun")]
pub(crate) struct MeetingArgs {
    /// How ranks find each other: without it at a rendezvous where one is given, by what a
    /// launcher that started several ranks serves, or else ranks that this command starts
    #[arg(long = "exchange", value_enum, value_name = "EXCHANGE")]
    pub(crate) exchange: Option<ExchangeName>,

    /// Where ranks meet over TCP: rank 0 listens there, the others come
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) rendezvous: Option<String>,

    /// This process's rank, when no launcher tells
    #[arg(long, value_name = "RANK", requires = "rendezvous")]
    pub(crate) rank: Option<u32>,

    /// File with the shared secret; the variable PROBELINE_SECRET without it
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// Allow a rendezvous address that other machines reach
    #[arg(long, requires = "rendezvous")]
    pub(crate) allow_remote: bool,

    /// Seconds to wait until all ranks have met: 60 without it, and 600 for the first of two nodes
    #[arg(long, value_name = "SECONDS", value_parser = wait_s())]
    pub(crate) meet_timeout: Option<u64>,

    /// Seconds to wait for the slowest rank in a collective call, beside the time that it was asked
    /// to measure for
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
    /// The service of a launcher that was asked for.
    pub(crate) fn server(&self) -> Option<Server> {
        match self.exchange? {
            ExchangeName::Pmix => Some(Server::Pmix),
            ExchangeName::Pmi => Some(Server::Pmi),
            ExchangeName::Tcp | ExchangeName::Spawn => None,
        }
    }

    /// Options that contradict each other.
    fn check(&self, two_nodes: bool) -> Result<()> {
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
        Err(Failure::new(advice))
    }
}

/// Seconds to wait for other ranks: a day at most.
fn wait_s() -> RangedU64ValueParser {
    value_parser!(u64).range(1..=86_400)
}

/// Cores, nodes and pages.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Placement (shm, verbs)")]
pub(crate) struct PlaceArgs {
    /// Pin each rank to a core of its own and its memory to that core's node, as without it, or
    /// leave both to the kernel
    #[arg(long = "pin", value_enum, value_name = "PIN")]
    pin_asked: Option<PinName>,

    /// Huge pages for the windows: try without it
    #[arg(long = "huge-pages", value_enum, value_name = "HUGE_PAGES")]
    huge_pages_asked: Option<HugeName>,
}

impl PlaceArgs {
    pub(crate) fn pin(&self) -> PinName {
        self.pin_asked.unwrap_or(PinName::Cores)
    }

    pub(crate) fn huge_pages(&self) -> HugeName {
        self.huge_pages_asked.unwrap_or(HugeName::Try)
    }

    /// An option of these that was given.
    fn given(&self) -> Option<&'static str> {
        self.pin_asked.map(|_| "--pin").or(self.pages_given())
    }

    fn pages_given(&self) -> Option<&'static str> {
        self.huge_pages_asked.map(|_| "--huge-pages")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PinName {
    Cores,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HugeName {
    /// Where the machine gives them
    Try,
    Never,
    /// Or end with an error
    Require,
}

/// The device, the way through the network, and how long it tries.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "RDMA (verbs)")]
pub(crate) struct VerbsArgs {
    /// RDMA device, such as mlx5_0; the first that can be used without it
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,

    /// Its port, from 1 on, as ibv_devinfo counts them; the first active one without it
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub(crate) ib_port: Option<u8>,

    /// Place of this node's address in the port's GID table; the first that fits without it
    #[arg(long, value_name = "N")]
    pub(crate) gid_index: Option<u8>,

    /// Place of the partition's key in the port's P_Key table, 0 without it
    #[arg(long, value_name = "N")]
    pub(crate) pkey_index: Option<u16>,

    /// Service level on InfiniBand, 0 to 15, or priority on Ethernet, 0 to 7; 0 without it
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(0..=15))]
    pub(crate) service_level: Option<u8>,

    /// Traffic class; on Ethernet four times the DSCP, plus the ECN; 0 without it
    #[arg(long, value_name = "N")]
    pub(crate) traffic_class: Option<u8>,

    /// How long a queue pair waits for an acknowledgement before it sends again: 4.096 us times
    /// two to the power of this, 1 to 31; without it 16, which is 268 ms. Devices may take up to
    /// four times as long
    #[arg(long, value_name = "EXPONENT", value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) timeout: Option<u8>,

    /// How often it then sends again before the peer counts as lost, 0 to 6; 6 without it. At 7
    /// some devices never give up
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(0..=6))]
    pub(crate) retries: Option<u8>,
}

/// The timeout and the retries of a queue pair if nothing else was asked.
const DEFAULT_TIMEOUT: u8 = 16;
const DEFAULT_RETRIES: u8 = 6;

impl VerbsArgs {
    pub(crate) fn retry(&self) -> core::result::Result<verbs::Retry, verbs::RetryError> {
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        verbs::Retry::new(timeout, self.retries.unwrap_or(DEFAULT_RETRIES))
    }

    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--device", self.device.is_some()),
            ("--ib-port", self.ib_port.is_some()),
            ("--gid-index", self.gid_index.is_some()),
            ("--pkey-index", self.pkey_index.is_some()),
            ("--service-level", self.service_level.is_some()),
            ("--traffic-class", self.traffic_class.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--retries", self.retries.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// What UCX goes over.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "UCX (ucx)")]
pub(crate) struct UcxArgs {
    /// Transports that UCX may use, such as posix,sysv,cma,self or tcp or rc: UCX_TLS. What the
    /// environment says without it, or all
    #[arg(long, value_name = "NAME,...")]
    pub(crate) ucx_tls: Option<String>,

    /// Network devices that it may use, such as mlx5_0:1 or eth0: UCX_NET_DEVICES
    #[arg(long, value_name = "NAME,...")]
    pub(crate) ucx_device: Option<String>,

    /// Place of this node's address in the port's GID table: UCX_IB_GID_INDEX
    #[arg(long, value_name = "N")]
    pub(crate) ucx_gid_index: Option<u8>,

    /// Atomics that it uses, UCX_ATOMIC_MODE: those that are consistent with the CPU's, or the
    /// device's where it has all; cpu without it
    #[arg(long, value_enum, value_name = "WHOSE")]
    ucx_atomics: Option<UcxAtomics>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UcxAtomics {
    Cpu,
    Device,
}

impl UcxArgs {
    pub(crate) fn atomics(&self) -> ucx_shim::ucx::Atomics {
        match self.ucx_atomics {
            Some(UcxAtomics::Device) => ucx_shim::ucx::Atomics::Device,
            Some(UcxAtomics::Cpu) | None => ucx_shim::ucx::Atomics::Cpu,
        }
    }

    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--ucx-tls", self.ucx_tls.is_some()),
            ("--ucx-device", self.ucx_device.is_some()),
            ("--ucx-gid-index", self.ucx_gid_index.is_some()),
            ("--ucx-atomics", self.ucx_atomics.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// The simulator's model.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Simulator (sim)")]
pub(crate) struct SimArgs {
    /// What operations take: simple without it
    #[arg(long = "sim-model", value_enum, value_name = "MODEL")]
    model_asked: Option<SimModelName>,

    /// Roundtrip between two owners in the simple model, 2000 ns without it; to its own part an
    /// owner takes a tenth of it
    #[arg(long = "sim-roundtrip-ns", value_name = "NS", value_parser = value_parser!(u64).range(1..))]
    roundtrip_ns_asked: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SimModelName {
    /// One roundtrip for everything
    Simple,
    /// The cluster of the paper, by the latencies measured there
    Oortwijn2015,
}

const DEFAULT_ROUNDTRIP_NS: u64 = 2000;

impl SimArgs {
    pub(crate) fn model(&self) -> sim::Model {
        match self.name() {
            SimModelName::Simple => sim::Model::simple(self.roundtrip_ns()),
            SimModelName::Oortwijn2015 => sim::Model::oortwijn2015(),
        }
    }

    /// The model in words.
    pub(crate) fn about(&self) -> String {
        match self.name() {
            SimModelName::Simple => format!("{} ns roundtrip between two", self.roundtrip_ns()),
            SimModelName::Oortwijn2015 => "latencies as on DAS-5 in the paper".to_owned(),
        }
    }

    fn name(&self) -> SimModelName {
        self.model_asked.unwrap_or(SimModelName::Simple)
    }

    fn roundtrip_ns(&self) -> u64 {
        self.roundtrip_ns_asked.unwrap_or(DEFAULT_ROUNDTRIP_NS)
    }

    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let roundtrip = self.roundtrip_ns_asked.map(|_| "--sim-roundtrip-ns");
        self.model_asked.map(|_| "--sim-model").or(roundtrip)
    }

    fn check(&self) -> Result<()> {
        if self.name() == SimModelName::Simple || self.roundtrip_ns_asked.is_none() {
            return Ok(());
        }
        Err(Failure::new(
            "--sim-roundtrip-ns is for --sim-model simple: leave out one of the two options",
        ))
    }
}

/// Where results go besides standard output.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct OutputArgs {
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the rows of the results as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Write the report as a page of Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// One C and one M.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ChunkArgs {
    /// C, buckets that one chunk READ brings: a multiple of 8
    #[arg(short = 'C', long, default_value_t = 32, value_name = "C", value_parser = chunk_buckets)]
    pub(crate) chunk_buckets: u32,

    /// M, chunks at most before an operation answers full
    #[arg(short = 'M', long, default_value_t = 32, value_name = "M", value_parser = max_chunks())]
    pub(crate) max_chunks: u32,
}

/// Several C and one M.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChunkListArgs {
    /// C, buckets that one chunk READ brings: multiples of 8, separated by commas
    #[arg(short = 'C', long, default_value = "8,16,32,64,128", value_delimiter = ',')]
    #[arg(value_name = "C,...", value_parser = chunk_buckets)]
    pub(crate) chunk_buckets: Vec<u32>,
}

/// The most buckets in a chunk: as many words as one READ of the simulator brings, 512 KiB.
const MOST_CHUNK_BUCKETS: u32 = 1 << 16;

/// C as the table takes it, so that a wrong one is told before anything starts.
fn chunk_buckets(text: &str) -> core::result::Result<u32, String> {
    match text.parse::<u32>() {
        Ok(c) if c.is_multiple_of(8) && (8..=MOST_CHUNK_BUCKETS).contains(&c) => Ok(c),
        _ => Err(format!("C is a multiple of 8 from 8 to {MOST_CHUNK_BUCKETS}")),
    }
}

/// M as the table takes it.
pub(crate) fn max_chunks() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=1 << 16)
}

/// Two are the least that show what a remote part costs.
const DEFAULT_RANKS: u32 = 2;

impl JobArgs {
    /// Settles the transport, how many ranks there are, and how large their table is if nothing
    /// else was asked, over verbs and elsewhere; a chunk of each C has to fit a rank's part of it.
    pub(crate) fn settle(
        &mut self,
        table_size: Size,
        over_verbs: Size,
        chunk_buckets: &[u32],
    ) -> Result<()> {
        let two_nodes = self.nodes.two_nodes.is_some();
        let transport = if two_nodes { TransportName::Verbs } else { TransportName::Shm };
        self.transport = self.transport_asked.unwrap_or(transport);
        self.check_options()?;
        let verbs = self.transport == TransportName::Verbs;
        self.table_size =
            self.table_size_asked.unwrap_or(if verbs { over_verbs } else { table_size });
        let launched = self.settle_ranks()?;
        self.check_table_size(launched, chunk_buckets)
    }

    /// Settles how many ranks there are; with what a launcher says that has started several.
    fn settle_ranks(&mut self) -> Result<Option<Launch>> {
        let two_nodes = self.nodes.two_nodes.is_some();
        self.meeting.check(two_nodes)?;
        if self.meeting.secret_file.is_some() && !two_nodes && self.meeting.rendezvous.is_none() {
            return Err(Failure::new(
                "--secret-file is for --rendezvous or --two-nodes: leave it out",
            ));
        }
        // A job of one is a job all the same to who asks for its launcher's service.
        let asked = self.meeting.server().is_some();
        let launched = Launch::from_env()?.filter(|launch| launch.size > 1 || asked);
        self.ranks = match (self.ranks_asked, launched) {
            (_, Some(launch)) if two_nodes => {
                return Err(Failure::new(format!(
                    "--two-nodes, but {} has started {} processes: start one on each node by hand, \
                     or give --rendezvous HOST:PORT instead",
                    launch.launcher, launch.size
                )));
            }
            (Some(asked), Some(launch)) if asked != launch.size => {
                return Err(Failure::new(format!(
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

    /// Gives each rank such a part where no size of the table was asked for.
    pub(crate) fn prefer_part(&mut self, part: Size) {
        if self.table_size_asked.is_none() {
            self.table_size = Size(part.0.saturating_mul(self.ranks.into()));
        }
    }

    /// Settles the same for `transports` side by side, one of them by an engine of its own in each
    /// rank; over several machines if `apart`.
    pub(crate) fn settle_columns(
        &mut self,
        transports: &[TransportName],
        apart: bool,
        table_size: Size,
        chunk_buckets: &[u32],
    ) -> Result<()> {
        if self.transport_asked.is_some() {
            return Err(Failure::new(
                "--transport is for the other commands: say what is to stand side by side with \
                 --columns",
            ));
        }
        let of =
            [(self.verbs.given(), TransportName::Verbs), (self.sim.given(), TransportName::Sim)];
        for (option, transport) in of {
            if let Some(option) = option.filter(|_| !transports.contains(&transport)) {
                return Err(Failure::new(format!(
                    "{option} is for the column {}: add it to --columns, or leave the option out",
                    transport.name()
                )));
            }
        }
        self.sim.check()?;
        self.transport = if apart { TransportName::Verbs } else { TransportName::Shm };
        self.table_size = self.table_size_asked.unwrap_or(table_size);
        let launched = self.settle_ranks()?;
        self.check_table_size(launched, chunk_buckets)
    }

    /// Options of another transport would be without effect.
    fn check_options(&self) -> Result<()> {
        let of_sim = self.sim.given().zip(Some("sim"));
        let of_verbs = self.verbs.given().zip(Some("verbs"));
        let of_ucx = self.ucx.given().zip(Some("ucx"));
        // UCX and MPI allocate windows themselves.
        let of_pages = self.place.pages_given().zip(Some("shm or verbs"));
        let strange = match self.transport {
            TransportName::Shm => of_verbs.or(of_ucx).or(of_sim),
            TransportName::Verbs => of_ucx.or(of_sim),
            TransportName::Ucx => of_verbs.or(of_pages).or(of_sim),
            #[cfg(feature = "mpi")]
            TransportName::Mpi => of_verbs.or(of_ucx).or(of_pages).or(of_sim),
            TransportName::Sim => {
                let of_machines = self.place.given().zip(Some("shm or verbs"));
                of_verbs.or(of_ucx).or(of_machines)
            }
        };
        let Some((option, transport)) = strange else { return self.sim.check() };
        Err(Failure::new(format!(
            "{option} is for --transport {transport}: add that, or leave it out"
        )))
    }

    /// Ranks that are surely on this machine, whose parts of the table its memory has to hold.
    /// Over verbs the others may be anywhere, unless this command starts them.
    fn ranks_here(&self, launched: Option<Launch>) -> u32 {
        let meet = self.nodes.two_nodes.is_some() || self.meeting.rendezvous.is_some();
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
        let least = Size(u64::from(widest) * 8 * u64::from(ranks));
        if size.0 < least.0 {
            return Err(Failure::new(format!(
                "--table-size {size} is too small: a chunk of C = {widest} in the part of each of \
                 {ranks} ranks takes {least} at least"
            )));
        }
        match memory_available() {
            Some(available) if self.bytes_here(size.0) > available => Err(Failure::new(format!(
                "--table-size {size} is too large: this machine has {} of memory available",
                Size::mib(available >> 20)
            ))),
            _ => Ok(()),
        }
    }

    /// What this machine's ranks have of `bytes` of all ranks together.
    pub(crate) fn bytes_here(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.ranks.max(1))).saturating_mul(self.ranks_here.into())
    }

    /// What the ranks of a command with several C have to have alike.
    pub(crate) fn parameters(&self, command: &str, chunks: &ChunkListArgs, most: u32) -> String {
        let chunk_buckets: Vec<String> =
            chunks.chunk_buckets.iter().map(ToString::to_string).collect();
        format!(
            "command={command} buckets_per_owner={} chunk_buckets={} max_chunks={most} seed={}",
            self.buckets_per_owner(),
            chunk_buckets.join(","),
            self.seed
        )
    }

    /// The table of this job, with the paper's own algorithm.
    pub(crate) fn config(&self, chunk_buckets: u32, max_chunks: u32) -> Config {
        Config { chunk_buckets, max_chunks, ..Config::paper(self.buckets_per_owner()) }
    }

    /// Buckets in each owner's part: the table's size over all owners, whole lines of 8.
    pub(crate) fn buckets_per_owner(&self) -> u64 {
        self.table_size.0 / 8 / u64::from(self.ranks.max(1)) / 8 * 8
    }
}
