//! The state that all operations of a tree table share, and the direct path: the CPU looks up the
//! nodes itself. [`TreeStats`] counts the nodes of keys, beside the [`Stats`](crate::Stats) of the
//! buckets.

use probeline_pipeline::counters;
use probeline_transport::Transport;

use super::cache::{PairCache, PairCacheLine};
use super::config::TreeConfig;
use super::shape::{Node, References, Shape};
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::direct::{Direct, line_at};
use crate::layout::Position;
use crate::outcome::{Ended, Intent};

#[derive(Clone, Debug)]
pub struct TreeContext<C> {
    /// The state of the searches for nodes.
    pub(crate) table: Context<[CacheEntry; 0]>,
    pub(crate) shape: Shape,
    pub(crate) cache: PairCache<C>,
    pub(crate) stats: TreeStats,
}

/// For the model check: only the cache determines what operations do.
#[cfg(test)]
impl<C: core::hash::Hash> core::hash::Hash for TreeContext<C> {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.cache.hash(hasher);
    }
}

impl<C: AsMut<[PairCacheLine]>> TreeContext<C> {
    pub(crate) fn new(transport: &impl Transport, config: &TreeConfig, lines: C) -> Self {
        let layout = config.buckets.layout(transport.geometry().owners);
        Self {
            table: Context::new(transport, layout, &config.buckets, []),
            shape: Shape::new(config.key_bits),
            cache: PairCache::new(lines),
            stats: TreeStats::default(),
        }
    }

    pub(crate) fn with_cache<D: AsMut<[PairCacheLine]>>(self, lines: D) -> TreeContext<D> {
        let Self { table, shape, stats, .. } = self;
        TreeContext { table, shape, cache: PairCache::new(lines), stats }
    }

    /// Returns the reference of a pair that the cache knows.
    #[inline(always)]
    pub(crate) fn cached(&mut self, node: Node, pair: u64) -> Option<u32> {
        if node.is_root() {
            return None;
        }
        let reference = self.cache.find(pair);
        self.stats.inner_nodes += 1;
        self.stats.cache_hits += u64::from(reference.is_some());
        reference
    }

    /// Handles the outcome of a node's find or find-or-put; `at` returns the position of its bucket,
    /// if it has one. Returns the node's reference, or the outcome with which the operation ends.
    #[inline(always)]
    pub(crate) fn on_node(
        &mut self,
        node: Node,
        pair: u64,
        outcome: Ended,
        at: impl FnOnce() -> Position,
    ) -> Result<u32, Ended> {
        let is_inserted = u64::from(outcome == Ended::Inserted);
        if node.is_root() {
            self.stats.keys_inserted += is_inserted;
            return Err(outcome);
        }
        if !outcome.has_bucket() {
            return Err(outcome);
        }
        self.stats.inner_inserted += is_inserted;
        // The configuration has checked that all numbers of buckets have 31 bits.
        #[allow(clippy::cast_possible_truncation)]
        let reference = self.table.layout.number(at()) as u32;
        self.cache.learn(pair, reference);
        Ok(reference)
    }

    /// Runs an operation by the CPU. Returns `None` where the CPU cannot address a line, or may not
    /// claim buckets: the pipeline then runs the operation, and finds the nodes inserted so far.
    #[inline]
    pub(crate) fn run_by_cpu<const W: usize>(
        &mut self,
        transport: &impl Transport,
        key: &[u64; W],
        intent: Intent,
    ) -> Option<Ended> {
        let [outcome] = self.run_group_by_cpu(transport, &[*key], intent);
        outcome
    }

