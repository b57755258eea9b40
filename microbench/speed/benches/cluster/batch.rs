//! Many operations in flight beside one at a time.

use probeline_table::{ChunkChoice, Config, FirstClaim, ReadAhead, ReadCost};
use serde::Serialize;

use super::Result;
use super::claims::CHUNK;
use super::job::{Job, MOST_CHUNK, Mean, paper};
use super::nic::Turns;
use super::plan::{Scale, each};

/// Operations in flight.
pub(crate) const IN_FLIGHT: u32 = 32;
/// Data of one call.
const BATCH: usize = 1_024;
/// Load factors, in hundredths: inserts go from one to the other, and as many before them do not
/// count.
const WARM: u64 = 46;
const FROM: u64 = 48;
pub(crate) const TO: u64 = 50;

/// One way to find or put, one at a time and many.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BatchRow {
    pub(crate) way: &'static str,
    pub(crate) blocking_insert: Mean,
    pub(crate) batched_insert: Mean,
    pub(crate) blocking_hit: Mean,
    pub(crate) batched_hit: Mean,
}

pub(crate) fn run(scale: &Scale, cost: ReadCost) -> Result<Vec<BatchRow>> {
    let paper = |chunk| paper(scale.buckets_per_owner, chunk);
    let likely = Config { read_ahead: ReadAhead::Likely, ..paper(CHUNK) };
    let claimed = Config { first_claim: FirstClaim::Auto, ..likely };
    let adaptive = Config {
        chunk_buckets: MOST_CHUNK,
        max_chunks: paper(MOST_CHUNK).max_chunks,
        chunk_choice: ChunkChoice::Adaptive(cost),
        ..claimed
    };
    let all = [
        ("the paper's, C = 8", paper(CHUNK)),
        ("read ahead where likely", likely),
        ("and claims first, automatic", claimed),
        ("and C adaptive", adaptive),
    ];
    each(&all, |&(way, config)| row(scale, way, config))
}

fn row(scale: &Scale, way: &'static str, config: Config) -> Result<BatchRow> {
    let mut job = Job::blocking(config, scale)?;
    job.fill(WARM)?;
    job.insert(FROM)?;
    let blocking_insert = job.insert(TO)?;
    let operations = blocking_insert.operations;
    let blocking_hit = job.hit(operations)?;

    let mut job = Job::open(config, IN_FLIGHT, 0, Turns::Reads, scale)?;
    job.fill(WARM)?;
    job.insert_batches(FROM, BATCH)?;
    let batched_insert = job.insert_batches(TO, BATCH)?;
    let batched_hit = job.hit_batches(operations, BATCH)?;
    Ok(BatchRow { way, blocking_insert, batched_insert, blocking_hit, batched_hit })
}
