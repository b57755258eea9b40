//! The table of 63-bit keys, which its buckets hold.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_pipeline::{CollectiveError, Kind, Open, OperationOf, Parameter, Started};
use probeline_transport::{Exchange, Transport};

use crate::block::{Block, Lines, NarrowKeys, Undecided};
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::collective::{InBuckets, Phase, Retain};
use crate::config::Config;
use crate::context::Context;
use crate::direct::Direct;
use crate::find_or_put::FindOrPut;
use crate::layout::{Layout, Position};
use crate::outcome::{Answer, Ended, Intent, Located, Outcome};
use crate::policy::Policy;
use crate::results::BatchResult;
use crate::set::{Keys, Set, buckets, occupied, parameters, phase, sampled_load_factor};
use crate::stats::Stats;
use crate::{ConfigError, OperationError};
use probeline_transport::line::with_widest;

/// Keys of 63 bits, which buckets hold, with a cache `C` of occupied buckets.
pub struct Narrow<C = [CacheEntry; 0]>(core::marker::PhantomData<C>);

/// Storage for one operation in flight; the caller of a table provides an array of them, such as
/// `[Operation::EMPTY; 8]`.
pub type Operation = probeline_pipeline::Operation<FindOrPut>;

/// A set of 63-bit keys in the windows of all owners, over an engine `T`, with storage `S` (an
/// array, a slice, a `Vec`) for operations in flight, and a cache `C`. [`Set`] has the methods.
///
/// ```
/// use probeline_shm::Builder;
/// use probeline_table::{Config, Operation, Outcome, Table};
/// use probeline_transport::Alone;
///
/// let config = Config::for_keys(1_000, 1);
/// let engine = Builder::new(config.sizes(8)).open(&mut Alone)?;
/// let mut table = Table::open(engine, config, [Operation::EMPTY; 8], &mut Alone)?;
/// assert_eq!(table.find_or_put(7)?, Outcome::Inserted);
/// assert_eq!(table.find_or_put(7)?, Outcome::Found);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Table<T, S, C = [CacheEntry; 0]> = Set<T, S, Narrow<C>>;

impl<C: AsMut<[CacheEntry]>> Kind for Narrow<C> {
    type Config = Config;
    type Context = Context<C>;
    type Key = u64;
    type Action = Intent;
    type Machine = FindOrPut;
    type Stats = Stats;

    const NAME: &'static str = "Table";

    fn parameters(config: &Config, _: &Context<C>) -> impl Iterator<Item = Parameter> + Clone {
        parameters(config).into_iter()
    }

    #[inline(always)]
    fn machine(
        key: &u64,
        intent: Intent,
        context: &Context<C>,
    ) -> Result<FindOrPut, OperationError> {
        Ok(FindOrPut::new(Bucket::new(*key)?, intent, context))
    }

    #[inline(always)]
    fn start(
        key: &u64,
        intent: Intent,
        transport: &impl Transport,
        context: &mut Context<C>,
    ) -> Result<Started<FindOrPut>, OperationError> {
        let mut walk = context.walk(Bucket::new(*key)?, intent);
        if context.direct == Direct::Claims {
            if let Some((ended, _)) = context.scan_lines(&mut walk, transport) {
                return Ok(Started::Done(ended));
            }
        } else if context.follow_cache(&mut walk) {
            return Ok(Started::Done(Ended::Found));
        }
        Ok(Started::Pending(FindOrPut::starting_at(walk)))
    }

    fn stats(context: &Context<C>) -> &Stats {
        &context.stats
    }

    fn reset_stats(context: &mut Context<C>) {
        context.stats = Stats::default();
    }

    fn forget(config: &Config, context: &mut Context<C>) {
        context.forget(config);
    }

    fn count(
        _: &Config,
        context: &Context<C>,
        window: &[AtomicU64],
    ) -> Result<u64, OperationError> {
        occupied(buckets(&context.layout, window)?)
    }

    fn empty(_: &Config, context: &Context<C>, window: &[AtomicU64]) -> Result<(), OperationError> {
        buckets(&context.layout, window)?.iter().for_each(|bucket| bucket.store(0, Release));
        Ok(())
    }
}

impl Open for Narrow {
    fn check(config: &Config, transport: &impl Transport, _: usize) -> Result<(), ConfigError> {
        config.check(transport.caps(), transport.geometry())
    }

    fn context(config: &Config, transport: &impl Transport) -> Context<[CacheEntry; 0]> {
        let layout = config.layout(transport.geometry().owners);
        let mut context = Context::new(transport, layout, config, []);
        context.policy.set_load_factor(sampled_load_factor(&layout, transport.window()));
        context
    }
}

impl<C: AsMut<[CacheEntry]>> Keys for Narrow<C> {
    type Arg<'k> = u64;
    const ANY: u64 = 0;
    const READS: bool = false;

    fn layout(context: &Context<C>) -> &Layout {
        &context.layout
    }

    fn policy(context: &mut Context<C>) -> &mut Policy {
        &mut context.policy
    }

    #[inline(always)]
    fn is_direct(context: &Context<C>) -> bool {
        context.direct == Direct::Claims
    }

    fn run_block<R: BatchResult>(
        keys: &[u64],
        results: &mut [R],
        transport: &impl Transport,
        context: &mut Context<C>,
        undecided: &mut Undecided,
    ) -> usize {
        let lines = Lines::new(transport, &context.layout);
        with_widest(Block {
            keys: NarrowKeys { keys, stats: &mut context.stats },
            results,
            probe_limit: context.probe_limit,
            layout: context.layout,
            lines: &lines,
            undecided,
        })
    }

