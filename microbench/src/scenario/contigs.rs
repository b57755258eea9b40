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
use crate::engines::Engine;
use crate::failure::{Failure, Result};
use crate::job::JobEngine;
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

row! {
    pub(crate) struct ContigsRow {
        k: u32 = "bases of a k-mer" => ("k", text),
        ranks: u32 => ("ranks", text),
        kmers: u64 = "different ones with at least --min-count" => ("k-mers", text, note()),
        unitigs: u64 => ("unitigs", text),
        cycles: u64 = "unitigs whose end is followed by their start" => ("cycles", text, note()),
        bases: u64 = "of all unitigs" => ("bases", text),
        max_unitig_bases: u64 = "bases of the longest unitig" => ("max", text, note()),
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
    let needs = args.sequences.needs(&inputs, &[&args.out], &args.job);
    let reported = report_job("contigs", &args.job, needs, |engine, exchange| {
        match args.sequences.is_narrow() {
            true => args.find::<u64>(&inputs, &options, engine, exchange),
            false => args.find::<u128>(&inputs, &options, engine, exchange),
        }
    })?;
    let Some((mut report, files, row)) = reported else { return Ok(()) };
    report.parameter("min_count", args.min_count);
    report.parameter("max_table_bytes", options.kmers.max_table_bytes);
    report.parameter("filter_bytes", options.kmers.filter_bytes);
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
    report.publish(files, &[row])
}

impl ContigsArgs {
    fn find<K: Kmer>(
        &self,
        inputs: &Inputs,
        options: &Options,
        engine: &mut JobEngine<'_>,
        exchange: &mut dyn Exchange,
    ) -> Result<ContigsRow> {
        let JobEngine { current, open } = engine;
        let engine = current.timed();
        let start_ns = engine.now_ns();
        let ranks = exchange.owners();
        let advance = progress(&options.kmers, inputs, exchange);
        let lanes = (!is_shared(&self.job)).then_some(&mut *engine);
        let opened: &mut Option<Engine> = &mut None;
        let found = contigs::run::<K, _, &mut dyn Timed, Failure>(
            options,
            inputs,
            lanes,
            move |sizes, exchange| {
                // Moved out of the closure, which is called once.
                let opened = opened;
                Ok(opened.insert(open(sizes, exchange)?).timed())
            },
            exchange,
            advance,
        )?;
        let seconds = (engine.now_ns() - start_ns) as f64 / 1e9;
        if let Some(path) = &self.out {
            found.write(path, self.sorted, exchange)?;
        }
        let Totals { kmers, unitigs, cycles, bases, max_unitig_bases, n50 } = found.totals;
        let k = options.kmers.k;
        Ok(ContigsRow { k, ranks, kmers, unitigs, cycles, bases, max_unitig_bases, n50, seconds })
    }
}
