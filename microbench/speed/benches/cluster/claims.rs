//! The insert of one roundtrip: the home bucket is claimed along with the first READ.

use probeline_table::{Config, FirstClaim};
use serde::Serialize;

use super::Result;
use super::job::{BLOCKING, Job, Mean, paper};
use super::nic::Turns;
use super::plan::{Scale, each};

/// C.
pub(crate) const CHUNK: u32 = 8;
/// Load factors, in hundredths.
pub(crate) const LOADS: [u64; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// The one that is judged.
pub(crate) const JUDGED_LOAD: u64 = 50;
/// Inserts until a load factor go from so many hundredths below it, as in the paper (section 4.1);
/// as many before them do not count, and let what is automatic see the table.
const STEP: u64 = 2;
/// The share of inserts of a workload, in hundredths.
pub(crate) const HALF: u64 = 50;
const SHARES: [u64; 5] = [10, 25, HALF, 75, 90];
/// One operation for so many buckets is measured where nothing else says how many, and a quarter
/// as many before it do not count.
const BUCKETS_PER_OPERATION: u64 = 32;

/// Whether the home bucket is claimed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    /// Never: the paper's algorithm.
    Off,
    On,
    Auto,
}

impl Claim {
    pub(crate) const ALL: [Self; 3] = [Self::Off, Self::On, Self::Auto];

    fn open(self, scale: &Scale, turns: Turns) -> Result<Job> {
        let first_claim = match self {
            Self::Off => FirstClaim::Off,
            Self::On => FirstClaim::On,
            Self::Auto => FirstClaim::Auto,
        };
        let config = Config { first_claim, ..paper(scale.buckets_per_owner, CHUNK) };
        Job::open(config, BLOCKING, 0, turns, scale)
    }
}

/// What is measured at a load factor.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ClaimRow {
    pub(crate) turns: Turns,
    pub(crate) claim: Claim,
    pub(crate) load_percent: u64,
    /// Find-or-puts of new data.
    pub(crate) insert: Mean,
    /// Find-or-puts of data held.
    pub(crate) hit: Mean,
    /// Half of one, half of the other.
    pub(crate) mixed: Mean,
}

/// A workload at the load factor that is judged.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct MixRow {
    pub(crate) claim: Claim,
    pub(crate) inserts_percent: u64,
    pub(crate) mean: Mean,
}

pub(crate) fn run(scale: &Scale) -> Result<Vec<ClaimRow>> {
    let turns = [Turns::Reads, Turns::ReadsAndClaims];
    let all: Vec<(Turns, Claim)> =
        turns.iter().flat_map(|&turns| Claim::ALL.map(|claim| (turns, claim))).collect();
    let rows = each(&all, |&(turns, claim)| {
        let mut job = claim.open(scale, turns)?;
        LOADS.iter().map(|&percent| row(&mut job, turns, claim, percent)).collect()
    })?;
    Ok(rows.into_iter().flat_map(|rows: Vec<ClaimRow>| rows).collect())
}

fn row(job: &mut Job, turns: Turns, claim: Claim, load_percent: u64) -> Result<ClaimRow> {
    job.fill(load_percent - 2 * STEP)?;
    job.insert(load_percent - STEP)?;
    let insert = job.insert(load_percent)?;
    let operations = job.buckets() / BUCKETS_PER_OPERATION;
    job.hit(operations / 4)?;
    let hit = job.hit(operations)?;
    let mixed = mix(job, HALF)?;
    Ok(ClaimRow { turns, claim, load_percent, insert, hit, mixed })
}

fn mix(job: &mut Job, inserts_percent: u64) -> Result<Mean> {
    let operations = job.buckets() / BUCKETS_PER_OPERATION;
    job.mixed(operations / 4, inserts_percent)?;
    job.mixed(operations, inserts_percent)
}

pub(crate) fn run_mixes(scale: &Scale) -> Result<Vec<MixRow>> {
    let all: Vec<(u64, Claim)> =
        SHARES.iter().flat_map(|&share| Claim::ALL.map(|claim| (share, claim))).collect();
    each(&all, |&(inserts_percent, claim)| {
        let mut job = claim.open(scale, Turns::Reads)?;
        job.fill(JUDGED_LOAD - STEP)?;
        Ok(MixRow { claim, inserts_percent, mean: mix(&mut job, inserts_percent)? })
    })
}

/// The mean of a workload by that of the paper's algorithm, everything else being equal.
pub(crate) fn ratio(rows: &[ClaimRow], row: &ClaimRow, of: fn(&ClaimRow) -> &Mean) -> Option<f64> {
    let same = |other: &&ClaimRow| {
        (other.turns, other.load_percent, other.claim) == (row.turns, row.load_percent, Claim::Off)
    };
    Some(of(row).ns / of(rows.iter().find(same)?).ns)
}
