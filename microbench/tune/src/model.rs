//! The model of the time that an operation takes.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use probeline_table::{OneRoundtrip, ReadAhead};

use crate::fit::{Fit, LEAST_FACTOR, MOST_FACTOR};
use crate::rates::between;
use crate::{Candidate, Lengths, Rates, Timing};

/// The use of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Workload {
    /// The share of the buckets that are occupied, 0 to 0.95.
    pub load_factor: f64,
    /// The share of operations that insert, 0 to 1. The others find keys of the table, each with
    /// the same probability.
    pub insert_share: f64,
    /// The number of keys in the table.
    pub held: u64,
}

/// The table's own overhead, by operations in flight, from short runs.
pub type Overhead = BTreeMap<u32, Own>;

/// The overhead at one number of operations in flight. If the CPU accesses all buckets itself, only
/// `call_ns` and `cache_ns` apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    /// Nanoseconds of an operation without its READs and claims. Negative if a claim hits a cache
    /// line that its READ has loaded; then at most the time of the claims in magnitude.
    pub call_ns: f64,
    /// Time of an operation's first READ / time of a READ of random words.
    pub read_factor: f64,
    /// The same ratio for further READs, which continue where the previous one ends: a CPU has
    /// prefetched some of those words, a network has not.
    pub next_factor: f64,
    /// Time of a READ that is posted together with that of the next chunk / its time alone.
    pub ahead_factor: f64,
    /// The serialized share of READs and claims, relative to the shorter of the two: 1 if one CPU
    /// executes both, 0 if a device executes them in parallel.
    pub one_by_one: f64,
    /// Additional nanoseconds of an operation that claims along with its first READ.
    pub one_roundtrip_claim_ns: f64,
    /// Additional nanoseconds of each operation if there is a cache.
    pub cache_ns: f64,
    /// Measured time of a plain run / its time by all other fields, by C: effects that the
    /// model does not contain. Other values of C are interpolated.
    pub plain_factors: BTreeMap<u32, f64>,
    /// Whether a field is at a bound of its accepted range, so that the runs contradict the model.
    pub pinned: bool,
}

impl Default for Own {
    /// No overhead beyond the transport.
    fn default() -> Self {
        Self {
            call_ns: 0.0,
            read_factor: 1.0,
            next_factor: 1.0,
            ahead_factor: 1.0,
            one_by_one: 1.0,
            one_roundtrip_claim_ns: 0.0,
            cache_ns: 0.0,
            plain_factors: BTreeMap::new(),
            pinned: false,
        }
    }
}

impl Own {
    fn plain_factor(&self, candidate: &Candidate) -> f64 {
        if self.plain_factors.is_empty() {
            return 1.0;
        }
        between(&self.plain_factors, candidate.chunk_buckets, |factor| *factor)
    }
}

/// The number of steps in the search for `one_by_one`.
const SHARES: u32 = 10;

/// The accepted range of `plain_factors`.
const PLAIN_FACTORS: RangeInclusive<f64> = 0.8..=1.25;

/// The model: the measurements, and the workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// The measured times of the transport.
    pub rates: Rates,
    /// The number of buckets that operations probe at the table's load factor.
    pub lengths: Lengths,
    /// The use of the table.
    pub workload: Workload,
    /// The overhead if the table uses READs and claims.
    pub by_reads: Overhead,
    /// The overhead if the CPU accesses all buckets itself.
    pub direct: Overhead,
}

/// The mean READs and claims of an operation.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// READs that the operation waits for, one after the other.
    reads_waited: Reads,
    /// READs posted alone, and READs posted with or as read-ahead.
    reads_alone: Reads,
    reads_paired: Reads,
    /// Claims that the operation waits for after READs, and all claims posted.
    swaps_waited: f64,
    swaps_posted: f64,
    /// First READs with a claim that complete the operation.
    both_waited: f64,
    /// Claims posted along with the first READ.
    swaps_first: f64,
}

/// READs of an operation: the first ones, and those that continue where the previous one ends.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    first: f64,
    next: f64,
}

impl Reads {
    /// Adds the READs of a share of operations. `first` is whether the first READ is among them.
    fn add(&mut self, share: f64, reads: u32, first: bool) {
        let firsts = u32::from(first).min(reads);
        self.first += share * f64::from(firsts);
        self.next += share * f64::from(reads - firsts);
    }

    /// Returns the equivalent number of READs of random words.
    fn random(self, own: &Own) -> f64 {
        self.first * own.read_factor + self.next * own.next_factor
    }
}

