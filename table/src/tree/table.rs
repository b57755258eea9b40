//! The table of keys as trees of pairs.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Release;

use probeline_pipeline::{Kind, Open, OperationOf, Parameter, Started};
use probeline_transport::{Exchange, Transport};

use super::cache::PairCacheLine;
use super::config::TreeConfig;
use super::context::{TreeContext, TreeStats};
use super::local::{read_keys, roots};
use super::machine::TreeFindOrPut;
use crate::block::Undecided;
use crate::collective::Phase;
use crate::direct::Direct;
use crate::layout::Layout;
use crate::outcome::{Answer, Intent};
use crate::policy::Policy;
use crate::results::BatchResult;
use crate::set::{Keys, Set, buckets, parameters};
use crate::stats::Stats;
use crate::{CollectiveError, ConfigError, OperationError};

/// Keys whose nodes the CPU looks up side by side.
const GROUP: usize = 32;

/// Keys of up to `64 * W` bits as trees of pairs, with a cache `C` of inner nodes.
pub struct Tree<const W: usize, C = [PairCacheLine; 0]>(core::marker::PhantomData<C>);

/// Storage for one operation in flight on keys of `W` words, such as `[TreeOperation::EMPTY; 8]`.
pub type TreeOperation<const W: usize> = probeline_pipeline::Operation<TreeFindOrPut<W>>;

/// A set of keys of up to `64 * W` bits in the windows of all owners, compressed as trees of pairs,
/// over an engine `T`, with storage `S` for operations in flight and a cache `C` of inner nodes.
///
/// It holds keys that resemble each other, such as the states of a model, in little more than 8
/// bytes each, whatever their width; a [`WideTable`](crate::WideTable) needs 8 bytes and the key. An
/// operation looks up one inner node for each 31 bits beyond the first 62, one after the other. The
/// cache answers most of them ([`with_cache`](Self::with_cache)): give it one where operations
/// are posted. Every owner opens the table with the same sizes, probe limit and probe order.
///
/// ```
/// use probeline_shm::Builder;
/// use probeline_table::{Outcome, PairCacheLine, TreeConfig, TreeOperation, TreeTable};
/// use probeline_transport::Alone;
///
/// let config = TreeConfig::new(4_096, 200);
/// let engine = Builder::new(config.sizes(8)).open(&mut Alone)?;
/// let table = TreeTable::new(engine, config, [TreeOperation::EMPTY; 8])?;
/// let mut table = table.with_cache([PairCacheLine::EMPTY; 64]);
/// // 1,000 keys of 200 bits with few different parts.
/// for state in (0..1_000).map(|n| [n % 10, 7 << 40, n / 10, 3]) {
///     assert_eq!(table.find_or_put(&state)?, Outcome::Inserted);
///     assert_eq!(table.find_or_put(&state)?, Outcome::Found);
/// }
/// assert!(table.tree_stats().bytes_per_key() < 10.0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type TreeTable<T, S, const W: usize, C = [PairCacheLine; 0]> = Set<T, S, Tree<W, C>>;

impl<const W: usize, C: AsMut<[PairCacheLine]>> Kind for Tree<W, C> {
    type Config = TreeConfig;
    type Context = TreeContext<C>;
    type Key = [u64; W];
    type Action = Intent;
    type Machine = TreeFindOrPut<W>;
    type Stats = Stats;

    const NAME: &'static str = "TreeTable";

    fn parameters(
        config: &TreeConfig,
        _: &TreeContext<C>,
    ) -> impl Iterator<Item = Parameter> + Clone {
        let bits = ("bits of a key", config.key_bits.into());
        parameters(&config.buckets).into_iter().chain([bits])
    }

    #[inline(always)]
    fn machine(
        key: &[u64; W],
        intent: Intent,
        context: &TreeContext<C>,
    ) -> Result<TreeFindOrPut<W>, OperationError> {
        context.shape.check(key)?;
        Ok(TreeFindOrPut::new(key, intent, context))
    }

    #[inline(always)]
    fn start(
        key: &[u64; W],
        intent: Intent,
        transport: &impl Transport,
        context: &mut TreeContext<C>,
    ) -> Result<Started<TreeFindOrPut<W>>, OperationError> {
        let machine = Self::machine(key, intent, context)?;
        let ended = context.run_by_cpu(transport, key, intent);
        Ok(ended.map_or(Started::Pending(machine), Started::Done))
    }

    /// Returns the counters of bucket searches, one search for each node.
    fn stats(context: &TreeContext<C>) -> &Stats {
        &context.table.stats
    }

    fn reset_stats(context: &mut TreeContext<C>) {
        context.table.stats = Stats::default();
        context.stats = TreeStats::default();
    }

    fn forget(config: &TreeConfig, context: &mut TreeContext<C>) {
        context.table.forget(&config.buckets);
        context.cache.forget();
    }

