//! What was measured by what it is to be measured by.

use super::peers::{Dashmap, Hashbrown, Papaya, Peer, Scc, SccIndex};
use super::samples::{Doing, Form, Samples, What};

/// The sets that several threads share.
const CONCURRENT: [&str; 4] = [Dashmap::NAME, Papaya::NAME, Scc::NAME, SccIndex::NAME];

/// Ratios of one order at one load factor; `None` where something was not measured.
#[derive(Clone, Copy)]
pub(crate) struct Ratios<'a> {
    pub(crate) samples: &'a Samples,
    pub(crate) order: &'static str,
    pub(crate) load: f64,
}

impl Ratios<'_> {
    fn what(&self, threads: usize, doing: Doing, form: Form) -> What {
        What { system: self.order, threads, load: self.load, doing, form }
    }

    fn rate(&self, threads: usize, doing: Doing, form: Form) -> Option<f64> {
        self.samples.rate(self.what(threads, doing, form))
    }

    fn limit(&self, threads: usize, doing: Doing, form: Form) -> Option<f64> {
        self.samples.limits(self.order, threads, self.load)?.of(doing, form)
    }

    /// A rate by its limit.
    pub(crate) fn of_limit(&self, threads: usize, doing: Doing, form: Form) -> Option<f64> {
        Some(self.rate(threads, doing, form)? / self.limit(threads, doing, form)?)
    }

    /// Batched by blocking.
    pub(crate) fn batched_by_blocking(&self, threads: usize, doing: Doing) -> Option<f64> {
        let batched = self.rate(threads, doing, Form::Batched)?;
        Some(batched / self.rate(threads, doing, Form::Blocking)?)
    }

    /// How many dependent memory accesses an operation that is waited for takes as long as.
    pub(crate) fn accesses(&self, threads: usize, doing: Doing) -> Option<f64> {
        Some(1.0 / self.of_limit(threads, doing, Form::Blocking)?)
    }

    /// Two ranks by one: what the table does of it, and what the limit does.
    pub(crate) fn scaling(&self, doing: Doing, form: Form) -> Option<(f64, f64)> {
        let table = self.rate(2, doing, form)? / self.rate(1, doing, form)?;
        Some((table, self.limit(2, doing, form)? / self.limit(1, doing, form)?))
    }

    /// Batched by the fastest set that threads can share, and which that is.
    pub(crate) fn by_best_peer(&self, threads: usize, doing: Doing) -> Option<(f64, &'static str)> {
        let rate = |peer| self.samples.rate(self.peer(peer, threads, doing));
        let rates = CONCURRENT.into_iter().filter_map(|peer| Some((rate(peer)?, peer)));
        let (_, best) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some((self.by_peer(best, threads, doing)?, best))
    }

    /// Batched by the set that one thread has for itself.
    pub(crate) fn by_hashbrown(&self, doing: Doing) -> Option<f64> {
        self.by_peer(Hashbrown::NAME, 1, doing)
    }

    /// Of the same rounds, where there are such.
    fn by_peer(&self, peer: &'static str, threads: usize, doing: Doing) -> Option<f64> {
        let what = self.what(threads, doing, Form::Batched);
        let beside = self.samples.rate_beside(what, Some(peer));
        let table = beside.or_else(|| self.samples.rate(what))?;
        Some(table / self.samples.rate(self.peer(peer, threads, doing))?)
    }

    fn peer(&self, system: &'static str, threads: usize, doing: Doing) -> What {
        What { system, threads, load: self.load, doing, form: Form::Blocking }
    }
}
