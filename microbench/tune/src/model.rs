//! What an operation takes, and which candidate takes least.

use std::collections::BTreeMap;

use table::{FirstClaim, ReadAhead};

use crate::{Candidate, Lengths, Rates};

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

/// What is to be best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The mean time of an operation from begin to end.
    Latency,
    /// Operations a second, where one takes so many nanoseconds on average at most.
    Throughput {
        /// No bound if infinite.
        most_latency_ns: f64,
    },
}

/// What short runs of the table say beside the transport, by operations in flight.
pub type Overhead = BTreeMap<u32, Own>;

/// The same with so many in flight. Where the CPU reaches all buckets itself, `call_ns` is all
/// there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// Nanoseconds of an operation beside its READs and claims; less than nothing where the claim
    /// finds in a cache what the READ has brought there.
    pub call_ns: f64,
    /// What a READ of the table takes, by what it takes of random words one after the other.
    pub read_factor: f64,
    /// What a READ takes more where it goes along with the next chunk's, as a multiple.
    pub ahead_factor: f64,
    /// The share of the shorter of the two that READs and claims take one after the other: 1 where
    /// one CPU does both, 0 where a device does them side by side.
    pub one_by_one: f64,
    /// Nanoseconds more of an operation that claims along with its first READ.
    pub first_claim_ns: f64,
    /// Nanoseconds more of an operation that a cache does not answer.
    pub cache_ns: f64,
}

impl Default for Own {
    /// Nothing beside the transport.
    fn default() -> Self {
        Self {
            call_ns: 0.0,
            read_factor: 1.0,
            ahead_factor: 1.0,
            one_by_one: 1.0,
            first_claim_ns: 0.0,
            cache_ns: 0.0,
        }
    }
}

/// What a factor may be within reason.
const LEAST_FACTOR: f64 = 0.25;
const MOST_FACTOR: f64 = 4.0;
/// The share by which the large C has to take longer.
const LEAST_MORE: f64 = 0.2;

/// Steps in which the share of what goes one by one is looked for.
const SHARES: u32 = 10;

/// What is better by less is not told from chance, and the plainer candidate is chosen.
const TOLD_APART: f64 = 0.02;

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
    reads_waited: f64,
    /// READs posted: without the next one, and with it.
    reads_alone: f64,
    reads_paired: f64,
    /// Claims waited for, after READs; and all.
    swaps_waited: f64,
    swaps_posted: f64,
    /// First READs that a claim goes along with and that end the operation.
    both_waited: f64,
    /// Claims posted along with the first READ.
    swaps_first: f64,
}

fn claims_first(candidate: &Candidate) -> bool {
    candidate.first_claim == FirstClaim::On
}

impl Model {
    /// Nanoseconds that a rank takes for each operation: the longer one of two, and the table's own
    /// work. One is the way from its begin to its end, a share of it with many in flight: each READ
    /// or claim that is waited for, at the time that one takes with so many in flight. The other is
    /// the work: each that is posted, at the time that one takes where as many are in flight as it
    /// posts at once, READs and claims side by side as far as the transport does them so. No
    /// operation takes less than what it posts does at best.
    #[must_use]
    pub fn time_ns(&self, candidate: &Candidate) -> f64 {
        let own = self.own(candidate);
        let hits = self.cache_hits(candidate);
        let mut missed = own.call_ns;
        if !candidate.direct {
            missed += self.transport_ns(candidate, &own);
            missed += if claims_first(candidate) { own.first_claim_ns } else { 0.0 };
            missed = missed.max(self.least_ns(candidate));
        }
        let cache_ns = if candidate.cache_entries > 0 { own.cache_ns } else { 0.0 };
        (missed.max(0.0) * (1.0 - hits) + cache_ns).max(0.0)
    }

    /// Of its depth, or of the nearest one below.
    fn own(&self, candidate: &Candidate) -> Own {
        let overhead = if candidate.direct { &self.direct } else { &self.by_reads };
        let own = overhead.range(..=candidate.depth).next_back();
        own.map(|(_, own)| *own).unwrap_or_default()
    }

    /// What short runs of `candidates` that took `ns` say of a depth. Where the CPU reaches all
    /// buckets: plain, and with a cache. Else further: with a larger C, with claims along with the
    /// first READ, and with the next chunk always ahead.
    #[must_use]
    pub fn calibrated(&self, candidates: &[Candidate], ns: &[f64]) -> Own {
        let runs: Vec<_> = candidates.iter().zip(ns.iter().copied()).collect();
        let Some(&(_, plain_ns)) = runs.first() else { return Own::default() };
        // The share that fits claims along with the first READ best; all of it where none does.
        let fits = (0..=SHARES)
            .rev()
            .map(|share| self.calibrated_with(&runs, f64::from(share) / f64::from(SHARES)));
        let nearer = |one: (Own, f64), other: (Own, f64)| {
            if other.1.abs() < one.1.abs() { other } else { one }
        };
        let Some((mut own, first_claim_ns)) = fits.reduce(nearer) else { return Own::default() };
        // What it spares is in the model already.
        own.first_claim_ns = first_claim_ns.max(0.0);
        if let Some(&(ahead, ns)) = runs.get(4) {
            own.ahead_factor = self.ahead_factor(ahead, ns, &own);
        }
        if let Some(&(cached, ns)) = runs.get(1) {
            // A cache spares what it answers, and nothing else.
            own.cache_ns = (ns - plain_ns * (1.0 - self.cache_hits(cached))).max(0.0);
        }
        own
    }