    /// Returns the number of occupied buckets that hold a root.
    fn count(
        _: &TreeConfig,
        context: &TreeContext<C>,
        window: &[AtomicU64],
    ) -> Result<u64, OperationError> {
        Ok(roots(buckets(&context.table.layout, window)?))
    }

    fn empty(
        _: &TreeConfig,
        context: &TreeContext<C>,
        window: &[AtomicU64],
    ) -> Result<(), OperationError> {
        buckets(&context.table.layout, window)?.iter().for_each(|word| word.store(0, Release));
        Ok(())
    }
}

impl<const W: usize> Open for Tree<W> {
    fn check(config: &TreeConfig, transport: &impl Transport, _: usize) -> Result<(), ConfigError> {
        config.check(W, transport.caps(), transport.geometry())
    }

    fn context(config: &TreeConfig, transport: &impl Transport) -> TreeContext<[PairCacheLine; 0]> {
        TreeContext::new(transport, config, [])
    }
}

impl<const W: usize, C: AsMut<[PairCacheLine]>> Keys for Tree<W, C> {
    type Arg<'k> = &'k [u64; W];
    const ANY: [u64; W] = [0; W];

    fn layout(context: &TreeContext<C>) -> &Layout {
        &context.table.layout
    }

    fn policy(context: &mut TreeContext<C>) -> &mut Policy {
        &mut context.table.policy
    }

    #[inline(always)]
    fn is_direct(context: &TreeContext<C>) -> bool {
        context.table.direct == Direct::Claims
    }

    /// Looks up the nodes of groups of keys. A key that does not fit is undecided.
    fn run_block<R: BatchResult>(
        keys: &[[u64; W]],
        results: &mut [R],
        transport: &impl Transport,
        context: &mut TreeContext<C>,
        undecided: &mut Undecided,
    ) -> usize {
        let mut taken = 0;
        while taken < keys.len() && !undecided.is_enough() {
            let rest = keys.get(taken..).unwrap_or_default();
            let fits = |key: &&[u64; W]| context.shape.check(key).is_ok();
            let fitting = rest.iter().take(GROUP).take_while(fits).count();
            if fitting == 0 {
                undecided.push(taken);
                taken += 1;
                continue;
            }
            let group = rest.get(..fitting).unwrap_or_default();
            let ended: [_; GROUP] = context.run_group_by_cpu(transport, group, R::Answer::INTENT);
            for (ended, place) in ended.into_iter().zip(taken..taken + fitting) {
                match (ended, results.get_mut(place)) {
                    (Some(ended), Some(result)) => {
                        *result = R::from_answer(R::Answer::from_ended(ended));
                    }
                    _ => undecided.push(place),
                }
            }
            taken += fitting;
        }
        taken
    }

    fn read_part(
        phase: &mut Phase<'_, impl Transport>,
        context: &TreeContext<C>,
        next: &mut u64,
        keys: &mut [[u64; W]],
        _: bool,
    ) -> Result<usize, OperationError> {
        let may_load = context.table.direct == Direct::Claims;
        read_keys(phase, &context.shape, may_load, next, keys)
    }
}

impl<T, S, const W: usize, C> TreeTable<T, S, W, C>
where
    T: Transport,
    S: AsMut<[OperationOf<Tree<W, C>>]>,
    C: AsMut<[PairCacheLine]>,
{
    /// Adds a cache of inner nodes that this owner has seen, 5 in each of the first lines of
    /// `lines`. It uses the largest power of two that fits.
    ///
    /// It needs no coherence protocol, because an occupied bucket never changes.
    /// [`clear`](probeline_pipeline::Structure::clear) drops its content.
    pub fn with_cache<D: AsMut<[PairCacheLine]>>(self, lines: D) -> TreeTable<T, S, W, D> {
        self.map_context(|context| context.with_cache(lines))
    }

    /// Returns the counters of the inner nodes.
    #[must_use]
    pub fn tree_stats(&self) -> &TreeStats {
        &self.context().stats
    }

    /// Moves the keys for which `keep` returns true into `target`, as [`grow_into`](Self::grow_into)
    /// does, and returns their number. The target may be as large as this table, or smaller.
    ///
    /// This is the garbage collection of a tree table. One in place, as
    /// [`Table::retain`](crate::Table::retain) is, would have to find out which inner nodes no
    /// remaining key uses, and to move the others together with all references to them. The nodes
    /// that operations of unknown outcome have left stay behind too.
    ///
    /// # Errors
    /// As for [`Table::grow_into`](crate::Table::grow_into).
    pub fn retain_into<U, R, D>(
        &mut self,
        target: &mut TreeTable<U, R, W, D>,
        exchange: &mut (impl Exchange + ?Sized),
        keep: impl FnMut(&[u64; W]) -> bool,
    ) -> Result<u64, CollectiveError>
    where
        U: Transport,
        R: AsMut<[TreeOperation<W>]>,
        D: AsMut<[PairCacheLine]>,
    {
        self.move_into(target, exchange, "retain_into", keep, || true)
    }
}