    /// Runs as [`run_by_cpu`](Self::run_by_cpu), for up to `N` keys: looks up a node of all of them, then
    /// the next node, so that the cache misses of a node overlap. Returns `None` for those beyond.
    pub(crate) fn run_group_by_cpu<const W: usize, const N: usize>(
        &mut self,
        transport: &impl Transport,
        keys: &[[u64; W]],
        intent: Intent,
    ) -> [Option<Ended>; N] {
        let mut outcomes = [None; N];
        if self.table.direct != Direct::Claims {
            return outcomes;
        }
        let mut group = [const { Member::EMPTY }; N];
        let mut node = self.shape.first();
        // Each iteration looks up one node of each key.
        loop {
            for (member, key) in group.iter_mut().zip(keys) {
                self.prepare(member, node, key, transport);
            }
            for (member, outcome) in group.iter_mut().zip(&mut outcomes) {
                if member.is_pending {
                    *outcome = self.look_up(member, node, transport, intent);
                }
            }
            if node.is_root() {
                return outcomes;
            }
            node = node.next();
        }
    }

    /// Sets the reference of a node that the cache knows; otherwise prefetches the home line of its
    /// pair.
    #[inline(always)]
    fn prepare<const W: usize>(
        &mut self,
        member: &mut Member<W>,
        node: Node,
        key: &[u64; W],
        transport: &impl Transport,
    ) {
        if member.has_ended {
            return;
        }
        let pair = self.shape.pair(node, key, &member.references);
        let reference = self.cached(node, pair);
        member.is_pending = reference.is_none();
        match reference {
            Some(reference) => member.references.set(node, reference),
            None => {
                member.pair = pair;
                let layout = &self.table.layout;
                line_at(transport, layout, layout.home(Bucket::from_pair(pair)));
            }
        }
    }

    /// Looks up a node in the table. Returns the outcome of the key if it ends there.
    #[inline(always)]
    fn look_up<const W: usize>(
        &mut self,
        member: &mut Member<W>,
        node: Node,
        transport: &impl Transport,
        intent: Intent,
    ) -> Option<Ended> {
        member.is_pending = false;
        // Another key of the group may have the same node.
        let known = if node.is_root() { None } else { self.cache.find(member.pair) };
        let found = match known {
            Some(reference) => Some(Ok(reference)),
            None => {
                let mut walk = self.table.walk(Bucket::from_pair(member.pair), intent);
                self.table.scan_lines(&mut walk, transport).map(|(outcome, line)| {
                    let layout = self.table.layout;
                    self.on_node(node, member.pair, outcome, || walk.position_in(line, &layout))
                })
            }
        };
        if let Some(Ok(reference)) = found {
            member.references.set(node, reference);
            return None;
        }
        member.has_ended = true;
        found.and_then(Result::err)
    }
}

/// A key of a group.
#[derive(Clone, Copy, Debug)]
struct Member<const W: usize> {
    references: References<W>,
    pair: u64,
    /// Whether `pair` is to be looked up in the table.
    is_pending: bool,
    /// Whether the key has its outcome, or the CPU cannot address a line of it.
    has_ended: bool,
}

impl<const W: usize> Member<W> {
    const EMPTY: Self =
        Self { references: References::EMPTY, pair: 0, is_pending: false, has_ended: false };
}

counters! {
    /// Costs and savings of the inner nodes of a tree table's keys since it was opened or its
    /// counters were reset. [`Stats`](crate::Stats) counts each node that was looked up in the table
    /// as an operation.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct TreeStats {
        /// Inner nodes that operations needed: one for each 31 bits of a key beyond the first 62.
        pub inner_nodes,
        /// The part of `inner_nodes` that the cache answered.
        pub cache_hits,
        /// Inner nodes inserted.
        pub inner_inserted,
        /// Keys inserted: roots.
        pub keys_inserted,
    }
}

impl TreeStats {
    /// Returns the bytes of occupied buckets for each key inserted: 8 for its root, and its share of
    /// the inner nodes. The counters must be the sums over all clients, because keys share nodes.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn bytes_per_key(&self) -> f64 {
        let buckets = (self.inner_inserted + self.keys_inserted) as f64;
        8.0 * buckets / self.keys_inserted.max(1) as f64
    }

    /// Returns the share of inner nodes that the cache answered, 0 to 1.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn cache_hit_share(&self) -> f64 {
        self.cache_hits as f64 / self.inner_nodes.max(1) as f64
    }
}
