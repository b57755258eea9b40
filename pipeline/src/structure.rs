//! The front of all data structures: open, blocking calls, submitted operations, collective calls.

use probeline_transport::{Call as CollectiveCall, Exchange, Transport};

use crate::collective::{Collective, CollectiveError};
use crate::error::{BatchError, ConfigError, Error};
use crate::kind::{Kind, Open, Started};
use crate::machine::Machine;
use crate::operation::{Finished, Operation, Tag, Waiter};
use crate::pipeline::Pipeline;
use crate::sink::{Batch, Call, Parts, Pull};

/// Blocking calls that the CPU runs between two polls of the transport. Only a poll detects lost
/// owners. At this interval a poll costs each call well under a nanosecond.
const CALLS_PER_POLL: u32 = 64;

/// The name of the collective call that opens a structure.
const OPEN: &str = "open";

/// The outcome of an operation of a kind.
pub type OutcomeOf<K> = <<K as Kind>::Machine as Machine>::Outcome;
/// The storage of an operation of a kind.
pub type OperationOf<K> = Operation<<K as Kind>::Machine>;

/// A data structure of kind `K` in the windows of all owners, over an engine `T`, with storage `S`
/// for operations in flight.
///
/// It owns its engine; [`transport_mut`](Self::transport_mut) lends it for words outside the
/// structure.
///
/// Code over any kind of structure takes one:
///
/// ```
/// use probeline_pipeline::{Kind, OperationOf, Structure};
/// use probeline_transport::Transport;
///
/// fn owners<T: Transport, S: AsMut<[OperationOf<K>]>, K: Kind>(
///     structure: &Structure<T, S, K>,
/// ) -> u32 {
///     structure.transport().geometry().owners
/// }
/// ```
pub struct Structure<T, S, K: Kind> {
    pipeline: Pipeline<T, S, K::Context, K::Machine>,
    config: K::Config,
    /// Calls by the CPU since the last poll.
    unpolled: u32,
}

