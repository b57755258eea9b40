//! `dsm`: runs a program on shared memory by pages, beside the same program on the memory of one rank.

use clap::{Args, ValueEnum};
use probeline::dsm::{Distribution, Stats};
use probeline::transport::{Exchange, ExchangeError};
use probeline_programs::dsm::{
    self, Blocks, Buffers, Class, Costs, Options, Program, Protocol, Run,
};
use probeline_report::results::format::{fixed, text};
use probeline_report::results::row;

use super::{report_job, without_cpu_time};
use crate::cli::{JobArgs, TransportName, name, one_of};
use crate::failure::{Failure, Result};
use crate::job::Needs;
use crate::options;
use crate::run_report::fields;
use crate::size::Size;
use crate::units::time;

const CLASSES: [(&str, &str, Class); 4] =
    [("s", "", Class::S), ("w", "", Class::W), ("a", "", Class::A), ("p", "", Class::P)];
/// Bytes of a word of a page.
const WORD_BYTES: u64 = 8;

#[derive(Args, Clone, Debug)]
pub(crate) struct DsmArgs {
    /// is sorts integers, lu factorises a matrix, ocean solves Poisson's equation by multigrid, barnes moves bodies that
    /// attract each other
    #[arg(value_enum)]
    program: ProgramName,

    /// Keys of is, as NPB names them: s 2^16, w 2^20, a 2^23; p 2^24 of a's range [default: w]
    #[arg(long, value_name = "CLASS", value_parser = one_of(&CLASSES))]
    class: Option<Class>,

    /// Rows of the matrix of lu, a multiple of 16, or of the grid of ocean with its border, 2 more than a power
    /// of two [default: 512 for lu, 258 for ocean]
    #[arg(long, value_name = "N")]
    side: Option<usize>,

    /// Bodies of barnes [default: 4096]
    #[arg(long, value_name = "N")]
    bodies: Option<usize>,

    /// Keep the matrix of lu in rows, so that a page has parts of many blocks, instead of each block in
    /// consecutive words
    #[arg(long)]
    in_rows: bool,

    /// Bytes of a page, a power of two from 64 on [default: 4KiB; for lu 2KiB, a block]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<Size>,

    /// How ranks share pages. With orig and pipe every second rank is a home, and does not compute
    #[arg(long, value_enum, default_value_t)]
    protocol: ProtocolName,

    /// Messages of diffs from a rank that homes have not answered, of orig and pipe [default: 2]
    #[arg(long = "diff-depth", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    diff_depth: Option<u32>,

    /// Bytes of such a message of pipe; orig has the same memory for smaller ones [default: 32KiB]
    #[arg(long, value_name = "SIZE")]
    diff_buffer: Option<Size>,

    /// Read pages from homes instead of asking homes for them, with orig and pipe
    #[arg(long)]
    read_pages: bool,

    /// Nanoseconds until the thread of a home looks at a message, of orig and pipe over sim [default: 0]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    handler_ns: Option<u64>,

    /// Picoseconds of a floating-point operation, or of one counted as such, over sim [default: 0]
    #[arg(long, value_name = "PS", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    flop_ps: Option<u64>,

    /// Picoseconds of each byte that a CPU copies or compares, over sim [default: 0]
    #[arg(long, value_name = "PS", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    byte_ps: Option<u64>,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProgramName {
    /// Integer sort of the NAS parallel benchmarks, with its own verification
    Is,
    /// LU factorisation in blocks of 16 x 16, as SPLASH-2 divides it
    Lu,
    /// Poisson's equation by red-black multigrid, as in SPLASH-2's ocean
    Ocean,
    /// Bodies that attract each other, by an octree, as in SPLASH-2's barnes
    Barnes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ProtocolName {
    /// READs, WRITEs and atomics; no CPU of a home takes part
    #[default]
    OneSided,
    /// A message to the home for each changed page, whose thread applies it
    Orig,
    /// Messages of the changes of several pages
    Pipe,
}

impl DsmArgs {
    /// Returns whether ranks are threads of the simulator, which only an option says.
    fn is_over_sim(&self) -> bool {
        self.job.transport_asked == Some(TransportName::Sim)
    }