    fn read_part(
        phase: &mut Phase<'_, impl Transport>,
        _: &Context<C>,
        next: &mut u64,
        keys: &mut [u64],
        _: bool,
    ) -> Result<usize, OperationError> {
        let words = phase.part()?.iter().skip(usize::try_from(*next).unwrap_or(usize::MAX));
        let mut count = 0;
        for word in words {
            let Some(key) = keys.get_mut(count) else { break };
            *next += 1;
            if let Some(bucket) = Bucket::from_word(word.load(Acquire)) {
                *key = bucket.key();
                count += 1;
            }
        }
        Ok(count)
    }
}

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[OperationOf<Narrow<C>>]>,
    C: AsMut<[CacheEntry]>,
{
    /// Adds a cache of occupied buckets that this owner has seen, stored in the first entries of
    /// `entries`. It uses the largest power of two that fits.
    ///
    /// The cache answers finds without a roundtrip and lets an operation skip buckets known to hold
    /// other keys. It needs no coherence protocol, because an occupied bucket never changes.
    /// [`clear`](probeline_pipeline::Structure::clear) and [`retain`](Self::retain) drop its content.
    /// Lines that the CPU examines itself do not use it: examining a line costs no more than one at
    /// the cache.
    pub fn with_cache<D: AsMut<[CacheEntry]>>(self, entries: D) -> Table<T, S, D> {
        self.map_context(|context| context.with_cache(entries))
    }

    /// Finds or puts as [`find_or_put`](Self::find_or_put), and returns the position of the key's bucket too.
    ///
    /// ```
    /// # use probeline_shm::Builder;
    /// # use probeline_table::{Config, Operation, Table};
    /// # use probeline_transport::Alone;
    /// # let config = Config::new(64);
    /// # let engine = Builder::new(config.sizes(1)).open(&mut Alone)?;
    /// # let mut table = Table::new(engine, config, [Operation::EMPTY])?;
    /// let inserted = table.find_or_put_at(7)?;
    /// assert_eq!(table.find_at(7)?, inserted.at);
    /// assert_eq!(table.find_at(8)?, None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    pub fn find_or_put_at(&mut self, key: u64) -> Result<Located, OperationError> {
        let (ended, at) = self.locate(key, Intent::FindOrPut)?;
        Ok(Located { outcome: Outcome::from_ended(ended), at })
    }

    /// Finds as [`find`](Self::find), but returns the position of the key's bucket.
    ///
    /// # Errors
    /// As for [`find_or_put`](Self::find_or_put).
    pub fn find_at(&mut self, key: u64) -> Result<Option<Position>, OperationError> {
        Ok(self.locate(key, Intent::Find)?.1)
    }

    /// Runs an operation, and returns where it has ended.
    fn locate(
        &mut self,
        key: u64,
        intent: Intent,
    ) -> Result<(Ended, Option<Position>), OperationError> {
        self.check_fault()?;
        let (transport, context) = self.pipeline().parts();
        let mut walk = context.walk(Bucket::new(key)?, intent);
        if context.direct == Direct::Claims
            && let Some((ended, line)) = context.scan_lines(&mut walk, transport)
        {
            let at = ended.has_bucket().then(|| walk.position_in(line, &context.layout));
            self.poll_sometimes()?;
            return Ok((ended, at));
        }
        if context.direct != Direct::Claims && context.follow_cache(&mut walk) {
            let at = walk.position(&context.layout);
            self.poll_sometimes()?;
            return Ok((Ended::Found, Some(at)));
        }
        let (ended, machine) = self.pipeline().call_machine(FindOrPut::starting_at(walk))?;
        if !ended.has_bucket() {
            return Ok((ended, None));
        }
        let at = machine.position(self.layout(), self.transport());
        at.map(|at| (ended, Some(at))).ok_or(OperationError::Window)
    }

    /// Removes every key for which `keep` returns false, and returns the number of keys removed
    /// from the whole table. This is the stop-the-world garbage collection that the paper leaves
    /// out (section 1).
    ///
    /// `keep` must return the same result on every owner, and may be called more than once for a
    /// key. The collection runs in place and needs no memory: each owner moves the keys of its part to
    /// the first empty buckets of their probe orders, in rounds, until no key moves.
    /// [`clear`](probeline_pipeline::Structure::clear) describes what to do about claims that completed
    /// in error.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined. If the part of one owner fails,
    /// the call fails on every owner.
    pub fn retain(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        self.forget();
        let mut call = self.collective(exchange, "retain")?;
        let mut retain = Retain { phase: phase(self).0, occupants: InBuckets };
        let removed = retain.run(&mut call, |key| keep(*key))?;
        self.sample_load_factor();
        Ok(removed)
    }

    /// Returns the keys in this owner's part. The result is exact between barriers. While other
    /// owners insert, it contains every key present before the call.
    pub fn local(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.buckets().iter().map(|bucket| bucket.load(Acquire));
        words.filter_map(Bucket::from_word).map(Bucket::key)
    }

    /// Returns this owner's buckets: the length of the window, which is fixed, was checked.
    pub(crate) fn buckets(&self) -> &[AtomicU64] {
        let part = buckets(self.layout(), self.transport().window());
        debug_assert!(part.is_ok(), "the window has become shorter");
        part.unwrap_or_default()
    }
}
