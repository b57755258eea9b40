//! The ratios of the benchmark: their targets, and the rates that they are made of.

use core::fmt::{self, Display};
use std::collections::HashMap;

use super::rank::Work;
use super::sets::Kind;
use super::tables::Variant;

use By::{BestSet, HalfLimit, Limit, OneRank, Own, OwnTime, UnsharedSet};
use Work::{
    DependentReads, Find, FindBatch, Hit, Insert, InsertBatch, KeyedReads, KeyedReadsThenSwaps,
    PrefetchedReads, ReadsThenSwaps,
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
    /// One of two limits of the table's memory: addresses computed, or chosen by keys in memory.
    Limit(Work, Work),
    /// Half of a limit of the table's memory: an operation accesses two random lines, the second
    /// after the first.
    HalfLimit(Work),
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

/// A ratio: ranks, name, work, divisor, targets by load factor.
type Ratio = (usize, &'static str, Work, By, Targets);
type Targets = &'static [(u64, f64)];

const FINDS_FASTER: Targets = &[(500, 3.0), (900, 2.0)];
const INSERTS_FASTER: Targets = &[(500, 2.5), (900, 1.5)];
const OVERLAPPED: Targets = &[(500, 2.5)];
const NO_SLOWER: Targets = &[(500, 1.5), (900, 1.0)];
const FINDS_BY_BEST: &str = "batched finds / finds of the best concurrent set";
const INSERTS_BY_BEST: &str = "batched inserts / inserts of the best concurrent set";
const FINDS_BY_READS: &str = "batched finds / prefetched reads";
const INSERTS_BY_SWAPS: &str = "batched inserts / prefetched read-then-CAS";
const FINDS_BY_KEYED: &str = "batched finds / prefetched reads, keys in memory";
const INSERTS_BY_KEYED: &str = "batched inserts / prefetched read-then-CAS, keys in memory";
const COMPUTED_READS: By = Limit(PrefetchedReads, KeyedReads);
const LOADED_READS: By = Limit(KeyedReads, PrefetchedReads);
const COMPUTED_SWAPS: By = Limit(ReadsThenSwaps, KeyedReadsThenSwaps);
const LOADED_SWAPS: By = Limit(KeyedReadsThenSwaps, ReadsThenSwaps);
const HIT_BY_READ: &str = "time of a hit / time of a dependent read";
const FINDS_BY_BLOCKING: &str = "batched finds / blocking finds";
const INSERTS_BY_BLOCKING: &str = "batched inserts / blocking inserts";
const FINDS_BY_UNSHARED: &str = "batched finds / finds of hashbrown";
const INSERTS_BY_UNSHARED: &str = "batched inserts / inserts of hashbrown";

const NARROW_RATIOS: [Ratio; 19] = [
    (1, FINDS_BY_READS, FindBatch, COMPUTED_READS, &[(500, 0.75), (900, 0.45)]),
    (1, FINDS_BY_KEYED, FindBatch, LOADED_READS, &[]),
    (1, INSERTS_BY_SWAPS, InsertBatch, COMPUTED_SWAPS, &[(500, 0.55), (900, 0.2)]),
    (1, INSERTS_BY_KEYED, InsertBatch, LOADED_SWAPS, &[]),
    (1, FINDS_BY_BLOCKING, FindBatch, Own(Find), OVERLAPPED),
    (1, INSERTS_BY_BLOCKING, InsertBatch, Own(Insert), OVERLAPPED),
    (1, FINDS_BY_BEST, FindBatch, BestSet(Find), FINDS_FASTER),
    (1, INSERTS_BY_BEST, InsertBatch, BestSet(Insert), INSERTS_FASTER),
    (1, FINDS_BY_UNSHARED, FindBatch, UnsharedSet(Find), NO_SLOWER),
    (1, INSERTS_BY_UNSHARED, InsertBatch, UnsharedSet(Insert), NO_SLOWER),
    (1, HIT_BY_READ, Hit, OwnTime(DependentReads), &[(500, 1.3), (900, 1.3)]),
    (2, FINDS_BY_READS, FindBatch, COMPUTED_READS, &[]),
    (2, FINDS_BY_KEYED, FindBatch, LOADED_READS, &[]),
    (2, INSERTS_BY_SWAPS, InsertBatch, COMPUTED_SWAPS, &[]),
    (2, INSERTS_BY_KEYED, InsertBatch, LOADED_SWAPS, &[]),
    (2, FINDS_BY_BEST, FindBatch, BestSet(Find), FINDS_FASTER),
    (2, INSERTS_BY_BEST, InsertBatch, BestSet(Insert), INSERTS_FASTER),
    (2, "batched finds / those of one rank", FindBatch, OneRank(PrefetchedReads), &[]),
    (2, "batched inserts / those of one rank", InsertBatch, OneRank(ReadsThenSwaps), &[]),
];

const WIDE_FASTER: Targets = &[(500, 1.5), (900, 1.5)];
const FINDS_BY_TWO_READS: &str = "batched finds / half the prefetched reads (2 lines a find)";
const INSERTS_BY_ONE_SWAP: &str = "batched inserts / prefetched read-then-CAS (1 line, no entry)";
const TWO_READS: By = HalfLimit(PrefetchedReads);
const ONE_SWAP: By = Own(ReadsThenSwaps);

/// The limit of inserts leaves out the WRITE of the entry, to lines that follow each other.
const WIDE_RATIOS: [Ratio; 13] = [
    (1, FINDS_BY_TWO_READS, FindBatch, TWO_READS, &[]),
    (1, INSERTS_BY_ONE_SWAP, InsertBatch, ONE_SWAP, &[]),
    (1, FINDS_BY_BLOCKING, FindBatch, Own(Find), &[]),
    (1, INSERTS_BY_BLOCKING, InsertBatch, Own(Insert), &[]),
    (1, FINDS_BY_BEST, FindBatch, BestSet(Find), &[]),
    (1, INSERTS_BY_BEST, InsertBatch, BestSet(Insert), &[]),
    (1, FINDS_BY_UNSHARED, FindBatch, UnsharedSet(Find), &[]),
    (1, INSERTS_BY_UNSHARED, InsertBatch, UnsharedSet(Insert), &[]),
    (1, HIT_BY_READ, Hit, OwnTime(DependentReads), &[]),
    (2, FINDS_BY_TWO_READS, FindBatch, TWO_READS, &[]),
    (2, INSERTS_BY_ONE_SWAP, InsertBatch, ONE_SWAP, &[]),
    (2, FINDS_BY_BEST, FindBatch, BestSet(Find), WIDE_FASTER),
    (2, INSERTS_BY_BEST, InsertBatch, BestSet(Insert), WIDE_FASTER),
];

/// Returns the ratios of a table of keys of this width.
fn ratios(words: usize) -> &'static [Ratio] {
    if words == 1 { &NARROW_RATIOS } else { &WIDE_RATIOS }
}

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
    /// Whether `baseline` is the lowest limit of this work.
    pub(crate) holds: bool,
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
        self.target.map_or(Ok(()), |target| write!(f, "  {side} {target:.2} {verdict}"))?;
        if self.holds { write!(f, "  (the lower limit)") } else { Ok(()) }
    }
}

