//! `contigs`: finds the unitigs of DNA sequences in a map that all ranks share.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use probeline::transport::Exchange;
use probeline_programs::Timed;
use probeline_programs::contigs::{self, Options, Totals};
use probeline_programs::kmers::Kmer;
use probeline_programs::sequences::Inputs;
use probeline_report::results::format::{fixed, text};
use probeline_report::results::row;

use super::kmers::{SequenceArgs, TABLE_SIZE_HELP, is_shared, progress};
use super::report_job;
use crate::cli::{JobArgs, with_several_engines};
use crate::failure::{Failure, Result};
use crate::job::{Needs, Open, Scenario};
use crate::units::{counted, thousands};

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
#[command(mut_arg("transport_asked", |option| option.value_parser(with_several_engines())))]
#[command(mut_arg("k", |option| option.default_value("31").help("Bases of a k-mer, odd, 1 to 63")))]
pub(crate) struct ContigsArgs {
    #[command(flatten)]
    sequences: SequenceArgs,

    /// Least count of the k-mers in the graph
    #[arg(long, value_name = "N", default_value_t = 2)]
    min_count: u64,

    /// Write the unitigs as FASTA, in no order unless --sorted is given; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the unitigs in the order of their bases, which rank 0 sorts in its memory
    #[arg(long, requires = "out")]
    sorted: bool,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

/// The files, which every rank examines itself, and the parameters.
struct Search {
    args: ContigsArgs,
    inputs: Inputs,
    options: Options,
}

row! {
    pub(crate) struct ContigsRow {
        k: u32 = "bases of a k-mer" => ("k", text),
        ranks: u32 => ("ranks", text),
        kmers: u64 = "different ones with at least --min-count" => ("k-mers", text, note()),
        unitigs: u64 => ("unitigs", text),
        cycles: u64 = "unitigs whose end is followed by their start" => ("cycles", text, note()),
        bases: u64 = "of all unitigs" => ("bases", text),
        longest: u64 = "bases of the longest unitig" => ("longest", text, note()),
        n50: u64 = "half of all bases are in unitigs of at least this many" => ("N50", text, note()),
        seconds: f64 = "reading, counting and walking, without writing a file" => ("s", fixed::<2>, note()),
    }
}

pub(crate) fn run(mut args: ContigsArgs) -> Result<()> {
    let inputs = args.sequences.resolve(&mut args.job)?;
    let kmers = args.sequences.options(true, &args.job)?;
    let options = Options { kmers, min_count: args.min_count };
    let checked = match args.sequences.is_narrow() {
        true => options.check::<u64>(),
        false => options.check::<u128>(),
    };
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    args.sequences.check_outputs(&[("--out", &args.out)], &[], &args.job)?;
    let search = Search { args, inputs, options };
    let Some((mut report, files, row)) = report_job("contigs", &search.args.job, &search)? else {
        return Ok(());
    };
    report.parameter("min_count", search.args.min_count);
    report.parameter("max_table_bytes", search.options.kmers.max_table_bytes);
    report.parameter("filter_bytes", search.options.kmers.filter_bytes);
    let ContigsRow { k, kmers, unitigs, n50, seconds, .. } = row;
    report.summary = vec![format!(
        "contigs: {} of {} {k}-mers, N50 {}, in {seconds:.2} s",
        counted(unitigs, "unitig"),
        thousands(kmers),
        thousands(n50),
    )];
    if row.kmers == 0 {
        report.note(["k-mers: none occurs often enough; give a lower --min-count"]);
    }
    report.rows = vec![row];
    report.publish(files)
}

impl Search {
    fn find<K: Kmer, T: Timed>(
        &self,
        engine: &mut dyn Timed,
        open: &Open<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<ContigsRow> {
        let start_ns = engine.now_ns();
        let ranks = exchange.owners();
        let advance = progress(&self.options.kmers, &self.inputs, exchange);
        let lanes = (!is_shared(&self.args.job)).then_some(&mut *engine);
        let opened: &mut Option<T> = &mut None;
        let found = contigs::run::<K, _, &mut dyn Timed, Failure>(
            &self.options,
            &self.inputs,
            lanes,
            move |sizes, exchange| {
                // Moved out of the closure, which is called once.
                let opened = opened;
                Ok(opened.insert(open(sizes, exchange)?))
            },
            exchange,
            advance,
        )?;
        let seconds = (engine.now_ns() - start_ns) as f64 / 1e9;
        if let Some(path) = &self.args.out {
            found.write(path, self.args.sorted, exchange)?;
        }
        let Totals { kmers, unitigs, cycles, bases, longest, n50 } = found.totals;
        let k = self.options.kmers.k;
        Ok(ContigsRow { k, ranks, kmers, unitigs, cycles, bases, longest, n50, seconds })
    }
}

impl Scenario for Search {
    type Output = ContigsRow;

    fn needs(&self) -> Needs {
        self.args.sequences.needs(&self.inputs, &[&self.args.out], &self.args.job)
    }

    fn run<T: Timed>(&self, engine: &mut T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        self.run_on(engine, None, exchange)
    }

    fn run_on<T: Timed>(
        &self,
        engine: &mut T,
        open: Option<&Open<'_, T>>,
        exchange: &mut dyn Exchange,
    ) -> Result<Self::Output> {
        let open = open.ok_or_else(|| Failure::new("this transport has one engine in a job"))?;
        match self.args.sequences.is_narrow() {
            true => self.find::<u64, T>(engine, open, exchange),
            false => self.find::<u128, T>(engine, open, exchange),
        }
    }
}