fn claims_in_one_roundtrip(candidate: &Candidate) -> bool {
    candidate.one_roundtrip == OneRoundtrip::On
}

/// Returns whether the candidate waits for each request before it posts the next one.
fn is_plain(candidate: &Candidate) -> bool {
    let ahead = candidate.read_ahead != ReadAhead::Never;
    !ahead && !claims_in_one_roundtrip(candidate) && candidate.cache_entries == 0
}

impl Model {
    /// Returns the nanoseconds that a rank takes for each operation: the table's own work plus the
    /// longer of two times.
    ///
    /// - The latency of an operation, divided by the operations in flight: each READ or claim that
    ///   it waits for, at the measured time for that depth.
    /// - The work of an operation: each READ or claim that it posts, at the measured time for the
    ///   number of requests that are then in flight. READs and claims overlap, except for the
    ///   share `one_by_one` of the shorter of the two.
    ///
    /// An operation takes at least the minimum time of its READs.
    #[must_use]
    pub fn time_ns(&self, candidate: &Candidate) -> f64 {
        let own = self.own(candidate);
        let hits = self.cache_hits(candidate);
        let missed = match candidate.direct {
            true => own.call_ns,
            false => self.by_reads_ns(candidate, &own),
        };
        let cache_ns = if candidate.cache_entries > 0 { own.cache_ns } else { 0.0 };
        missed * (1.0 - hits) + cache_ns
    }