/// The subject of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct What {
    /// The name of a table, or of another set.
    pub(crate) system: &'static str,
    /// The set that took turns with the table in these rounds.
    pub(crate) beside: Option<&'static str>,
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
            Own(work) | OwnTime(work) | Limit(work, _) => {
                return Some((rate, self.median(What { work, ..what })?));
            }
            HalfLimit(work) => return Some((rate, self.median(What { work, ..what })? / 2.0)),
            OneRank(_) => return Some((rate, self.median(What { threads: 1, ..what })?)),
            BestSet(work) => (work, true),
            UnsharedSet(work) => (work, false),
        };
        let sets = Kind::ALL.into_iter().filter(|kind| kind.is_concurrent() == is_concurrent);
        let rate_of = |set| Some((self.median(What { system: set, work, ..what })?, set));
        let rates = sets.filter_map(|kind| rate_of(kind.name()));
        let (divisor, set) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some((self.median(What { beside: Some(set), ..what }).unwrap_or(rate), divisor))
    }

    /// Returns a row for each ratio of keys of this width that was measured. Targets are those of
    /// the first table.
    pub(crate) fn rows(&self, words: usize, tables: &[Variant]) -> Vec<Row> {
        let mut rows = Vec::new();
        for &(threads, name, work, by, targets) in ratios(words) {
            for load in LOADS {
                for (at, &Variant { name: system, .. }) in tables.iter().enumerate() {
                    let what = What { system, beside: None, threads, load, work };
                    let Some((rate, divisor)) = self.pair(what, by) else { continue };
                    let target = match by {
                        OneRank(limit) => {
                            let limits = self.pair(What { work: limit, ..what }, by);
                            limits.map(|(two, one)| (two / one).min(SCALING))
                        }
                        _ => targets.iter().find(|(of, _)| *of == load).map(|(_, ratio)| *ratio),
                    };
                    let other = |limit| self.median(What { work: limit, ..what });
                    let holds = match by {
                        Limit(_, limit) => other(limit).is_none_or(|other| divisor <= other),
                        _ => false,
                    };
                    let is_time = matches!(by, OwnTime(_));
                    let unit = |rate| if is_time { 1e9 / rate } else { rate / 1e6 };
                    let ranks = if threads == 1 { "1 rank" } else { "2 ranks" };
                    rows.push(Row {
                        name,
                        case: format!("{ranks}, load 0.{}, {system}", load / 100),
                        is_time,
                        measured: unit(rate),
                        baseline: unit(divisor),
                        target: target.filter(|_| at == 0),
                        holds,
                    });
                }
            }
        }
        rows
    }
}
