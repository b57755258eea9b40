//! `kmers`: counts the k-mers of DNA sequences in counters that all ranks share.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint, value_parser};
use probeline::pin::MemoryPolicy;
use probeline::transport::{Exchange, Owner, Sizes};
use probeline_programs::kmers::{self, Kmer, Options};
use probeline_programs::sequences::Inputs;
use probeline_programs::{STANDARD, Timed, check_output};
use probeline_report::results::format::{fixed, text};
use probeline_report::results::row;

use super::report_job;
use crate::agreement::{Digest, Input};
use crate::cli::{JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::job::Needs;
use crate::machine::memory_available;
use crate::output_file::{OutputFile, check_distinct};
use crate::progress::Progress;
use crate::size::Size;
use crate::terminal;
use crate::units::{rate, thousands};

/// Bounds of the counters' first size: 12 bytes a word for 8 bytes of the files, which have about one new k-mer.
const MIN_TABLE: u64 = 16 << 20;
const MAX_TABLE: u64 = 4 << 30;
/// The engine of a job whose ranks send nothing.
const IDLE: Sizes = Sizes { window_words: 8, slots: 1, slot_words: 8, depth: 1 };
pub(super) const TABLE_SIZE_HELP: &str = "\
Memory for the counters at first, all ranks together; they move to four times as much when seven \
eighths are in use, up to --max-table-size [default: one and a half times the size of the files, from \
k = 32 on three times, 16MiB to 4GiB]";

/// The sequences, and the memory of their k-mers.
#[derive(Args, Clone, Debug)]
pub(crate) struct SequenceArgs {
    /// FASTA or FASTQ files, or lines of k-mers, also compressed by gzip; - is standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Bases of a k-mer, 1 to 63
    #[arg(short, long = "kmer-size", value_name = "K", default_value_t = 21)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(<u128 as Kmer>::MAX_K)))]
    k: u32,

    /// Memory up to which the counters grow, all ranks together, those that they move from included
    /// [default: three quarters of the memory available]
    #[arg(long, value_name = "SIZE")]
    max_table_size: Option<Size>,

    /// Memory of a filter, all ranks together: files are read twice, and k-mers that occur once take no
    /// counter; a byte for each different k-mer keeps most of them out
    #[arg(long, value_name = "SIZE")]
    filter: Option<Size>,
}

impl SequenceArgs {
    /// Examines the files, and resolves the options of the job.
    pub(crate) fn resolve(&self, job: &mut JobArgs) -> Result<Inputs> {
        let inputs = Inputs::open(&self.files)?;
        let words = if self.is_narrow() { 1 } else { 2 };
        let size = (inputs.bytes() / 2 * 3 * words).clamp(MIN_TABLE, MAX_TABLE);
        let size = Size(size.next_multiple_of(1 << 20));
        job.resolve(size, size, &[8])?;
        job.refuse_seed()?;
        Ok(inputs)
    }

    pub(crate) fn options(&self, is_canonical: bool, job: &JobArgs) -> Result<Options> {
        let here = job.bytes_here(job.ranks.into()).max(1);
        let available = memory_available().map_or(u64::MAX, |bytes| bytes / 4 * 3);
        let max = (available / here).saturating_mul(job.ranks.into());
        let max_table_bytes = self.max_table_size.map_or(max, |size| size.0);
        if max_table_bytes < job.table_size.0 {
            let (max, first) = (Size(max_table_bytes), job.table_size);
            return Err(Failure::usage(format!(
                "--max-table-size {max} is less than the initial size, {first}: give a smaller --table-size too"
            )));
        }
        Ok(Options {
            k: self.k,
            is_canonical,
            table_bytes: job.table_size.0,
            max_table_bytes,
            filter_bytes: self.filter.map_or(0, |size| size.0),
            // The thread that clears a part, which is pinned, determines its node.
            memory: MemoryPolicy { node: None, huge: job.place.huge_pages },
        })
    }

    /// Checks that the files to write can be written, and that none is also an input or another output:
    /// all ranks write `written`, rank 0 writes `others` and the results.
    pub(crate) fn check_outputs(
        &self,
        written: &[(&str, &Option<PathBuf>)],
        others: &[(&str, &Option<PathBuf>)],
        job: &JobArgs,
    ) -> Result<()> {
        let all = written.iter().chain(others).copied().chain(job.output.files());
        check_distinct(&self.files, all)?;
        for path in written.iter().filter_map(|(_, path)| path.as_deref()) {
            check_output(path)?;
            if path == Path::new(STANDARD) {
                terminal::leave_stdout();
            }
        }
        Ok(())
    }

    /// Returns whether k-mers have one word.
    pub(crate) fn is_narrow(&self) -> bool {
        self.k <= <u64 as Kmer>::MAX_K
    }

    /// Returns the sizes of the engine over which ranks send k-mers, and the inputs on which ranks agree:
    /// the files that they read, and those that they write together.
    pub(crate) fn needs(
        &self,
        inputs: &Inputs,
        written: &[&Option<PathBuf>],
        job: &JobArgs,
    ) -> Needs {
        let sizes = match (is_shared(job), self.is_narrow()) {
            (true, _) => IDLE,
            (_, true) => Options::sizes::<u64>(job.ranks),
            (_, false) => Options::sizes::<u128>(job.ranks),
        };
        let files = Input {
            name: "files",
            value: Digest::from_list("files", inputs.lengths()).to_string(),
            advice: "and with the same files: each rank reads a part, and their lengths differ"
                .to_owned(),
        };
        let written = Input {
            name: "written",
            value: Digest::of(&format!("{written:?}")).to_string(),
            advice: "and with the same files to write: each rank writes a part".to_owned(),
        };
        Needs { inputs: vec![files, written], ..sizes.into() }
    }
}

/// Returns whether all ranks add to the same counters.
pub(crate) fn is_shared(job: &JobArgs) -> bool {
    job.transport == TransportName::Shm
}

/// Returns the progress of reading files, and what advances it by the bytes that this rank has read.
pub(crate) fn progress(
    options: &Options,
    inputs: &Inputs,
    exchange: &dyn Exchange,
) -> impl FnMut(u64) + use<> {
    let (all, ranks) = (options.bytes_to_read(inputs), u64::from(exchange.owners()));
    let mut progress = Progress::new(all, exchange.me() == Owner(0));
    // The others have read as much.
    move |bytes| progress.set((bytes * ranks).min(all), "of the files read")
}

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| option.help(TABLE_SIZE_HELP)))]
#[command(group = ArgGroup::new("written").args(["out", "out_binary"]).multiple(true))]
pub(crate) struct KmersArgs {
    #[command(flatten)]
    sequences: SequenceArgs,