impl<T, S, K> Structure<T, S, K>
where
    T: Transport,
    S: AsMut<[OperationOf<K>]>,
    K: Open,
{
    /// Creates the structure without checking the parameters of the other owners;
    /// [`open`](Self::open) includes that check.
    ///
    /// It uses the slots of its operations, from slot 0 on, and the words of the window that its
    /// configuration names, all 0 at first, as in a fresh window. If its CPUs run operations only by
    /// agreement, all operations are posted until [`agree`](Self::agree) has succeeded.
    ///
    /// # Errors
    /// [`ConfigError`]: a parameter is out of its range, or the slots, depth or window are too small.
    pub fn new(transport: T, config: K::Config, mut operations: S) -> Result<Self, ConfigError> {
        check::<K>(&transport, &config, operations.as_mut().len())?;
        let context = K::context(&config, &transport);
        let pipeline = Pipeline::new(transport, context, operations)?;
        Ok(Self { pipeline, config, unpolled: 0 })
    }

    /// Opens the structure together with all other owners and checks that their parameters are equal.
    ///
    /// An owner that cannot open it does not block the others: they report
    /// [`CollectiveError::NotOpened`].
    ///
    /// # Errors
    /// [`CollectiveError`]: an invalid configuration, a failed exchange, or an owner without the structure
    /// or with other parameters.
    pub fn open(
        transport: T,
        config: K::Config,
        mut operations: S,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, CollectiveError> {
        let count = operations.as_mut().len();
        if let Err(error) = check::<K>(&transport, &config, count) {
            Collective::new(exchange, CollectiveCall::method(K::NAME, OPEN), 0).fail();
            return Err(error.into());
        }
        let mut structure = Self::new(transport, config, operations)?;
        structure.agree(exchange)?;
        Ok(structure)
    }
}

fn check<K: Open>(
    transport: &impl Transport,
    config: &K::Config,
    operations: usize,
) -> Result<(), ConfigError> {
    K::check(config, transport, operations)?;
    OperationOf::<K>::check(operations, transport.geometry())?;
    // Counting and clearing would skip the missing words.
    let (found, expected) = (transport.window().len() as u64, transport.geometry().window_words);
    if found < expected { Err(ConfigError::ShortWindow { found, expected }) } else { Ok(()) }
}

impl<T, S, K> Structure<T, S, K>
where
    T: Transport,
    S: AsMut<[OperationOf<K>]>,
    K: Kind,
{
    /// Checks that all owners opened the same structure, and decides whether their CPUs run its
    /// operations.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`] names the first owner whose parameters differ, and
    /// [`CollectiveError::NotOpened`] the first one without the structure.
    pub fn agree(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let (transport, context) = self.pipeline.parts();
        let parameters = K::parameters(&self.config, context);
        let mine = K::can_be_direct(&self.config, context, transport);
        let owners = transport.geometry().owners;
        let mut call = Collective::new(exchange, CollectiveCall::method(K::NAME, OPEN), 0);
        let is_direct = call.agree(quiet, owners, parameters, mine)?;
        self.pipeline.opened = call.calls();
        K::on_opened(self.pipeline.shared_mut(), is_direct, &mut call)
    }

    /// Runs an operation and blocks until it completes; the transport bounds the wait. First completes this client's
    /// operations in flight if [`Kind::may_wait`].
    ///
    /// # Errors
    /// [`Error`]: refused, or of unknown outcome.
    #[inline(always)]
    pub fn call(&mut self, key: &K::Key, action: K::Action) -> Result<OutcomeOf<K>, Error> {
        self.complete_claims();
        self.check_fault()?;
        let (transport, context) = self.pipeline.parts();
        match K::start(key, action, transport, context)? {
            Started::Done(outcome) => {
                self.poll_sometimes()?;
                Ok(outcome)
            }
            Started::Pending(machine) => {
                let mut call = Call::<K::Machine, false>::new(machine);
                self.pipeline.run_batch(&mut call)?;
                call.result
            }
        }
    }

    /// Completes this client's operations in flight if [`Kind::may_wait`]: the CPU would wait in vain for a claim that
    /// only a poll completes. Their results remain to be reported.
    #[inline(always)]
    pub fn complete_claims(&mut self) {
        if self.pipeline.lists.active > 0 && K::may_wait(self.context()) {
            // A fault shows in the next operation.
            self.pipeline.quiesce().ok();
        }
    }

    /// Fails an operation that the CPU would run, once the transport is known to be dead.
    ///
    /// # Errors
    /// [`Error::Fault`] if the engine is dead.
    #[inline(always)]
    pub fn check_fault(&mut self) -> Result<(), Error> {
        match self.pipeline.fault() {
            None => Ok(()),
            Some(fault) => Err(self.pipeline.refuse(fault.into())),
        }
    }

    /// Polls the transport after some operations by the CPU, because only a poll detects lost owners.
    ///
    /// # Errors
    /// [`Error::Storage`] if the storage has become shorter.
    #[inline(always)]
    pub fn poll_sometimes(&mut self) -> Result<(), Error> {
        self.unpolled += 1;
        if self.unpolled < CALLS_PER_POLL {
            return Ok(());
        }
        self.unpolled = 0;
        self.pipeline.make_progress()
    }

    /// Starts an operation whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`Error::Busy`] while all storage is in use; [`Error::Fault`] once the transport is known to be
    /// dead; or the structure cannot have such a key or value.
    #[inline(always)]
    pub fn submit(&mut self, tag: Tag, key: &K::Key, action: K::Action) -> Result<(), Error> {
        let machine = K::machine(key, action, self.pipeline.shared())?;
        self.pipeline.start_kept(machine, Waiter::Tag(tag)).map(drop)
    }

    /// Polls the transport, advances all operations and moves the results of submitted ones into
    /// `out`. Returns the filled part of `out`. Never blocks. With an empty `out`, results stay where they are, and
    /// [`in_flight`](Self::in_flight) counts them.
    ///
    /// # Errors
    /// [`Error::Fault`] if the transport is dead and every result was reported.
    #[inline]
    pub fn poll_into<'o>(
        &mut self,
        out: &'o mut [Finished<OutcomeOf<K>>],
    ) -> Result<&'o [Finished<OutcomeOf<K>>], Error> {
        self.pipeline.poll_into(out)
    }

    /// Runs the operations of a batch: see [`Pipeline::run_batch`].
    ///
    /// # Errors
    /// As for [`Pipeline::run_batch`].
    #[inline]
    pub fn run_batch(
        &mut self,
        batch: &mut impl Batch<T, K::Context, K::Machine>,
    ) -> Result<(), Error> {
        let before = self.pipeline.rounds;
        self.pipeline.run_batch(batch)?;
        // The CPU, or what it remembers, has answered all: only a poll detects lost owners.
        if self.pipeline.rounds == before { self.pipeline.make_progress() } else { Ok(()) }
    }

    /// Runs many operations, as many at once as there is storage for, and stores the result of each at
    /// the same index of `results`. Where the CPU runs them, it polls the transport once, at the end.
    ///
    /// # Errors
    /// [`BatchError`]: the lengths differ, or the batch has stopped.
    pub fn call_all(
        &mut self,
        requests: &[(K::Key, K::Action)],
        results: &mut [Result<OutcomeOf<K>, Error>],
    ) -> Result<(), BatchError> {
        BatchError::check_length(requests.len(), "results", results.len())?;
        let store = |place: usize, result| match results.get_mut(place) {
            Some(into) => *into = result,
            None => debug_assert!(false, "the batch has no place {place}"),
        };
        Ok(self.call_each(|place| requests.get(place).copied(), store)?)
    }

    /// Runs the operation that `request` returns for each place, from 0 to the first place without one, as
    /// [`call_all`](Self::call_all) does. Passes each result with its place to `store`, in any order.
    ///
    /// # Errors
    /// As for [`run_batch`](Self::run_batch).
    pub fn call_each(
        &mut self,
        mut request: impl FnMut(usize) -> Option<(K::Key, K::Action)>,
        mut store: impl FnMut(usize, Result<OutcomeOf<K>, Error>),
    ) -> Result<(), Error> {
        self.run_batch(&mut Requests::<K> {
            request: &mut request,
            store: &mut store,
            next: 0,
            is_ended: false,
        })
    }

    /// Returns whether an operation is free, so that [`submit`](Self::submit) does not return
    /// [`Error::Busy`].
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pipeline.has_room()
    }

    /// Returns the number of operations submitted and not yet reported.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.pipeline.in_flight()
    }

    /// Waits until no operation of the structure is in flight and returns the engine, for words
    /// outside the structure. Everything posted on it must have completed before the structure is used
    /// again.
    ///
    /// # Errors
    /// [`Error::Fault`] if the transport is dead.
    pub fn transport_mut(&mut self) -> Result<&mut T, Error> {
        self.pipeline.quiesce()?;
        Ok(self.pipeline.transport_mut())
    }

    /// Waits until no operation of the structure is in flight and returns the engine, even a dead one.
    /// Unreported results are lost.
    pub fn into_transport(mut self) -> T {
        // A dead engine reports its fault to its next user.
        self.pipeline.quiesce().ok();
        self.pipeline.into_transport()
    }

    /// Returns the number of elements in the whole structure. Collective.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        self.sum_parts(exchange, "len", K::count)
    }

    /// Returns the sum over all owners of what `count` returns for the window of each. Collective.
    ///
    /// # Errors
    /// [`CollectiveError`]: a rank is lost or in another call, or its part failed.
    pub fn sum_parts(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        name: &str,
        count: impl FnOnce(
            &K::Config,
            &K::Context,
            &[core::sync::atomic::AtomicU64],
        ) -> Result<u64, Error>,
    ) -> Result<u64, CollectiveError> {
        let mut call = self.collective(exchange, name)?;
        let Pipeline { transport, shared, .. } = &self.pipeline;
        call.sum(count(&self.config, shared, transport.window()).map_err(CollectiveError::from))
    }

    /// Removes everything from the whole structure. Collective.
    ///
    /// An operation that completed in error may still take effect later, in what this call has
    /// emptied. After an operation of unknown outcome, make this call only when the device has dropped
    /// everything that it had in flight.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined.
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        self.forget();
        let mut call = self.collective(exchange, "clear")?;
        let Pipeline { transport, shared, .. } = &self.pipeline;
        let emptied = K::empty(&self.config, shared, transport.window());
        call.together(emptied.map_err(CollectiveError::from))
    }

    /// Begins a collective call of this name: waits until no operation is in flight on any owner.
    ///
    /// # Errors
    /// [`CollectiveError`] if an owner's transport is dead, or owners are in different calls.
    pub fn collective<'e, E: Exchange + ?Sized>(
        &mut self,
        exchange: &'e mut E,
        name: &str,
    ) -> Result<Collective<'e, E>, CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.begin_collective(exchange, name);
        call.together(quiet)?;
        Ok(call)
    }

    /// Starts a call as [`collective`](Self::collective), without waiting for the operations in flight.
    pub fn begin_collective<'e, E: Exchange + ?Sized>(
        &self,
        exchange: &'e mut E,
        name: &str,
    ) -> Collective<'e, E> {
        Collective::new(exchange, CollectiveCall::method(K::NAME, name), self.pipeline.opened)
    }

    /// Drops cached knowledge of the content, before a collective call changes it. First waits until no
    /// operation is in flight, which would learn of it again; [`collective`](Self::collective) reports an
    /// error.
    pub fn forget(&mut self) {
        self.pipeline.quiesce().ok();
        K::forget(&self.config, self.pipeline.shared_mut());
    }
}