    /// Returns the time of an operation that the cache does not answer.
    fn by_reads_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let one_roundtrip_claim_ns =
            if claims_in_one_roundtrip(candidate) { own.one_roundtrip_claim_ns } else { 0.0 };
        let ns = own.call_ns + self.transport_ns(candidate, own) + one_roundtrip_claim_ns;
        own.plain_factor(candidate) * ns.max(self.least_ns(candidate, own))
    }

    /// Returns the times of all of `candidates`.
    #[must_use]
    pub fn times(&self, candidates: &[Candidate]) -> Vec<Timing> {
        candidates.iter().map(|candidate| (*candidate, self.time_ns(candidate))).collect()
    }

    /// Returns the model without the short `runs` that have the candidate's depth and C, so that
    /// its prediction for the candidate is independent of them.
    #[must_use]
    pub fn without(&self, candidate: &Candidate, runs: &[Timing]) -> Self {
        let others = runs.iter().filter(|(run, _)| {
            run.depth == candidate.depth
                && run.chunk_buckets != candidate.chunk_buckets
                && !run.direct
        });
        let (others, ns): (Vec<_>, Vec<_>) = others.copied().unzip();
        let mut model = self.clone();
        model.by_reads.insert(candidate.depth, self.calibrated(&others, &ns));
        model
    }

    /// Returns the overhead at the candidate's depth, or at the nearest smaller one.
    fn own(&self, candidate: &Candidate) -> Own {
        let overhead = if candidate.direct { &self.direct } else { &self.by_reads };
        let own = overhead.range(..=candidate.depth).next_back();
        own.map(|(_, own)| own.clone()).unwrap_or_default()
    }

    /// Returns the overhead of a depth, given short runs of `candidates` that took `ns`
    /// nanoseconds.
    ///
    /// The first run is a plain one. If the CPU accesses all buckets itself, the other one has a
    /// cache. Otherwise there are also plain runs with other values of C, one with claims along
    /// with the first READ, and one that always reads ahead; the C of the latter two must be that
    /// of a plain run.
    #[must_use]
    pub fn calibrated(&self, candidates: &[Candidate], ns: &[f64]) -> Own {
        let runs: Vec<_> = candidates.iter().zip(ns.iter().copied()).collect();
        let Some(&(first, plain_ns)) = runs.first() else { return Own::default() };
        let mut own = match first.direct {
            true => Own { call_ns: plain_ns, ..Own::default() },
            false => self.plainly(runs.iter().copied().filter(|(run, _)| is_plain(run))),
        };
        let find = |of: fn(&Candidate) -> bool| runs.iter().copied().find(|(run, _)| of(run));
        if let Some((claims, ns)) = find(claims_in_one_roundtrip) {
            let ns = ns / own.plain_factor(claims);
            (own.one_by_one, own.one_roundtrip_claim_ns) = self.claims_along(claims, ns, &own);
        }
        if let Some((ahead, ns)) = find(|run| run.read_ahead == ReadAhead::Always) {
            let factor = self.ahead_factor(ahead, ns / own.plain_factor(ahead), &own);
            own.ahead_factor = factor.clamp(LEAST_FACTOR, MOST_FACTOR);
            own.pinned |= own.ahead_factor.to_bits() != factor.to_bits();
        }
        if let Some((cached, ns)) = find(|run| run.cache_entries > 0) {
            // A cache saves the whole time of the operations that it answers.
            own.cache_ns = (ns - plain_ns * (1.0 - self.cache_hits(cached))).max(0.0);
        }
        own
    }

    /// Returns the table's own work and the factors of READs, from plain runs. They differ in C:
    /// the larger C is, the fewer and the longer are READs after the first.
    fn plainly<'c>(&self, runs: impl Iterator<Item = (&'c Candidate, f64)> + Clone) -> Own {
        let mut fit = Fit::new();
        for (run, ns) in runs.clone() {
            let Demand { reads_waited: reads, swaps_waited, .. } = self.demand(run);
            let read = self.rates.read_ns(run.chunk_buckets, run.depth);
            let swaps = swaps_waited * self.rates.swap_ns(run.depth);
            fit.run(ns, swaps, [reads.first * read, reads.next * read]);
        }
        let fitted = fit.solve();
        let [call_ns, read_factor, next_factor] = fitted.unknowns;
        let mut own =
            Own { call_ns, read_factor, next_factor, pinned: fitted.pinned, ..Own::default() };
        let factor = |(run, ns): (&Candidate, f64)| {
            (run.chunk_buckets, ns / self.by_reads_ns(run, &own).max(1e-3))
        };
        let plain_factors: BTreeMap<u32, f64> = runs.map(factor).collect();
        own.pinned |= plain_factors.values().any(|factor| !PLAIN_FACTORS.contains(factor));
        own.plain_factors = plain_factors;
        own
    }

    /// Returns the serialized share of READs and claims that best fits a run with claims along with
    /// the first READ, and the additional time of that run beyond the prediction. The share is 1 if
    /// none fits, and the additional time is at least 0, because the model already contains the
    /// saved time.
    fn claims_along(&self, claims: &Candidate, ns: f64, own: &Own) -> (f64, f64) {
        let shares = (0..=SHARES).rev().map(|share| f64::from(share) / f64::from(SHARES));
        let fits = shares.map(|one_by_one| {
            let own = Own { one_by_one, ..own.clone() };
            (one_by_one, ns - own.call_ns - self.transport_ns(claims, &own))
        });
        let nearer = |one: (f64, f64), other: (f64, f64)| {
            if other.1.abs() < one.1.abs() { other } else { one }
        };
        let (one_by_one, longer) = fits.reduce(nearer).unwrap_or((1.0, 0.0));
        (one_by_one, longer.max(0.0))
    }

    /// Returns the factor by which read-ahead lengthens the work of a run; 1 if latency determines
    /// the time of the run.
    fn ahead_factor(&self, ahead: &Candidate, ns: f64, own: &Own) -> f64 {
        let demand = self.demand(ahead);
        let took = ns - own.call_ns;
        if took <= self.way_ns(ahead, &demand, own) {
            return 1.0;
        }
        let work = self.work_ns(ahead, &demand, own);
        let twice = self.work_ns(ahead, &demand, &Own { ahead_factor: 2.0, ..own.clone() });
        let of_reads = twice - work;
        if of_reads <= 0.0 {
            return 1.0;
        }
        1.0 + (took - work) / of_reads
    }

    /// Returns the time of the transport, with the factors of READs applied.
    fn transport_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let demand = self.demand(candidate);
        let way = self.way_ns(candidate, &demand, own);
        way.max(self.work_ns(candidate, &demand, own))
    }

    /// Returns the minimum time of the READs. It uses factors below 1 from short runs, so that the
    /// prediction for a run does not exceed its measurement.
    fn least_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let demand = self.demand(candidate);
        let (read_factor, next_factor) = (own.read_factor.min(1.0), own.next_factor.min(1.0));
        let fast = Own { read_factor, next_factor, ..own.clone() };
        let reads = demand.reads_alone.random(&fast) + demand.reads_paired.random(&fast);
        reads * self.rates.read_least_ns(candidate.chunk_buckets)
    }

    /// Returns the mean time from start to completion. By Little's law (1961) it is the time per
    /// operation times the operations in flight.
    #[must_use]
    pub fn latency_ns(&self, candidate: &Candidate) -> f64 {
        self.time_ns(candidate) * f64::from(candidate.depth.max(1))
    }

    /// Returns the share of operations that the cache answers if all finds are equally likely. Of
    /// the entries that have a key, one in e is overwritten by another.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn cache_hits(&self, candidate: &Candidate) -> f64 {
        let part = f64::from(candidate.cache_entries) / self.workload.held.max(1) as f64;
        (1.0 - self.workload.insert_share) * part * -(-1.0 / part.max(1e-12)).exp_m1()
    }

    fn way_ns(&self, candidate: &Candidate, demand: &Demand, own: &Own) -> f64 {
        let read = self.rates.read_ns(candidate.chunk_buckets, candidate.depth);
        let swap = self.rates.swap_ns(candidate.depth);
        demand.reads_waited.random(own) * read
            + demand.swaps_waited * swap
            + demand.both_waited * (own.read_factor * read).max(swap)
    }

    fn work_ns(&self, candidate: &Candidate, demand: &Demand, own: &Own) -> f64 {
        let at_once = |ahead: u32| {
            candidate.depth * (1 + ahead + u32::from(claims_in_one_roundtrip(candidate)))
        };
        let read = |ahead| self.rates.read_ns(candidate.chunk_buckets, at_once(ahead));
        let paired = own.ahead_factor * demand.reads_paired.random(own);
        let reads = demand.reads_alone.random(own) * read(0) + paired * read(1);
        let swaps = demand.swaps_first * self.rates.swap_ns(at_once(0))
            + demand.swaps_waited * self.rates.swap_ns(candidate.depth);
        reads.max(swaps) + own.one_by_one * reads.min(swaps)
    }

    fn demand(&self, candidate: &Candidate) -> Demand {
        let ahead_from = self.ahead_from(candidate);
        let mut demand = Demand::default();
        for inserts in [false, true] {
            let share = self.share(inserts);
            for (buckets, part) in self.lengths.of(inserts) {
                demand.add(candidate, ahead_from, inserts, buckets, share * part);
            }
        }
        demand
    }

    fn share(&self, inserts: bool) -> f64 {
        let share = self.workload.insert_share;
        if inserts { share } else { 1.0 - share }
    }

    /// Returns the first chunk, counted from 0, at which the next one is read ahead.
    fn ahead_from(&self, candidate: &Candidate) -> u32 {
        match candidate.read_ahead {
            ReadAhead::Always => 0,
            ReadAhead::Never => u32::MAX,
            ReadAhead::Likely => {
                let most = candidate.max_chunks.min(MOST_LIKELY);
                let goes_on = |chunks: u32| {
                    let came = self.beyond(chunks * candidate.chunk_buckets);
                    came > 0.0 && self.beyond((chunks + 1) * candidate.chunk_buckets) > came / 2.0
                };
                (0..most).find(|&chunks| goes_on(chunks)).unwrap_or(u32::MAX)
            }
        }
    }

    /// Returns the share of operations that probe more than `buckets`.
    fn beyond(&self, buckets: u32) -> f64 {
        let of = |inserts| {
            let further = self.lengths.of(inserts).filter(|(length, _)| *length > buckets);
            self.share(inserts) * further.map(|(_, share)| share).sum::<f64>()
        };
        of(false) + of(true)
    }
}