    /// Returns how ranks share pages, and resolves the options of that.
    fn protocol(&mut self) -> Result<Protocol> {
        if !self.is_over_sim() {
            let over_sim = ["handler-ns", "flop-ps", "byte-ps"];
            options::Options::refuse(&over_sim, "is for --transport sim")?;
        }
        if self.protocol == ProtocolName::OneSided {
            let of_homes = ["diff-depth", "diff-buffer", "read-pages", "handler-ns"];
            options::Options::refuse(&of_homes, "is for --protocol orig or pipe")?;
            return Ok(Protocol::OneSided);
        }
        let bytes = self.diff_buffer.get_or_insert(Size(32 << 10)).0;
        let fits = |bytes: &u32| (512..=512 << 10).contains(bytes) && bytes.is_multiple_of(64);
        let bytes = u32::try_from(bytes).ok().filter(fits);
        let bytes = bytes.ok_or_else(|| {
            Failure::usage("--diff-buffer has 512 bytes to 512 KiB, a multiple of 64")
        })?;
        let packs = self.protocol == ProtocolName::Pipe;
        let depth = *self.diff_depth.get_or_insert(2);
        Ok(Protocol::Homes(Buffers {
            depth,
            bytes,
            packs,
            reads_pages: self.read_pages,
            distribution: Distribution::Block,
        }))
    }