impl<T, S, K: Kind> Structure<T, S, K> {
    /// Returns the engine, for reading.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> &T
    where
        T: Transport,
    {
        self.pipeline.transport()
    }

    /// Returns the parameters.
    #[must_use]
    pub fn config(&self) -> &K::Config {
        &self.config
    }

    /// Returns the counters of this client's operations.
    #[must_use]
    pub fn stats(&self) -> &K::Stats {
        K::stats(&self.pipeline.shared)
    }

    /// Sets all counters to 0.
    pub fn reset_stats(&mut self) {
        K::reset_stats(&mut self.pipeline.shared);
    }

    /// Returns the context, for a structure's own functions.
    #[inline]
    #[must_use]
    pub fn context(&self) -> &K::Context {
        &self.pipeline.shared
    }

    /// Returns the pipeline, for a structure's own functions.
    #[inline]
    #[must_use]
    pub fn pipeline(&mut self) -> &mut Pipeline<T, S, K::Context, K::Machine> {
        &mut self.pipeline
    }

    /// Turns the structure into one of another kind with the same operations.
    #[must_use]
    pub fn map_context<L>(self, map: impl FnOnce(K::Context) -> L::Context) -> Structure<T, S, L>
    where
        L: Kind<Config = K::Config, Machine = K::Machine>,
    {
        let Self { pipeline, config, unpolled } = self;
        Structure { pipeline: pipeline.map_shared(map), config, unpolled }
    }
}

/// The batch of [`Structure::call_each`]. All callers use one type, so that the driver is compiled once.
struct Requests<'r, K: Kind> {
    request: &'r mut dyn FnMut(usize) -> Option<(K::Key, K::Action)>,
    store: &'r mut dyn FnMut(usize, Result<OutcomeOf<K>, Error>),
    /// The first place not started.
    next: usize,
    /// Whether `request` has returned `None`.
    is_ended: bool,
}

impl<T, K: Kind> Batch<T, K::Context, K::Machine> for Requests<'_, K> {
    fn pull(&mut self, parts: &mut Parts<'_, T, K::Context>, into: &mut K::Machine) -> Pull {
        // Each iteration starts a request or refuses it.
        while !self.is_ended
            && let Some((key, action)) = (self.request)(self.next)
        {
            let place = self.next;
            self.next += 1;
            match K::machine(&key, action, parts.shared) {
                Ok(machine) => {
                    into.replace_with(machine);
                    return Pull::Start(place);
                }
                Err(error) => (self.store)(place, Err(error)),
            }
        }
        self.is_ended = true;
        Pull::End
    }

    fn take(&mut self, place: usize, result: Result<OutcomeOf<K>, Error>) {
        (self.store)(place, result);
    }
}
