//! `roundtrips`: counts the chunk READs of an insert, by load factor and C (paper Fig. 2).

use clap::Args;
use probeline::table::{Config, Outcome};
use probeline::transport::{Exchange, Owner};
use probeline_programs::Timed;
use probeline_report::distinct;
use probeline_report::results::format::{fixed, text};
use probeline_report::results::{Layout, row};

use super::{OPERATIONS, report_job, too_few_chunks};
use crate::cli::{ChunkListArgs, JobArgs, max_chunks, with_default};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::progress::Progress;
use crate::run_report::{answer, side_by_side, some_of};
use crate::size::Size;
use crate::table::{CachedTable, engine_sizes, open};

/// The paper measured at intervals of 0.02 until 0.92, its limit with C = 8 (section 4.1).
const STEPS_PER_TABLE: u64 = 50;
const LAST_STEP: u64 = 46;
const MAX_QUOTED: usize = 10;
/// The load factors of the summary, as in Table 1 of the paper: 0.5 and 0.9.
const QUOTED_STEPS: [u64; 2] = [25, 45];

#[derive(Args, Clone, Debug)]
#[command(mut_arg("table_size_asked", |option| with_default(option, "32MiB, over verbs 1MiB")))]
pub(crate) struct RoundtripsArgs {
    #[command(flatten)]
    chunks: ChunkListArgs,

    /// M, maximum chunks that an operation probes before it answers full; the authors' result files
    /// fit 64
    #[arg(short = 'M', long, default_value_t = 64, value_name = "M", value_parser = max_chunks())]
    max_chunks: u32,

    // Last, because its headings in the help apply to all options after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

row! {
    pub(crate) struct RoundtripsRow {
        chunk_buckets: u32 = "C" => ("C", text),
        load_factor: f64 = "the row is a mean of inserts by rank 0 from 0.02 below this load factor up to it"
            => ("load", fixed::<2>, note()),
        inserts: u64 = "keys inserted in the step" => ("inserts", text),
        full: u64 = "operations that found no empty bucket in M chunks" => ("full", text, note()),
        outgoing_roundtrips: f64 = "chunk READs that an insert posts, mean" => ("out", fixed::<4>, note()),
        effective_roundtrips: f64 = "chunk READs that an insert waits for, mean" => ("eff", fixed::<4>, note()),
    }

    /// The summary quotes rows; `--full` prints all.
    fn brief(_: &[Self]) -> Layout { Layout::default() }
}

pub(crate) fn run(mut args: RoundtripsArgs) -> Result<()> {
    args.job.resolve(Size::mib(32), Size::mib(1), &args.chunks.chunk_buckets)?;
    let slot_words = args.chunks.chunk_buckets.iter().copied().max().unwrap_or(8);
    let sizes = engine_sizes(&args.config(8), OPERATIONS, slot_words);
    let reported = report_job("roundtrips", &args.job, sizes, |engine, exchange| {
        args.count(engine.current.timed(), exchange)
    })?;
    let Some((mut report, files, rows)) = reported else { return Ok(()) };
    report.parameter("max_chunks", args.max_chunks);
    report.summary = summary(&rows);
    if rows.iter().any(|row| row.full > 0) {
        report.note([format!(
            "no room: some inserts found no empty bucket in M = {} chunks; the means include them",
            args.max_chunks
        )]);
    }
    report.publish(files, &rows)
}

/// States the READs that an insert waits for, by load factor and C.
fn summary(rows: &[RoundtripsRow]) -> Vec<String> {
    let chunks = distinct(rows.iter().map(|row| row.chunk_buckets));
    let chunks = some_of(&chunks, MAX_QUOTED);
    let is_quoted = |row: &&RoundtripsRow| {
        chunks.contains(&row.chunk_buckets) && QUOTED_STEPS.contains(&row.step())
    };
    let name = |row: &RoundtripsRow| [format!("{:.2}", row.load_factor)];
    let cell = |row: &RoundtripsRow| format!("{:.2}", row.effective_roundtrips);
    let of = |row: &RoundtripsRow| format!("C {}", row.chunk_buckets);
    let title = "roundtrips: chunk READs that an insert waits for".to_owned();
    answer(title, side_by_side(["load"], rows.iter().filter(is_quoted), name, of, cell))
}

impl RoundtripsRow {
    /// Returns the step that ended at this load factor.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn step(&self) -> u64 {
        (self.load_factor * STEPS_PER_TABLE as f64).round() as u64
    }
}

impl RoundtripsArgs {
    fn config(&self, chunk_buckets: u32) -> Config {
        self.job.config(chunk_buckets, self.max_chunks)
    }

    /// Fills a table for each C. Rank 0 inserts.
    fn count(
        &self,
        engine: &mut dyn Timed,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<RoundtripsRow>> {
        let measures = exchange.me() == Owner(0);
        let chunks = &self.chunks.chunk_buckets;
        let mut progress = Progress::new(LAST_STEP * chunks.len() as u64, measures);
        let mut rows = Vec::new();
        for (turn, &chunk_buckets) in (0..).zip(chunks) {
            let config = self.config(chunk_buckets);
            let mut table = open(&mut *engine, config, OPERATIONS, 0, exchange)?;
            table.clear(exchange)?;
            if measures {
                rows.extend(self.fill(&mut table, &mut progress, turn * LAST_STEP)?);
            }
            exchange.barrier()?;
        }
        Ok(rows)
    }

    fn fill<T: Timed>(
        &self,
        table: &mut CachedTable<T>,
        progress: &mut Progress,
        done: u64,
    ) -> Result<Vec<RoundtripsRow>> {
        let buckets = table.layout().buckets();
        let (mut next, mut held) = (0, 0);
        let mut rows = Vec::new();
        for step in 1..=LAST_STEP {
            let load_factor = step as f64 / STEPS_PER_TABLE as f64;
            let chunk_buckets = table.config().chunk_buckets;
            let doing = format!("C {chunk_buckets}, load factor {load_factor}");
            table.reset_stats();
            // This command counts READs and measures no times, so the progress thread does not
            // disturb it.
            progress.during(done + step - 1, &doing, || {
                while held < buckets * step / STEPS_PER_TABLE {
                    match table.find_or_put(nth(self.job.seed, next))? {
                        Outcome::Inserted => held += 1,
                        // More operations found no room than there are buckets, so hardly any
                        // further key would fit.
                        Outcome::Full if table.stats().full.operations > buckets => {
                            let owners = table.layout().owners();
                            return Err(too_few_chunks(table.config(), owners, held));
                        }
                        Outcome::Full => {}
                        other => {
                            return Err(Failure::new(format!("new key {next} was {other:?}")));
                        }
                    }
                    next += 1;
                }
                Ok(())
            })?;
            let total = table.stats().total();
            let mean = |sum: u64| sum as f64 / total.operations.max(1) as f64;
            rows.push(RoundtripsRow {
                chunk_buckets,
                load_factor,
                inserts: table.stats().inserted.operations,
                full: table.stats().full.operations,
                outgoing_roundtrips: mean(total.outgoing_roundtrips),
                effective_roundtrips: mean(total.effective_roundtrips),
            });
        }
        Ok(rows)
    }
}
