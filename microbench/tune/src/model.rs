//! What an operation takes, and which candidate takes least.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use probeline_table::{FirstClaim, ReadAhead};

use crate::fit::{Fit, LEAST_FACTOR, MOST_FACTOR};
use crate::rates::between;
use crate::{Candidate, Lengths, Rates, Timing};

/// What the table is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Workload {
    /// Buckets occupied, 0 to 0.95.
    pub load_factor: f64,
    /// Operations that insert, 0 to 1; the others find data that is there, each as likely.
    pub insert_share: f64,
    /// Data in the table.
    pub held: u64,
}

/// The table's own overhead, by operations in flight, from short runs.
pub type Overhead = BTreeMap<u32, Own>;

/// The overhead with one number of operations in flight. If the CPU accesses all buckets itself,
/// only `call_ns` has an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    /// Nanoseconds of an operation beside its READs and claims; less than nothing where the claim
    /// finds in a cache what the READ has brought there, by what claims take at most.
    pub call_ns: f64,
    /// What an operation's first READ takes, by what READs of random words take.
    pub read_factor: f64,
    /// The same of READs behind the first, which go on where the one before ends: a CPU has fetched
    /// some of those words meanwhile, a network has not.
    pub next_factor: f64,
    /// What a READ takes more where it goes along with the next chunk's, as a multiple.
    pub ahead_factor: f64,
    /// The share of the shorter of the two that READs and claims take one after the other: 1 where
    /// one CPU does both, 0 where a device does them side by side.
    pub one_by_one: f64,
    /// Nanoseconds more of an operation that claims along with its first READ.
    pub first_claim_ns: f64,
    /// Nanoseconds more of an operation that a cache does not answer.
    pub cache_ns: f64,
    /// By C, what a plain run took by what all of this says of it: what the model has no name for.
    /// Of another C it is on the line between the next ones.
    pub plain_factors: BTreeMap<u32, f64>,
    /// Whether one of these would be less or more than is within reason, so that the runs do not
    /// add up as the model has it.
    pub pinned: bool,
}

impl Default for Own {
    /// Nothing beside the transport.
    fn default() -> Self {
        Self {
            call_ns: 0.0,
            read_factor: 1.0,
            next_factor: 1.0,
            ahead_factor: 1.0,
            one_by_one: 1.0,
            first_claim_ns: 0.0,
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

/// Steps in which the share of what goes one by one is looked for.
const SHARES: u32 = 10;

/// What a plain run may take by what the model says of it, within reason.
const PLAIN_FACTORS: RangeInclusive<f64> = 0.8..=1.25;

/// The model: what was measured, and of what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// The transport.
    pub rates: Rates,
    /// The table, filled so far.
    pub lengths: Lengths,
    /// What it is used for.
    pub workload: Workload,
    /// What short runs say where it goes by READs and claims.
    pub by_reads: Overhead,
    /// The same where the CPU reaches all buckets itself.
    pub direct: Overhead,
}

/// READs and claims of an operation, the mean.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// READs waited for one after the other.
    reads_waited: Reads,
    /// READs posted: without the next one, and with it.
    reads_alone: Reads,
    reads_paired: Reads,
    /// Claims waited for, after READs; and all.
    swaps_waited: f64,
    swaps_posted: f64,
    /// First READs that a claim goes along with and that end the operation.
    both_waited: f64,
    /// Claims posted along with the first READ.
    swaps_first: f64,
}

/// READs of an operation: the first, and those that go on where the one before ends.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    first: f64,
    next: f64,
}

impl Reads {
    /// Adds READs of a share of operations, with the `first` one among them or not.
    fn add(&mut self, share: f64, reads: u32, first: bool) {
        let firsts = u32::from(first).min(reads);
        self.first += share * f64::from(firsts);
        self.next += share * f64::from(reads - firsts);
    }

    /// In READs of random words.
    fn random(self, own: &Own) -> f64 {
        self.first * own.read_factor + self.next * own.next_factor
    }
}

fn claims_first(candidate: &Candidate) -> bool {
    candidate.first_claim == FirstClaim::On
}

/// Whether it waits for all that it posts, one after the other.
fn is_plain(candidate: &Candidate) -> bool {
    let ahead = candidate.read_ahead != ReadAhead::Never;
    !ahead && !claims_first(candidate) && candidate.cache_entries == 0
}

impl Model {
    /// Nanoseconds that a rank takes for each operation: the longer one of two, and the table's own
    /// work. One is the way from its begin to its end, a share of it with many in flight: each READ
    /// or claim that is waited for, at the time that one takes with so many in flight. The other is
    /// the work: each that is posted, at the time that one takes where as many are in flight as it
    /// posts at once, READs and claims side by side as far as the transport does them so. No
    /// operation takes less than its READs do at best.
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

