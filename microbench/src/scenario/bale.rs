//! `bale`: runs an irregular kernel of the benchmark suite bale.

use clap::{Args, ValueEnum, value_parser};
use probeline::transport::{Exchange, Sizes};
use probeline_programs::bale::{self, Access, Graph, Kernel, Outcome, Stars};
use probeline_results::format::{fixed, millions, text};
use probeline_results::{Row, row};

use super::{report_job, without_cpu_time};
use crate::cli::JobArgs;
use crate::failure::{Failure, Result};
use crate::job::Scenario;
use crate::timed::Timed;
use crate::units::{rate, thousands};

#[derive(Args, Clone, Debug)]
pub(crate) struct BaleArgs {
    #[arg(value_enum)]
    kernel: KernelName,

    /// Send messages in blocks to the ranks that have the words, up to 64 of them, instead of one-sided operations
    /// on each
    #[arg(long)]
    aggregated: bool,

    /// Words, numbers, rows or vertices of a rank [default: 10000 words, 1000000 numbers, 500000 rows, 100000
    /// vertices]
    #[arg(long, value_name = "N")]
    size: Option<u64>,

    /// Adds or reads of a rank, of histogram and index-gather [default: 5000000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 32))]
    operations: Option<u64>,

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
        let given = [
            ("--operations", self.operations.is_some(), &[Histogram, IndexGather][..]),
            ("--degree", self.degree.is_some(), &[Toposort, Triangles]),
            ("--kron", self.kron.is_some(), &[Triangles]),
        ];
        for (option, is_given, kernels) in given {
            if is_given && !kernels.contains(&self.kernel) {
                return Err(Failure::usage(format!(
                    "{option} is not for {}: leave it out",
                    self.kernel_name()
                )));
            }
        }
        if let Some(stars) = &self.kron {
            return Ok(Kernel::Triangles(Graph::Stars(stars.clone())));
        }
        // The sizes of bale.
        let mut size = |default| *self.size.get_or_insert(default);
        let mut operations = || *self.operations.get_or_insert(5_000_000);
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

    fn kernel_name(&self) -> String {
        let name = self.kernel.to_possible_value();
        name.map_or_else(String::new, |name| name.get_name().to_owned())
    }
}

row! {
    pub(crate) struct BaleRow {
        kernel: String => ("kernel", text),
        access: &'static str => ("access", text),
        ranks: u32 => ("ranks", text),
        operations: u64 => ("operations", text, note("adds, reads, throws, elements or edges, of all ranks")),
        rounds: u64 => ("rounds", text, note("in each of which all ranks wait for each other")),
        triangles: Option<u64> => ("triangles", text),
        verified: bool => ("verified", text, full()),
        seconds: f64 => ("s", fixed::<3>, note("without making the input, and without verifying the result")),
        operations_per_s: f64 => ("M ops/s", millions),
    }
}

impl Row for BaleRow {}

struct Bench {
    args: BaleArgs,
    kernel: Kernel,
}

pub(crate) fn run(mut args: BaleArgs) -> Result<()> {
    let kernel = args.kernel()?;
    args.job.settle_without_table()?;
    let mut bench = Bench { args, kernel };
    let checked = bench.kernel.check(bench.access(), bench.args.job.ranks);
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    bench.args.job.take_windows(&bench.sizes());
    let Some((mut report, files, row)) = report_job("bale", &bench.args.job, &bench)? else {
        return Ok(());
    };
    let BaleArgs { size, operations, degree, .. } = bench.args;
    for (name, value) in [("size", size), ("operations", operations), ("degree", degree)] {
        report.parameter(name, value);
    }
    report.parameter("kron", bench.args.kron.as_ref().map(ToString::to_string));
    let BaleRow { kernel, operations, seconds, operations_per_s, .. } = &row;
    let triangles = row.triangles.map(|count| format!("{} triangles, ", thousands(count)));
    report.summary = vec![format!(
        "bale {kernel}: {}{} operations in {seconds:.3} s, {}; the result was {}verified",
        triangles.unwrap_or_default(),
        thousands(*operations),
        rate(*operations_per_s),
        if row.verified { "" } else { "not " },
    )];
    report.notes = BaleRow::notes();
    report.notes.extend(without_cpu_time(&bench.args.job));
    report.rows = vec![row];
    report.publish(files)
}

impl Bench {
    fn access(&self) -> Access {
        if self.args.aggregated { Access::Aggregated } else { Access::Direct }
    }
}

impl Scenario for Bench {
    type Output = BaleRow;

    fn sizes(&self) -> Sizes {
        self.kernel.sizes(self.access(), self.args.job.ranks)
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<BaleRow> {
        let (engine, access): (&mut dyn Timed, _) = (engine, self.access());
        let seed = self.args.job.seed;
        let clock = |engine: &&mut dyn Timed| engine.now_ns();
        let outcome = bale::run(&self.kernel, access, seed, engine, clock, exchange)?;
        let Outcome { operations, rounds, triangles, is_verified, ns } = outcome;
        let seconds = ns as f64 / 1e9;
        Ok(BaleRow {
            kernel: self.args.kernel_name(),
            access: if self.args.aggregated { "aggregated" } else { "direct" },
            ranks: exchange.owners(),
            operations,
            rounds,
            triangles,
            verified: is_verified,
            seconds,
            operations_per_s: operations as f64 / seconds.max(1e-9),
        })
    }
}