    /// The same with such a share one by one, and how much longer than so the run took that claims
    /// along with the first READ.
    fn calibrated_with(&self, runs: &[(&Candidate, f64)], one_by_one: f64) -> (Own, f64) {
        let mut own = Own { one_by_one, ..Own::default() };
        let Some(&(plain, plain_ns)) = runs.first() else { return (own, 0.0) };
        if let Some(&(large, large_ns)) = runs.get(2) {
            let path = |candidate| self.transport_ns(candidate, &own);
            let more = path(large) - path(plain);
            // A size that hardly counts says nothing of the factor.
            if more.abs() > LEAST_MORE * path(plain) {
                own.read_factor = ((large_ns - plain_ns) / more).clamp(LEAST_FACTOR, MOST_FACTOR);
            }
        }
        own.call_ns = plain_ns;
        if !plain.direct {
            own.call_ns -= self.transport_ns(plain, &own);
        }
        let longer = runs
            .get(3)
            .map_or(0.0, |&(claims, ns)| ns - own.call_ns - self.transport_ns(claims, &own));
        (own, longer)
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
        let twice = self.work_ns(ahead, &demand, &Own { ahead_factor: 2.0, ..*own });
        let of_reads = twice - work;
        if of_reads <= 0.0 {
            return 1.0;
        }
        (1.0 + (took - work) / of_reads).clamp(LEAST_FACTOR, MOST_FACTOR)
    }

    /// What the transport takes where a READ takes such a multiple of what was measured.
    fn transport_ns(&self, candidate: &Candidate, own: &Own) -> f64 {
        let demand = self.demand(candidate);
        let way = self.way_ns(candidate, &demand, own);
        way.max(self.work_ns(candidate, &demand, own))
    }

    /// READs alone and claims alone, as fast as ever.
    fn least_ns(&self, candidate: &Candidate) -> f64 {
        let demand = self.demand(candidate);
        let reads = demand.reads_alone + demand.reads_paired;
        let reads = reads * self.rates.read_least_ns(candidate.chunk_buckets);
        reads.max(demand.swaps_posted * self.rates.swap_least_ns())
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

    /// The best of `candidates`: of those that are no worse than the best by what can be told apart,
    /// the plainest, as the first one is, and of equally plain ones the best; no C and no read-ahead
    /// is plainer than another. `None` if the bound on the latency leaves none.
    #[must_use]
    pub fn best(&self, candidates: &[Candidate], goal: Goal) -> Option<Candidate> {
        let of = |candidate: &Candidate| match goal {
            Goal::Latency => Some(self.latency_ns(candidate)),
            Goal::Throughput { most_latency_ns } => {
                let time = self.time_ns(candidate);
                (self.latency_ns(candidate) <= most_latency_ns).then_some(time)
            }
        };
        let least = candidates.iter().filter_map(of).reduce(f64::min)?;
        let near = |candidate: &&Candidate| {
            of(candidate).is_some_and(|cost| cost <= least * (1.0 + TOLD_APART))
        };
        let first = candidates.iter().find(near)?;
        let plain = |candidate: &&Candidate| {
            (candidate.cache_entries, candidate.depth, candidate.first_claim)
                == (first.cache_entries, first.depth, first.first_claim)
        };
        let alike = candidates.iter().filter(near).filter(plain);
        let costs = alike.filter_map(|candidate| Some((of(candidate)?, *candidate)));
        let best = costs.min_by(|one, other| one.0.total_cmp(&other.0));
        best.map(|(_, candidate)| candidate)
    }

    fn way_ns(&self, candidate: &Candidate, demand: &Demand, own: &Own) -> f64 {
        let read = own.read_factor * self.rates.read_ns(candidate.chunk_buckets, candidate.depth);
        let swap = self.rates.swap_ns(candidate.depth);
        demand.reads_waited * read
            + demand.swaps_waited * swap
            + demand.both_waited * read.max(swap)
    }

    fn work_ns(&self, candidate: &Candidate, demand: &Demand, own: &Own) -> f64 {
        let at_once =
            |ahead: u32| candidate.depth * (1 + ahead + u32::from(claims_first(candidate)));
        let read = |ahead| self.rates.read_ns(candidate.chunk_buckets, at_once(ahead));
        let paired = own.ahead_factor * demand.reads_paired;
        let reads = own.read_factor * (demand.reads_alone * read(0) + paired * read(1));
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
            self.reads_alone += share * f64::from(1 - ahead);
            self.reads_paired += share * f64::from(2 * ahead);
            return;
        }
        let chunks = buckets.div_ceil(candidate.chunk_buckets);
        let alone = chunks.min(ahead_from);
        // With one ahead two come together.
        let waited = alone + (chunks - alone).div_ceil(2);
        let ahead = u32::from(chunks > ahead_from && chunks < candidate.max_chunks);
        self.reads_waited += share * f64::from(waited);
        self.reads_alone += share * f64::from(alone);
        self.reads_paired += share * f64::from(chunks - alone + ahead);
        if inserts {
            self.swaps_waited += share;
            self.swaps_posted += share;
        }
    }
}
