//! The adaptive C beside every fixed one while a table fills.

use probeline_table::{ChunkChoice, Config, ReadAhead, ReadCost};
use serde::Serialize;

use super::Result;
use super::job::{Job, MOST_CHUNK, Mean, paper};
use super::plan::{Scale, each};

/// The fixed C.
const CHUNKS: [u32; 8] = [8, 16, 24, 32, 48, 64, 96, MOST_CHUNK];
/// Load factors, in hundredths.
const FROM: u64 = 10;
const TO: u64 = 92;
/// Inserts until a load factor go from so many hundredths below it, as in the paper (section 4.1).
const STEP: u64 = 2;

/// When the next chunk is READ ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ahead {
    Always,
    Likely,
}

impl Ahead {
    pub(crate) const ALL: [Self; 2] = [Self::Always, Self::Likely];

    fn config(self, buckets_per_owner: u64, chunk: Chunk) -> Config {
        let read_ahead = match self {
            Self::Always => ReadAhead::Always,
            Self::Likely => ReadAhead::Likely,
        };
        let config = match chunk {
            Chunk::Fixed(buckets) => paper(buckets_per_owner, buckets),
            Chunk::Adaptive(cost) => Config {
                chunk_choice: ChunkChoice::Adaptive(cost),
                ..paper(buckets_per_owner, MOST_CHUNK)
            },
        };
        Config { read_ahead, ..config }
    }
}

/// How C is chosen.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    Fixed(u32),
    Adaptive(ReadCost),
}

/// The adaptive C at a load factor beside the fixed one that is best there.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AdaptiveRow {
    pub(crate) ahead: Ahead,
    pub(crate) load_percent: u64,
    /// The fixed C with which inserts take least.
    pub(crate) best_chunk: u32,
    pub(crate) best: Mean,
    pub(crate) adaptive: Mean,
}

impl AdaptiveRow {
    pub(crate) fn ratio(&self) -> f64 {
        self.adaptive.ns / self.best.ns
    }
}

pub(crate) fn run(scale: &Scale, cost: ReadCost) -> Result<Vec<AdaptiveRow>> {
    let chunks: Vec<Chunk> =
        CHUNKS.map(Chunk::Fixed).into_iter().chain([Chunk::Adaptive(cost)]).collect();
    let all: Vec<(Ahead, Chunk)> =
        Ahead::ALL.iter().flat_map(|&ahead| chunks.iter().map(move |&c| (ahead, c))).collect();
    let means = each(&all, |&(ahead, chunk)| fill(scale, ahead, chunk))?;
    let mut rows = Vec::new();
    for (ahead, means) in Ahead::ALL.into_iter().zip(means.chunks(chunks.len())) {
        for (at, load_percent) in loads(scale).enumerate() {
            rows.push(row(ahead, load_percent, means, at).ok_or("a load factor is missing")?);
        }
    }
    Ok(rows)
}

/// The load factors, the last one always among them.
fn loads(scale: &Scale) -> impl Iterator<Item = u64> {
    let step = usize::try_from(scale.adaptive_step).unwrap_or(1);
    (FROM..TO).step_by(step).chain([TO])
}

/// The means of all C at one load factor; the adaptive one's are the last.
fn row(ahead: Ahead, load_percent: u64, means: &[Vec<Mean>], at: usize) -> Option<AdaptiveRow> {
    let (adaptive, fixed) = means.split_last()?;
    let fixed = CHUNKS.iter().zip(fixed.iter().filter_map(|means| means.get(at)));
    let (&best_chunk, &best) = fixed.min_by(|a, b| a.1.ns.total_cmp(&b.1.ns))?;
    Some(AdaptiveRow { ahead, load_percent, best_chunk, best, adaptive: *adaptive.get(at)? })
}

/// Fills a table and gives the means of inserts up to each load factor. Whatever C is, data ends up
/// in the same buckets. All of it is inserted, but where operations learn nothing from others.
fn fill(scale: &Scale, ahead: Ahead, chunk: Chunk) -> Result<Vec<Mean>> {
    let config = ahead.config(scale.buckets_per_owner, chunk);
    let mut job = Job::blocking(config, scale)?;
    let mut means = Vec::new();
    for percent in loads(scale) {
        match chunk {
            Chunk::Fixed(_) if ahead == Ahead::Always => job.fill(percent - STEP)?,
            Chunk::Fixed(_) | Chunk::Adaptive(_) => drop(job.insert(percent - STEP)?),
        }
        means.push(job.insert(percent)?);
    }
    Ok(means)
}
