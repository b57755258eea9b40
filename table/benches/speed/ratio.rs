//! The ratios of the benchmark: their targets, and the rates that they are made of.

use core::fmt::{self, Display};
use std::collections::HashMap;

use super::rank::Work;
use super::sets::peers;
use super::tables::Variant;

use By::{BestSet, OneRank, Own, OwnTime, UnsharedSet};
use Work::{
    DependentReads, Find, FindBatch, Hit, Insert, InsertBatch, PrefetchedReads, ReadsThenSwaps,
};

/// Load factors that are measured, in thousandths.
pub(crate) const LOADS: [u64; 2] = [500, 900];
/// The target for the rate of two ranks by that of one, unless the machine's limit has a lower
/// ratio.
const SCALING: f64 = 1.7;

/// The rate by which a rate of the table is divided.
#[derive(Clone, Copy)]
enum By {
    /// The rate of other work on the same table or on its memory.
    Own(Work),
    /// As `Own`, for a ratio of times.
    OwnTime(Work),
    /// The rate of the fastest set that threads share, in the rounds in which both took turns if
    /// there are such.
    BestSet(Work),
    /// The rate of a set that one thread uses, chosen likewise.
    UnsharedSet(Work),
    /// One rank. Two should have as many times its rate as this limit allows, at most [`SCALING`].
    OneRank(Work),
}

/// A ratio: ranks, name, work, divisor, targets of narrow and of wide keys by load factor.
type Ratio = (usize, &'static str, Work, By, [Targets; 2]);
type Targets = Option<[f64; 2]>;

const FINDS_BY_READS: &str = "batched finds / prefetched reads";
const INSERTS_BY_SWAPS: &str = "batched inserts / prefetched read-then-CAS";
const FINDS_BY_BEST: &str = "batched finds / finds of the best concurrent set";
const INSERTS_BY_BEST: &str = "batched inserts / inserts of the best concurrent set";
const FINDS_FASTER: Targets = Some([3.0, 2.0]);
const INSERTS_FASTER: Targets = Some([2.5, 1.5]);
const NO_SLOWER: Targets = Some([1.5, 1.0]);
const WIDE_FASTER: Targets = Some([1.5, 1.5]);
const NONE: [Targets; 2] = [None; 2];

/// The limit of inserts leaves out the WRITE of a wide key's entry, to lines that follow each other.
#[rustfmt::skip]
const RATIOS: [Ratio; 15] = [
    (1, FINDS_BY_READS, FindBatch, Own(PrefetchedReads), [Some([0.75, 0.45]), None]),
    (1, INSERTS_BY_SWAPS, InsertBatch, Own(ReadsThenSwaps), [Some([0.55, 0.2]), None]),
    (1, "batched finds / blocking finds", FindBatch, Own(Find), [Some([2.5, 0.0]), None]),
    (1, "batched inserts / blocking inserts", InsertBatch, Own(Insert), [Some([2.5, 0.0]), None]),
    (1, FINDS_BY_BEST, FindBatch, BestSet(Find), [FINDS_FASTER, None]),
    (1, INSERTS_BY_BEST, InsertBatch, BestSet(Insert), [INSERTS_FASTER, None]),
    (1, "batched finds / finds of hashbrown", FindBatch, UnsharedSet(Find), [NO_SLOWER, None]),
    (1, "batched inserts / inserts of hashbrown", InsertBatch, UnsharedSet(Insert), [NO_SLOWER, None]),
    (1, "time of a hit / time of a dependent read", Hit, OwnTime(DependentReads), [Some([1.3, 1.3]), None]),
    (2, FINDS_BY_READS, FindBatch, Own(PrefetchedReads), NONE),
    (2, INSERTS_BY_SWAPS, InsertBatch, Own(ReadsThenSwaps), NONE),
    (2, FINDS_BY_BEST, FindBatch, BestSet(Find), [FINDS_FASTER, WIDE_FASTER]),
    (2, INSERTS_BY_BEST, InsertBatch, BestSet(Insert), [INSERTS_FASTER, WIDE_FASTER]),
    (2, "batched finds / those of one rank", FindBatch, OneRank(PrefetchedReads), NONE),
    (2, "batched inserts / those of one rank", InsertBatch, OneRank(ReadsThenSwaps), NONE),
];

/// A ratio of two measurements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The ranks, the load factor and the table.
    pub(crate) case: String,
    /// Whether times are divided, in nanoseconds, and not rates, in millions per second.
    pub(crate) is_time: bool,
    pub(crate) measured: f64,
    pub(crate) baseline: f64,
    /// The least ratio of rates, or the largest of times.
    pub(crate) target: Option<f64>,
}