/// The last chunk at which `Likely` may begin to read ahead.
const MOST_LIKELY: u32 = 64;

impl Demand {
    /// Adds a share of operations that probe this number of buckets.
    fn add(
        &mut self,
        candidate: &Candidate,
        ahead_from: u32,
        inserts: bool,
        buckets: u32,
        share: f64,
    ) {
        if claims_in_one_roundtrip(candidate) {
            self.swaps_posted += share;
            self.swaps_first += share;
        }
        if claims_in_one_roundtrip(candidate) && inserts && buckets == 1 {
            self.both_waited += share;
            let ahead = u32::from(ahead_from == 0 && candidate.max_chunks > 1);
            self.reads_alone.add(share, 1 - ahead, true);
            self.reads_paired.add(share, 2 * ahead, true);
            return;
        }
        let chunks = buckets.div_ceil(candidate.chunk_buckets);
        let alone = chunks.min(ahead_from);
        // With read-ahead, two READs complete together.
        let waited = alone + (chunks - alone).div_ceil(2);
        let ahead = u32::from(chunks > ahead_from && chunks < candidate.max_chunks);
        self.reads_waited.add(share, waited, true);
        self.reads_alone.add(share, alone, true);
        self.reads_paired.add(share, chunks - alone + ahead, alone == 0);
        if inserts {
            self.swaps_waited += share;
            self.swaps_posted += share;
        }
    }
}
