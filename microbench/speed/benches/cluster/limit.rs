//! What the model lets a table do at best, measured of it without a table: roundtrips where one
//! operation is in flight, and what the NIC takes where many are.

use core::time::Duration;

use probeline_limits::remote::{Meter, Operation, Plan};
use probeline_transport::{LINE_WORDS, Owner};
use serde::Serialize;

use super::Result;
use super::batch::IN_FLIGHT;
use super::job::{BLOCKING, engines};
use super::nic::{Nic, Turns};

/// Words of each window that operations go to.
const WORDS: u64 = 1 << 12;
/// Operations of each measurement: with one in flight all take as long, and with many the last
/// ones, when fewer are, must not count.
const OPERATIONS: u64 = 1 << 14;
const OWNERS: [Owner; 2] = [Owner(0), Owner(1)];

/// What operations take at least, each owner's part being as likely.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Limit {
    /// A READ of a line, in nanoseconds.
    pub(crate) read_ns: f64,
    /// A compare-and-swap.
    pub(crate) claim_ns: f64,
    /// Whether a claim waits for its READ and nothing else is in flight; where much is, the NIC does
    /// READs while the CPU claims in its own part.
    #[serde(skip)]
    one_by_one: bool,
}

/// The limits of blocking calls and of batches.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) blocking: Limit,
    pub(crate) batched: Limit,
}

impl Limit {
    /// What an operation takes at least where this share of them inserts, 0 to 1: a READ, and then
    /// a claim if it does; in batches the longer one of the two.
    pub(crate) fn ns(&self, inserted_share: f64) -> f64 {
        let claim_ns = inserted_share * self.claim_ns;
        if self.one_by_one { self.read_ns + claim_ns } else { self.read_ns.max(claim_ns) }
    }
}

impl Limits {
    pub(crate) fn measure(seed: u64) -> Result<Self> {
        Ok(Self { blocking: blocking(seed)?, batched: batched(seed)? })
    }
}

const READ: Operation = Operation::Read { words: LINE_WORDS };
const CLAIM: Operation = Operation::Swap;

/// One owner after the other: by chance one would come more often.
fn blocking(seed: u64) -> Result<Limit> {
    let (mut engine, _peer) = engines(WORDS, BLOCKING, Turns::Reads, seed)?;
    let mut mean = |operation| -> Result<f64> {
        let of = |owner: &[Owner]| Ok(meter(&mut engine, owner, seed)?.rate(operation, 1)?);
        let rates = OWNERS.each_ref().map(core::slice::from_ref).map(of);
        let rates: Vec<_> = rates.into_iter().collect::<Result<_>>()?;
        Ok(rates.iter().map(|rate| 1e9 / rate.per_second).sum::<f64>() / rates.len() as f64)
    };
    Ok(Limit { read_ns: mean(READ)?, claim_ns: mean(CLAIM)?, one_by_one: true })
}

fn batched(seed: u64) -> Result<Limit> {
    let (mut engine, _peer) = engines(WORDS, IN_FLIGHT, Turns::Reads, seed)?;
    let mut meter = meter(&mut engine, &OWNERS, seed)?;
    let deepest = meter.deepest();
    let mut mean =
        |operation| -> Result<f64> { Ok(1e9 / meter.rate(operation, deepest)?.per_second) };
    Ok(Limit { read_ns: mean(READ)?, claim_ns: mean(CLAIM)?, one_by_one: false })
}

type Clock = fn(&Nic) -> u64;

fn meter<'a>(engine: &'a mut Nic, owners: &'a [Owner], seed: u64) -> Result<Meter<'a, Nic, Clock>> {
    let plan = Plan { owners, words: 0..WORDS, time: Duration::MAX, operations: OPERATIONS };
    Ok(Meter::new(engine, Nic::now_ns as Clock, plan, seed)?)
}
