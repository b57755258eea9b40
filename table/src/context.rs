//! The state that all operations of a table share.

use probeline_transport::{AtomicScope, Transport};

use crate::bucket::Wanted;
use crate::cache::{Cache, CacheEntry};
use crate::config::Config;
use crate::direct::{Direct, LineOutcome, reached};
use crate::layout::Layout;
use crate::outcome::{Ended, Intent};
use crate::policy::Policy;
use crate::stats::{OutcomeStats, Stats};
use crate::walk::Walk;
use probeline_transport::line::{Line, Narrow};

#[derive(Clone, Debug)]
pub struct Context<C> {
    pub(crate) layout: Layout,
    /// The probe limit, in buckets.
    pub(crate) probe_limit: u64,
    pub(crate) direct: Direct,
    /// `Caps::word_reads_whole`.
    pub(crate) words_whole: bool,
    pub(crate) cache: Cache<C>,
    pub(crate) policy: Policy,
    pub(crate) stats: Stats,
    /// Enables a mutant of the model check: the cache stores torn words.
    #[cfg(test)]
    pub(crate) learns_torn_words: bool,
}

/// Hashes the cache for the model check. The policy is fixed there, so only the cache determines
/// what operations do.
#[cfg(test)]
impl<C: core::hash::Hash> core::hash::Hash for Context<C> {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.cache.hash(hasher);
    }
}

impl<C: AsMut<[CacheEntry]>> Context<C> {
    pub(crate) fn new(
        transport: &impl Transport,
        layout: Layout,
        config: &Config,
        entries: C,
    ) -> Self {
        let wanted = config.direct && reached(transport, &layout).any(|reached| reached);
        let reaches_all = reached(transport, &layout).all(|reached| reached);
        let mut policy = Policy::new(config);
        if reaches_all && transport.caps().atomics == AtomicScope::Cpu {
            policy.expect_no_roundtrips();
        }
        Self {
            layout,
            probe_limit: config.probe_limit(layout.owners()),
            direct: Direct::allowed(wanted, transport.caps()),
            words_whole: transport.caps().word_reads_whole,
            cache: Cache::new(entries),
            policy,
            stats: Stats::default(),
            #[cfg(test)]
            learns_torn_words: false,
        }
    }

    pub(crate) fn with_cache<D: AsMut<[CacheEntry]>>(self, entries: D) -> Context<D> {
        Context {
            layout: self.layout,
            probe_limit: self.probe_limit,
            direct: self.direct,
            words_whole: self.words_whole,
            cache: Cache::new(entries),
            policy: self.policy,
            stats: self.stats,
            #[cfg(test)]
            learns_torn_words: self.learns_torn_words,
        }
    }

    #[inline(always)]
    pub(crate) fn walk<B: Wanted>(&self, bucket: B, intent: Intent) -> Walk<B> {
        Walk::new(bucket, intent, self.probe_limit, &self.layout)
    }

    /// Advances `walk` past the buckets that the cache knows. Returns true if the cache has the
    /// wanted one.
    #[inline]
    pub(crate) fn follow_cache(&mut self, walk: &mut Walk<impl Wanted>) -> bool {
        let found = self.cache.is_on() && self.cache.follow(walk, &self.layout);
        if found {
            let hit = OutcomeStats { operations: 1, cache_hits: 1, ..OutcomeStats::default() };
            self.stats.add(Ended::Found, &hit);
        }
        found
    }

    /// Lets `walk` examine `line`, and counts an operation that ends there.
    #[inline]
    pub(crate) fn scan_line(&mut self, walk: &mut Walk<impl Wanted>, line: &Line) -> LineOutcome {
        let outcome = walk.scan_line::<Narrow>(line, &self.layout);
        if let LineOutcome::Done(ended) = outcome {
            self.stats.add_direct(ended, 1, walk.lines.into());
        }
        outcome
    }

    /// Lets `walk` examine lines until it ends, and returns the outcome with the last line. Returns
    /// `None` at a line that the CPU cannot address.
    #[inline(always)]
    pub(crate) fn scan_lines<'t>(
        &mut self,
        walk: &mut Walk<impl Wanted>,
        transport: &'t impl Transport,
    ) -> Option<(Ended, &'t Line)> {
        // Each iteration passes one line within the probe limit.
        while let Some(line) = walk.line(transport, &self.layout) {
            if let LineOutcome::Done(outcome) = self.scan_line(walk, line) {
                return Some((outcome, line));
            }
        }
        None
    }

    /// Returns whether the cache learns all buckets that a scan passes, or only the one at which it
    /// stops.
    #[inline]
    pub(crate) fn learns_all(&self) -> bool {
        #[cfg(test)]
        if self.learns_torn_words {
            return true;
        }
        self.words_whole
    }

    /// Drops what was learnt of the buckets, because they change.
    pub(crate) fn forget(&mut self, config: &Config) {
        self.cache.forget();
        self.policy.forget(config);
    }
}
