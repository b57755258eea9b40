//! `roundtrips`: how many chunk READs an insert takes, by load factor and C (paper Fig. 2).

use clap::Args;
use serde::Serialize;
use table::{Config, Outcome};
use transport::{Exchange, Owner};

use super::{BlockingTable, open, shape, too_few_chunks};
use crate::cli::{ChunkListArgs, JobArgs, max_chunks};
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario, Shape};
use crate::keys::nth;
use crate::progress::Progress;
use crate::report::{Files, Report, Row};
use crate::size::Size;
use crate::timed::Timed;

/// The paper measured at intervals of 0.02 until 0.92, its limit with C = 8 (section 4.1).
const STEPS_PER_TABLE: u64 = 50;
const LAST_STEP: u64 = 46;

#[derive(Args, Clone, Debug)]
pub(crate) struct RoundtripsArgs {
    #[command(flatten)]
    chunks: ChunkListArgs,

    /// M, chunks at most before an operation answers full; the authors' result files fit 64
    #[arg(short = 'M', long, default_value_t = 64, value_name = "M", value_parser = max_chunks())]
    max_chunks: u32,

    // Last: its headings in the help hold for whatever comes after them.
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoundtripsRow {
    chunk_buckets: u32,
    load_factor: f64,
    inserts: u64,
    full: u64,
    outgoing_roundtrips: f64,
    effective_roundtrips: f64,
}

pub(crate) fn run(mut args: RoundtripsArgs) -> Result<()> {
    args.job.settle(Size::mib(32), Size::mib(1), &args.chunks.chunk_buckets)?;
    let files = Files::of_job(&args.job)?;
    // Before the run, which would show in the load.
    let mut report = Report::new("roundtrips");
    let Some(ended) = job::run(&args.job, &args)? else { return Ok(()) };
    report.transport = ended.transport;
    report.doctor.extend(ended.doctor);
    report.job(&args.job);
    report.parameter("max_chunks", args.max_chunks);
    report.rows = ended.output;
    report.notes = vec![
        "Rank 0 inserts new data into the parts of all owners; a row is the mean over the inserts \
         from 0.02 below its load factor up to it. out: chunk READs posted; eff: waited for. A \
         chunk that straddles two owners counts once."
            .to_owned(),
        "full: operations that found no room in M chunks, counted in the mean; others were \
         inserted instead."
            .to_owned(),
    ];
    report.publish(files)
}

impl RoundtripsArgs {
    fn config(&self, chunk_buckets: u32) -> Config {
        self.job.config(chunk_buckets, self.max_chunks)
    }

    #[allow(clippy::cast_precision_loss)]
    fn fill<T: Timed>(
        &self,
        table: &mut BlockingTable<T>,
        progress: &mut Progress,
        done: u64,
    ) -> Result<Vec<RoundtripsRow>> {
        let buckets = table.layout().buckets();
        let (mut data, mut held) = (0, 0);
        let mut rows = Vec::new();
        for step in 1..=LAST_STEP {
            let load_factor = step as f64 / STEPS_PER_TABLE as f64;
            let chunk_buckets = table.config().chunk_buckets;
            progress.set(done + step, &format!("C = {chunk_buckets}, load factor {load_factor}"));
            table.reset_stats();
            while held < buckets * step / STEPS_PER_TABLE {
                match table.find_or_put(nth(self.job.seed, data))? {
                    Outcome::Inserted => held += 1,
                    // More buckets full than empty: no more data will fit.
                    Outcome::Full if table.stats().full.operations > buckets => {
                        return Err(too_few_chunks(table.config(), table.layout().owners(), held));
                    }
                    Outcome::Full => {}
                    other => return Err(Failure::new(format!("new data {data} was {other:?}"))),
                }
                data += 1;
            }
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

impl Row for RoundtripsRow {
    const HEAD: &'static [&'static str] = &["C", "load", "inserts", "full", "out", "eff"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.chunk_buckets.to_string(),
            format!("{:.2}", self.load_factor),
            self.inserts.to_string(),
            self.full.to_string(),
            format!("{:.4}", self.outgoing_roundtrips),
            format!("{:.4}", self.effective_roundtrips),
        ]
    }
}

impl Scenario for RoundtripsArgs {
    type Output = Vec<RoundtripsRow>;

    fn shape(&self) -> Shape {
        let slot_words = self.chunks.chunk_buckets.iter().copied().max().unwrap_or(8);
        shape(&self.config(8), slot_words.next_multiple_of(8), 0, 0)
    }

    fn parameters(&self) -> String {
        self.job.parameters("roundtrips", &self.chunks, self.max_chunks)
    }

    fn run<T: Timed>(&self, mut engine: T, exchange: &mut dyn Exchange) -> Result<Self::Output> {
        let measures = exchange.me() == Owner(0);
        let chunks = &self.chunks.chunk_buckets;
        let mut progress = Progress::new(LAST_STEP * chunks.len() as u64, measures);
        let mut rows = Vec::new();
        for (turn, &chunk_buckets) in (0..).zip(chunks) {
            let mut table = open(&mut engine, self.config(chunk_buckets), exchange)?;
            table.clear(exchange)?;
            if measures {
                rows.extend(self.fill(&mut table, &mut progress, turn * LAST_STEP)?);
            }
            exchange.barrier()?;
        }
        Ok(rows)
    }
}
