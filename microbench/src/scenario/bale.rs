//! `bale`: runs an irregular kernel of the benchmark suite bale.

use clap::{Args, ValueEnum, value_parser};
use probeline_programs::Timed;
use probeline_programs::bale::{self, Access, Graph, Kernel, Outcome, Stars};
use probeline_report::results::format::{fixed, millions, text};
use probeline_report::results::row;

use super::{report_job, without_cpu_time};
use crate::cli::{JobArgs, name};
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::run_report::fields;
use crate::units::{rate, thousands};

#[derive(Args, Clone, Debug)]
pub(crate) struct BaleArgs {
    #[arg(value_enum)]
    kernel: KernelName,

    /// Send messages in blocks to the ranks that have the words, up to 1,024 of them, instead of one-sided operations
    /// on each
    #[arg(long)]
    aggregated: bool,

    /// Words, numbers, rows or vertices of a rank [default: 10000 words, 1000000 numbers, 500000 rows, 100000
    /// vertices]
    #[arg(long, value_name = "N")]
    size: Option<u64>,

    /// Adds or reads of a rank, of histogram and index-gather [default: 5000000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 32))]
    ops: Option<u64>,

    /// Elements of a row beside the diagonal one, of toposort; edges of a vertex to lower ones, of triangles;
    /// on average [default: 10]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(0..=1 << 20))]
    degree: Option<u64>,

    /// The graph of triangles is the product of stars: loops nowhere (0), at centres (1) or at last leaves (2),
    /// and the leaves of each star, such as 1:3x4x5
    #[arg(long, value_name = "STARS", conflicts_with_all = ["size", "degree"])]
    kron: Option<Stars>,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KernelName {
    /// Add 1 to random words
    Histogram,
    /// Read random words
    IndexGather,
    /// Permute numbers at random
    Randperm,
    /// Make a permuted triangular matrix triangular again
    Toposort,
    /// Count the triangles of a graph
    Triangles,
}

impl BaleArgs {
    /// Returns the kernel, and resolves its options.
    fn kernel(&mut self) -> Result<Kernel> {
        use KernelName::{Histogram, IndexGather, Randperm, Toposort, Triangles};
        let others: &[&str] = match self.kernel {
            Histogram | IndexGather => &["degree", "kron"],
            Randperm => &["ops", "degree", "kron"],
            Toposort => &["ops", "kron"],
            Triangles => &["ops"],
        };
        Options::refuse(others, &format!("is not for {}", name(self.kernel)))?;
        if let Some(stars) = &self.kron {
            return Ok(Kernel::Triangles(Graph::Stars(stars.clone())));
        }
        // The sizes of bale.
        let mut size = |default| *self.size.get_or_insert(default);
        let mut operations = || *self.ops.get_or_insert(5_000_000);
        let mut degree = || *self.degree.get_or_insert(10);
        Ok(match self.kernel {
            Histogram => Kernel::Histogram { words: size(10_000), updates: operations() },
            IndexGather => Kernel::IndexGather { words: size(10_000), reads: operations() },
            Randperm => Kernel::Permutation { len: size(1_000_000) },
            Toposort => Kernel::TopologicalSort { rows: size(500_000), degree: degree() },
            Triangles => {
                Kernel::Triangles(Graph::Random { vertices: size(100_000), degree: degree() })
            }
        })
    }

    fn row(&self, outcome: &Outcome) -> BaleRow {
        let seconds = outcome.ns as f64 / 1e9;
        BaleRow {
            kernel: name(self.kernel),
            access: if self.aggregated { "aggregated" } else { "direct" },
            ranks: self.job.ranks,
            operations: outcome.operations,
            rounds: outcome.rounds,
            triangles: outcome.triangles,
            verified: outcome.is_verified,
            seconds,
            operations_per_s: outcome.operations as f64 / seconds.max(1e-9),
        }
    }
}

row! {
    pub(crate) struct BaleRow {
        kernel: String => ("kernel", text),
        access: &'static str = "direct or aggregated" => ("access", text),
        ranks: u32 => ("ranks", text),
        operations: u64 = "adds, reads, throws, elements or edges, of all ranks" => ("operations", text, note()),
        rounds: u64 = "in each of which all ranks wait for each other" => ("rounds", text, note()),
        triangles: Option<u64> = "of the graph; null for other kernels" => ("triangles", text),
        verified: bool = "false for the triangles of a random graph" => ("verified", text, full()),
        seconds: f64 = "without making the input, and without verifying the result" => ("s", fixed::<3>, note()),
        operations_per_s: f64 = "`operations` / `seconds`" => ("M ops/s", millions),
    }
}

pub(crate) fn run(mut args: BaleArgs) -> Result<()> {
    let kernel = args.kernel()?;
    args.job.resolve_without_table()?;
    let access = if args.aggregated { Access::Aggregated } else { Access::Direct };
    let checked = kernel.check(access, args.job.ranks);
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    let sizes = kernel.sizes(access, args.job.ranks);
    args.job.set_window_bytes(&sizes)?;
    let reported = report_job("bale", &args.job, sizes, |engine, exchange| {
        let engine = engine.current.timed();
        let clock = |engine: &&mut dyn Timed| engine.now_ns();
        Ok(bale::run(&kernel, access, args.job.seed, engine, clock, exchange)?)
    })?;
    let Some((mut report, files, outcome)) = reported else { return Ok(()) };
    let row = args.row(&outcome);
    report.parameters(fields!(args; size, ops, degree));
    report.parameter("kron", args.kron.as_ref().map(ToString::to_string));
    let BaleRow { kernel, operations, seconds, operations_per_s, .. } = &row;
    let triangles = row.triangles.map(|count| format!("{} triangles, ", thousands(count)));
    report.summary = vec![format!(
        "bale {kernel}: {}{} operations in {seconds:.3} s, {}; the result was {}verified",
        triangles.unwrap_or_default(),
        thousands(*operations),
        rate(*operations_per_s),
        if row.verified { "" } else { "not " },
    )];
    report.note(without_cpu_time(&args.job));
    report.publish(files, &[row])
}