    /// What an operation takes that no cache answers.
    fn by_reads_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let first_claim_ns = if claims_first(candidate) { own.first_claim_ns } else { 0.0 };
        let ns = own.call_ns + self.transport_ns(candidate, own) + first_claim_ns;
        own.plain_factor(candidate) * ns.max(self.least_ns(candidate, own))
    }

    /// The times of all of `candidates`.
    #[must_use]
    pub fn times(&self, candidates: &[Candidate]) -> Vec<Timing> {
        candidates.iter().map(|candidate| (*candidate, self.time_ns(candidate))).collect()
    }

    /// The same without what those of the short `runs` took that have the candidate's depth and C:
    /// what it expects of the candidate is no repetition of a run.
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

    /// Of its depth, or of the nearest one below.
    fn own(&self, candidate: &Candidate) -> Own {
        let overhead = if candidate.direct { &self.direct } else { &self.by_reads };
        let own = overhead.range(..=candidate.depth).next_back();
        own.map(|(_, own)| own.clone()).unwrap_or_default()
    }

    /// What short runs of `candidates` that took `ns` say of a depth, the first a plain one. Where
    /// the CPU reaches all buckets: that, and one with a cache. Else further: plain ones with other
    /// C, one with claims along with the first READ, and one with the next chunk always ahead, each
    /// of these two with a C of a plain one.
    #[must_use]
    pub fn calibrated(&self, candidates: &[Candidate], ns: &[f64]) -> Own {
        let runs: Vec<_> = candidates.iter().zip(ns.iter().copied()).collect();
        let Some(&(first, plain_ns)) = runs.first() else { return Own::default() };
        let mut own = match first.direct {
            true => Own { call_ns: plain_ns, ..Own::default() },
            false => self.plainly(runs.iter().copied().filter(|(run, _)| is_plain(run))),
        };
        let find = |of: fn(&Candidate) -> bool| runs.iter().copied().find(|(run, _)| of(run));
        if let Some((claims, ns)) = find(claims_first) {
            let ns = ns / own.plain_factor(claims);
            (own.one_by_one, own.first_claim_ns) = self.claims_along(claims, ns, &own);
        }
        if let Some((ahead, ns)) = find(|run| run.read_ahead == ReadAhead::Always) {
            let factor = self.ahead_factor(ahead, ns / own.plain_factor(ahead), &own);
            own.ahead_factor = factor.clamp(LEAST_FACTOR, MOST_FACTOR);
            own.pinned |= own.ahead_factor.to_bits() != factor.to_bits();
        }
        if let Some((cached, ns)) = find(|run| run.cache_entries > 0) {
            // A cache spares what it answers, and nothing else.
            own.cache_ns = (ns - plain_ns * (1.0 - self.cache_hits(cached))).max(0.0);
        }
        own
    }

    /// The table's own work and what its READs take, by runs that wait for all that they post: the
    /// larger C, the fewer READs go on behind the first, and the longer each is.
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

    /// The share of READs and claims one by one that fits a run with claims along with the first
    /// READ best, all of it where none does; and by how much longer than so it took, which is
    /// nothing where it took less: what it spares is in the model already.
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

    /// By what the work of a run with the next chunk always ahead is more; 1 where it is the way
    /// that counts.
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

    /// What the transport takes where READs take such multiples of what was measured.
    fn transport_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let demand = self.demand(candidate);
        let way = self.way_ns(candidate, &demand, own);
        way.max(self.work_ns(candidate, &demand, own))
    }

    /// READs alone, as fast as ever: those that short runs found faster than random ones are so
    /// here, lest a run take longer by the model than it took.
    fn least_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let demand = self.demand(candidate);
        let (read_factor, next_factor) = (own.read_factor.min(1.0), own.next_factor.min(1.0));
        let fast = Own { read_factor, next_factor, ..own.clone() };
        let reads = demand.reads_alone.random(&fast) + demand.reads_paired.random(&fast);
        reads * self.rates.read_least_ns(candidate.chunk_buckets)
    }

    /// The mean time from begin to end: of so many in flight each takes as long as all together
    /// (Little, 1961).
    #[must_use]
    pub fn latency_ns(&self, candidate: &Candidate) -> f64 {
        self.time_ns(candidate) * f64::from(candidate.depth.max(1))
    }

    /// The share of operations that the cache answers, finds all being as likely: of those that it
    /// has room for, one entry in e is another's.
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
        let at_once =
            |ahead: u32| candidate.depth * (1 + ahead + u32::from(claims_first(candidate)));
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

    /// From which chunk on, counted from 0, the next one is requested ahead.
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

    /// The share of operations that look at more buckets.
    fn beyond(&self, buckets: u32) -> f64 {
        let of = |inserts| {
            let further = self.lengths.of(inserts).filter(|(length, _)| *length > buckets);
            self.share(inserts) * further.map(|(_, share)| share).sum::<f64>()
        };
        of(false) + of(true)
    }
}

/// Chunks after which nothing is read ahead that was not before.
const MOST_LIKELY: u32 = 64;

impl Demand {
    /// Operations of this length, a share of all.
    fn add(
        &mut self,
        candidate: &Candidate,
        ahead_from: u32,
        inserts: bool,
        buckets: u32,
        share: f64,
    ) {
        if claims_first(candidate) {
            self.swaps_posted += share;
            self.swaps_first += share;
        }
        if claims_first(candidate) && inserts && buckets == 1 {
            self.both_waited += share;
            let ahead = u32::from(ahead_from == 0 && candidate.max_chunks > 1);
            self.reads_alone.add(share, 1 - ahead, true);
            self.reads_paired.add(share, 2 * ahead, true);
            return;
        }
        let chunks = buckets.div_ceil(candidate.chunk_buckets);
        let alone = chunks.min(ahead_from);
        // With one ahead two come together.
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