    /// Count a k-mer and its reverse complement as two
    #[arg(long)]
    no_canonical: bool,

    /// Write the k-mers and their counts as lines of text, in no order; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Write the k-mers and their counts as numbers of 8 bytes, in no order
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out_binary: Option<PathBuf>,

    /// Least count of the k-mers in --out and --out-binary
    #[arg(long, value_name = "N", default_value_t = 1, requires = "written")]
    min_count: u64,

    /// Largest count of the k-mers in --out and --out-binary
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    #[arg(requires = "written")]
    max_count: u64,

    /// Write how many k-mers have each count, a line for each; the last one, 10000, is of larger ones too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    histogram: Option<PathBuf>,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

row! {
    pub(crate) struct KmersRow {
        k: u32 = "bases of a k-mer" => ("k", text),
        ranks: u32 => ("ranks", text),
        kmers: u64 = "in the files, with repetitions" => ("k-mers", text, note()),
        distinct: u64 = "different k-mers; with a filter those that occur twice or more" => ("distinct", text),
        once: u64 = "k-mers with a count of 1" => ("once", text, note()),
        seconds: f64 = "reading and counting, without writing files" => ("s", fixed::<2>, note()),
        kmers_per_s: f64 = "`kmers` / `seconds`",
        table_bytes: u64 = "of the counters in the end",
        growths: u64 = "moves of the counters to more memory" => ("growths", text, full().note()),
    }
}

pub(crate) fn run(mut args: KmersArgs) -> Result<()> {
    let inputs = args.sequences.resolve(&mut args.job)?;
    let options = args.sequences.options(!args.no_canonical, &args.job)?;
    let KmersArgs { min_count, max_count, .. } = args;
    if min_count > max_count {
        let text = format!("--min-count {min_count} is larger than --max-count {max_count}");
        return Err(Failure::usage(text));
    }
    let written = [("--out", &args.out), ("--out-binary", &args.out_binary)];
    let others = [("--histogram", &args.histogram)];
    args.sequences.check_outputs(&written, &others, &args.job)?;
    let needs = args.sequences.needs(&inputs, &[&args.out, &args.out_binary], &args.job);
    let mut histogram =
        args.histogram.as_ref().map(|path| OutputFile::of(path, args.job.reports())).transpose()?;
    let reported = report_job("kmers", &args.job, needs, |engine, exchange| {
        let engine = engine.current.timed();
        match args.sequences.is_narrow() {
            true => args.count::<u64>(&inputs, &options, engine, exchange),
            false => args.count::<u128>(&inputs, &options, engine, exchange),
        }
    })?;
    let Some((mut report, files, (row, counts))) = reported else { return Ok(()) };
    if let Some(file) = &mut histogram {
        let lines = (1..).zip(&counts[1..]).filter(|(_, kmers)| **kmers > 0);
        file.write(&lines.map(|(count, kmers)| format!("{count} {kmers}\n")).collect::<String>())?;
    }
    let KmersRow { distinct, kmers, seconds, kmers_per_s, .. } = row;
    report.parameter("canonical", !args.no_canonical);
    report.parameter("max_table_bytes", options.max_table_bytes);
    report.parameter("filter_bytes", options.filter_bytes);
    report.summary = vec![format!(
        "kmers: {} different {}-mers of {} in {seconds:.2} s, {}",
        thousands(distinct),
        row.k,
        thousands(kmers),
        rate(kmers_per_s),
    )];
    if options.filter_bytes > 0 {
        report.note(["filter: k-mers that occur once are left out"]);
    }
    if row.kmers == 0 {
        report.note(["k-mers: no file has as many bases A, C, G and T in a row"]);
    }
    report.publish(files, &[row])
}

impl KmersArgs {
    fn count<K: Kmer>(
        &self,
        inputs: &Inputs,
        options: &Options,
        engine: &mut dyn Timed,
        exchange: &mut dyn Exchange,
    ) -> Result<(KmersRow, Vec<u64>)> {
        let start_ns = engine.now_ns();
        let advance = progress(options, inputs, exchange);
        let lanes = (!is_shared(&self.job)).then_some(&mut *engine);
        let counts = kmers::run::<K, _>(options, inputs, lanes, exchange, advance)?;
        let seconds = (engine.now_ns() - start_ns) as f64 / 1e9;
        let selected = &(self.min_count..=self.max_count);
        if let Some(path) = &self.out {
            kmers::write_text(&counts, selected, path, exchange)?;
        }
        if let Some(path) = &self.out_binary {
            kmers::write_binary(&counts, selected, path, exchange)?;
        }
        let totals = counts.totals;
        let row = KmersRow {
            k: options.k,
            ranks: exchange.owners(),
            kmers: totals.kmers,
            distinct: totals.distinct,
            once: totals.histogram[1],
            seconds,
            kmers_per_s: totals.kmers as f64 / seconds.max(1e-9),
            table_bytes: totals.table_bytes,
            growths: totals.growths,
        };
        Ok((row, totals.histogram))
    }
}