    /// Returns the parameters, and resolves the options.
    fn options(&mut self) -> Result<Options> {
        use ProgramName::{Barnes, Is, Lu, Ocean};
        let protocol = self.protocol()?;
        let others: &[&str] = match self.program {
            Is => &["side", "in-rows", "bodies"],
            Lu => &["class", "bodies"],
            Ocean => &["class", "in-rows", "bodies"],
            Barnes => &["class", "side", "in-rows"],
        };
        options::Options::refuse(others, &format!("is not for {}", name(self.program)))?;
        let program = match self.program {
            Is => Program::Sort(*self.class.get_or_insert(Class::W)),
            Lu => {
                let blocks = if self.in_rows { Blocks::Rows } else { Blocks::Contiguous };
                Program::Lu { side: *self.side.get_or_insert(512), blocks }
            }
            Ocean => Program::Ocean { side: *self.side.get_or_insert(258) },
            Barnes => Program::Barnes { bodies: *self.bodies.get_or_insert(4096) },
        };
        let default = Size(if self.program == Lu { 2 << 10 } else { 4 << 10 });
        let page_bytes = self.page_size.get_or_insert(default).0;
        // No number of words is refused.
        let page_words =
            if page_bytes.is_multiple_of(WORD_BYTES) { page_bytes / WORD_BYTES } else { 0 };
        let page_words = u32::try_from(page_words).unwrap_or(u32::MAX);
        let costs = Costs {
            flop_ps: self.flop_ps.unwrap_or(0),
            byte_ps: self.byte_ps.unwrap_or(0),
            handler_ns: self.handler_ns.unwrap_or(0),
        };
        // The transport is not resolved yet.
        let options = Options { program, page_words, protocol, in_windows: false, costs };
        options.check().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(options)
    }
}

row! {
    pub(crate) struct DsmRow {
        program: String = "is, lu, ocean or barnes" => ("program", text),
        protocol: String = "one-sided, orig or pipe" => ("protocol", text, full()),
        ranks: u32 = "that compute: with orig and pipe half of the job's" => ("ranks", text),
        seconds: f64 = "from the first barrier to the last" => ("s", fixed::<6>),
        sequential_seconds: f64 = "on memory of its own, without pages" => ("one rank, s", fixed::<6>, note()),
        speedup: f64 = "`sequential_seconds` / `seconds`" => ("speedup", fixed::<2>),
        intervals: f64 = "each ends with a release or a barrier; a mean of the ranks, as all counts"
            => ("intervals", fixed::<0>, note()),
        fetches: f64 = "pages read" => ("fetches", fixed::<0>, note()),
        diffs: f64 = "changed pages sent" => ("diffs", fixed::<0>, note()),
        diff_bytes: f64 = "of a changed page, the words that were sent" => ("diff bytes", fixed::<0>, note()),
        operations: f64 = "READs, WRITEs and fetch-and-adds of pages, also by the CPU itself"
            => ("operations", fixed::<0>, full()),
        messages: f64 = "operations, locks, one to each other rank at a barrier; of orig and pipe with answers"
            => ("messages", fixed::<0>, note()),
        acquires: f64 = "locks acquired" => ("acquires", fixed::<0>, full()),
        lock_reads: f64 = "READs of a lock that another rank held" => ("lock reads", fixed::<0>, full()),
        barriers: f64 => ("barriers", fixed::<0>, full()),
        notices: f64 = "received of changed pages" => ("notices", fixed::<0>, full()),
        overflows: f64 = "times that all copies were dropped" => ("overflows", fixed::<0>, full()),
        waits: f64 = "times that a rank waited for pages, changes, locks or messages" => ("waits", fixed::<0>, full()),
    }
}

pub(crate) fn run(mut args: DsmArgs) -> Result<()> {
    let mut options = args.options()?;
    args.job.resolve_without_table()?;
    args.job.refuse_seed()?;
    options.in_windows = args.job.transport == TransportName::Shm;
    if options.protocol != Protocol::OneSided && !args.job.ranks.is_multiple_of(2) {
        return Err(Failure::usage("every second rank is a home: give an even number of ranks"));
    }
    let sizes = options.sizes(args.job.ranks);
    args.job.set_window_bytes(&sizes)?;
    let needs = Needs { orders_atomics: true, ..sizes.into() };
    let reported = report_job("dsm", &args.job, needs, |engine, exchange| {
        let run = dsm::run(&options, engine.current.timed(), exchange)?;
        DsmRow::new(&args, &run, exchange)
    })?;
    let Some((mut report, files, row)) = reported else { return Ok(()) };
    report.parameters(fields!(args; side, bodies, diff_depth, handler_ns, flop_ps, byte_ps));
    let has_homes = args.protocol != ProtocolName::OneSided;
    report.parameter("read_pages", has_homes.then_some(args.read_pages));
    report.parameter("class", args.class.map(|class| format!("{class:?}")));
    report.parameter("in_rows", (args.program == ProgramName::Lu).then_some(args.in_rows));
    report.parameter("page_bytes", args.page_size.map(|size| size.0));
    report.parameter("diff_buffer_bytes", args.diff_buffer.map(|size| size.0));
    let DsmRow { program, protocol, seconds, speedup, .. } = &row;
    report.summary = vec![format!(
        "dsm {program}, {protocol}: {}, {speedup:.2} times as fast as on one rank; the result was verified",
        time(seconds * 1e9)
    )];
    if args.flop_ps.is_none() {
        report.note(without_cpu_time(&args.job));
    }
    report.publish(files, &[row])
}

impl DsmRow {
    /// Creates the row of a run, with the means of all ranks. All of them call it.
    fn new(args: &DsmArgs, run: &Run, exchange: &mut dyn Exchange) -> Result<Self> {
        let Run { ns, stats, messages, sequential_ns } = run;
        let (seconds, sequential_seconds) = (*ns as f64 / 1e9, *sequential_ns as f64 / 1e9);
        let ranks = args.job.ranks / if args.protocol == ProtocolName::OneSided { 1 } else { 2 };
        let mut mean = |mine: u64| -> core::result::Result<f64, ExchangeError> {
            Ok(exchange.sum(mine)? as f64 / f64::from(ranks))
        };
        let Stats { fetches, diffs, writes, written_words, adds, .. } = *stats;
        let diffs = mean(diffs)?;
        let diff_bytes = mean((written_words + adds) * WORD_BYTES)? / diffs.max(1.0);
        Ok(Self {
            program: name(args.program),
            protocol: name(args.protocol),
            ranks,
            seconds,
            sequential_seconds,
            speedup: sequential_seconds / seconds.max(1e-9),
            intervals: mean(stats.acquires + stats.barriers)?,
            fetches: mean(fetches)?,
            diffs,
            diff_bytes,
            operations: mean(fetches + writes + adds)?,
            messages: mean(*messages)?,
            acquires: mean(stats.acquires)?,
            lock_reads: mean(stats.lock_reads)?,
            barriers: mean(stats.barriers)?,
            notices: mean(stats.notices)?,
            overflows: mean(stats.overflows)?,
            waits: mean(stats.waits)?,
        })
    }
}