impl Row {
    pub(crate) fn ratio(&self) -> f64 {
        self.measured / self.baseline
    }

    /// Returns whether the ratio meets its target; `None` without one.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio();
        self.target.map(|target| if self.is_time { ratio <= target } else { ratio >= target })
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ratio, Self { name, case, measured, baseline, .. }) = (self.ratio(), self);
        let (unit, side) = if self.is_time { ("ns", "<=") } else { ("M/s", ">=") };
        write!(f, "{name:62} {case:30} {measured:8.1} {baseline:8.1} {unit:3} {ratio:7.3}")?;
        let verdict = if self.is_met() == Some(true) { "met" } else { "MISSED" };
        self.target.map_or(Ok(()), |target| write!(f, "  {side} {target:.2} {verdict}"))
    }
}

/// The subject of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct What {
    /// The name of a table, or of another set.
    pub(crate) system: &'static str,
    /// The set that took turns with the table in these rounds.
    pub(crate) peer: Option<&'static str>,
    pub(crate) threads: usize,
    /// The load factor; other sets have a lower one if they need it.
    pub(crate) load: u64,
    pub(crate) work: Work,
}

/// Operations per second of all threads together, for each round.
#[derive(Default)]
pub(crate) struct Rates(HashMap<What, Vec<f64>>);

impl Rates {
    pub(crate) fn add(&mut self, what: What, ops_per_s: f64) {
        self.0.entry(what).or_default().push(ops_per_s);
    }

    /// Returns the median rate; the mean of the two in the middle of an even number.
    pub(crate) fn median(&self, what: What) -> Option<f64> {
        let mut rates = self.0.get(&what)?.clone();
        rates.sort_by(f64::total_cmp);
        Some(f64::midpoint(*rates.get((rates.len() - 1) / 2)?, *rates.get(rates.len() / 2)?))
    }

    /// Returns a rate of the table and the one that divides it.
    fn pair(&self, what: What, by: By) -> Option<(f64, f64)> {
        let rate = self.median(what)?;
        let (work, is_concurrent) = match by {
            Own(work) | OwnTime(work) => {
                return Some((rate, self.median(What { work, ..what })?));
            }
            OneRank(_) => return Some((rate, self.median(What { threads: 1, ..what })?)),
            BestSet(work) => (work, true),
            UnsharedSet(work) => (work, false),
        };
        let sets = peers::<u64>().into_iter().filter(|peer| peer.is_concurrent == is_concurrent);
        let rate_of = |set| Some((self.median(What { system: set, work, ..what })?, set));
        let rates = sets.filter_map(|peer| rate_of(peer.name));
        let (divisor, set) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some((self.median(What { peer: Some(set), ..what }).unwrap_or(rate), divisor))
    }

    /// Returns a row for each ratio of keys of this width that was measured. Targets are those of
    /// the first table.
    pub(crate) fn rows(&self, words: usize, tables: &[Variant]) -> Vec<Row> {
        let mut rows = Vec::new();
        for &(threads, name, work, by, targets) in &RATIOS {
            for (nth, load) in LOADS.into_iter().enumerate() {
                for (at, &Variant { name: system, .. }) in tables.iter().enumerate() {
                    let what = What { system, peer: None, threads, load, work };
                    let Some((rate, mut divisor)) = self.pair(what, by) else { continue };
                    let (mut case, is_time) = (String::new(), matches!(by, OwnTime(_)));
                    if words > 1 && name == FINDS_BY_READS {
                        // The second line after the first.
                        (divisor, case) = (divisor / 2.0, ", two reads each".into());
                    }
                    let target = match by {
                        OneRank(limit) if words == 1 => {
                            let limits = self.pair(What { work: limit, ..what }, by);
                            limits.map(|(two, one)| (two / one).min(SCALING))
                        }
                        _ => targets[usize::from(words > 1)].map(|targets| targets[nth]),
                    };
                    let unit = |rate| if is_time { 1e9 / rate } else { rate / 1e6 };
                    rows.push(Row {
                        name,
                        case: format!("{threads} rank(s), load 0.{}, {system}{case}", load / 100),
                        is_time,
                        measured: unit(rate),
                        baseline: unit(divisor),
                        target: target.filter(|target| at == 0 && *target > 0.0),
                    });
                }
            }
        }
        rows
    }
}
