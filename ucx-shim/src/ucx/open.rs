//! Opening: every owner creates its objects, exchanges connection information, connects, tests the
//! connections, and measures which operations need an owner's CPU.

use core::cell::Cell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use core::time::Duration;
use std::process;
use std::rc::Rc;
use std::thread;

use probeline_engine::setup::together;
use probeline_engine::{Deadline, SetupError, Slots};
use probeline_transport::{Exchange, Owner};
use probeline_ucx_sys::{UCS_OK, Ucp};

use super::connection_info::ConnectionInfo;
use super::context::{Context, allows_shared_memory, environment};
use super::control::{CONNECT_TIMEOUT, CONTROL_OPERATIONS, ControlOperation, SCRATCH};
use super::engine::Parts;
use super::info::transports;
use super::peer::{CONTROL_WORDS, EndpointState, Peer};
use super::request_pool::RequestPool;
use super::watch::{Watch, machine};
use super::window::{Mapping, Window};
use super::worker::{ProgressThread, Worker};
use super::{Builder, CallFailed, Engine, Info, OpenError, Progress};
use crate::NeedsOwner;

/// The time for which a temporary thread that progresses the worker sleeps when it is idle.
const IDLE_SLEEP: Duration = Duration::from_micros(50);
/// An operation that has not completed after this time needs the owner's CPU. Other operations take
/// microseconds on any network, and milliseconds if the network is emulated.
const NEEDS_OWNER_AFTER: Duration = Duration::from_millis(100);
/// The minimum number of polls before that decision, in case this process got no CPU.
const MIN_POLLS: u32 = 1000;

impl Builder {
    /// Opens the engine together with the other owners. An owner that fails still takes part in all
    /// collective calls, so that no owner waits for it in vain.
    pub(super) fn open_together<E>(&self, exchange: &mut E) -> Result<Engine, OpenError>
    where
        E: Exchange + ?Sized,
    {
        let own = self.create(exchange.owners());
        let mine = own.as_ref().ok().map(|(_, info)| info);
        let all = ConnectionInfo::gather(mine, exchange);
        let ((parts, info), all) = (own?, all?);
        let engine = self.connect(parts, &info, all, exchange.me());
        let mut engine = together(exchange, engine)?;
        let connected = engine.connect_windows().and_then(|()| self.check_gid(&engine));
        engine.while_progressing(|| together(exchange, connected))?;
        engine.connected = true;
        let tested = engine.check_self_test();
        engine.while_progressing(|| together(exchange, tested))?;
        let needs_owner = engine.measure_needs_owner(exchange)?;
        engine.caps.needs_owner_progress =
            self.progress == Progress::Caller && needs_owner.is_some_and(NeedsOwner::any);
        engine.info.needs_owner = needs_owner;
        engine.stores_words =
            needs_owner.is_some_and(|needs| !needs.reads) && engine.info.is_shared_memory();
        Ok(engine)
    }

    /// Creates the objects of this owner, without peers, and its connection info.
    fn create(&self, owners: u32) -> Result<(Parts, ConnectionInfo), OpenError> {
        self.check()?;
        let ucp = Ucp::load().map_err(OpenError::Library)?;
        let context = Context::open(ucp, &self.settings(), self.progress, owners)?;
        let worker = Worker::create(&context)?;
        let for_peers = match self.progress {
            Progress::Thread => Some(Worker::create(&context)?),
            Progress::Caller => None,
        };
        let words = self.sizes.window_words.saturating_add(CONTROL_WORDS as u64);
        let window = Window::allocate(&context, words)?;
        let slots = Slots::new(self.sizes.slots, self.sizes.slot_words)
            .ok_or(SetupError::NO_SLOT_MEMORY)?;
        // SAFETY: `Parts` drops the registration before the slots.
        let registration = unsafe { Mapping::of(&context, slots.memory()) }?;
        let pool = RequestPool::new(self.sizes.depth + CONTROL_OPERATIONS, context.request_bytes)?;
        let info = ConnectionInfo {
            window_words: self.sizes.window_words,
            slot_words: self.sizes.slot_words,
            atomics: self.atomics,
            progress: self.progress,
            machine: machine(),
            pid: process::id(),
            address: window.address(),
            worker: for_peers.as_ref().unwrap_or(&worker).address()?,
            key: window.pack_key()?,
        };
        let any_failed = Rc::new(Cell::new(false));
        let parts = Parts {
            peers: Vec::with_capacity(owners as usize),
            progress_thread: None,
            worker,
            for_peers,
            endpoints: EndpointState::of_all(owners, &any_failed),
            any_failed,
            pool,
            _registration: registration,
            slots,
            window,
            watch: Watch::default(),
        };
        Ok((parts, info))
    }

    /// Connects to all owners.
    fn connect(
        &self,
        mut parts: Parts,
        mine: &ConnectionInfo,
        mut all: Vec<ConnectionInfo>,
        me: Owner,
    ) -> Result<Engine, OpenError> {
        let is_near = |theirs: &ConnectionInfo| theirs.machine == mine.machine;
        let owners = || (0..).map(Owner).zip(&all);
        owners().try_for_each(|(owner, theirs)| mine.agree(owner, theirs))?;
        let near = owners().filter(|(owner, theirs)| *owner != me && is_near(theirs));
        parts.watch = Watch::of(near.map(|(owner, theirs)| (owner, theirs.pid)))?;
        // Operations of an owner on its own window go through one worker, so that the caller
        // progresses them.
        let own_worker = parts.worker.address()?;
        if let Some(own) = all.get_mut(me.0 as usize) {
            own.worker = own_worker;
        }
        let shared_memory = allows_shared_memory(self.tls_in_force().as_deref());
        let reports_loss = |owner, theirs: &_| owner != me && !(shared_memory && is_near(theirs));
        if let Err(error) = self.add_peers(&mut parts, &all, reports_loss) {
            parts.leak();
            return Err(error);
        }
        let info = Info {
            version: parts.worker.context.version(),
            transports: Vec::new(),
            atomics: self.atomics,
            progress: self.progress,
            needs_owner: None,
            environment: environment(),
        };
        let owners = u32::try_from(all.len()).unwrap_or(u32::MAX);
        Ok(Engine::new(self.caps(), self.sizes.geometry(me, owners), info, parts))
    }

    /// Creates the endpoints, in the order of owners, and starts the progress thread.
    fn add_peers(
        &self,
        parts: &mut Parts,
        all: &[ConnectionInfo],
        reports_loss: impl Fn(Owner, &ConnectionInfo) -> bool,
    ) -> Result<(), OpenError> {
        for ((owner, info), state) in (0..).map(Owner).zip(all).zip(&*parts.endpoints) {
            let state = reports_loss(owner, info).then_some(state);
            // SAFETY: the parts drop peers, worker and states in this order.
            let peer = unsafe { Peer::connect(&parts.worker, info, state) };
            parts.peers.push(peer.map_err(|source| {
                let tls = self.tls_in_force().unwrap_or_else(|| "all".into());
                OpenError::NoConnection { owner, tls, source }
            })?);
        }
        if let Some(worker) = &parts.for_peers {
            // SAFETY: the parts drop the thread before the worker, which nothing else uses.
            parts.progress_thread = Some(unsafe { ProgressThread::start(worker) }?);
        }
        Ok(())
    }

    /// The transports that the builder or the environment allows.
    fn tls_in_force(&self) -> Option<String> {
        self.tls.clone().or_else(|| std::env::var("UCX_TLS").ok())
    }

    /// Refuses a GID index that would have no effect.
    fn check_gid(&self, engine: &Engine) -> Result<(), OpenError> {
        if self.gid_index.is_none() || engine.info.has_gids() {
            return Ok(());
        }
        Err(OpenError::NoGid)
    }
}

impl Engine {
    /// Adds 1 to a word of every owner, and reads it: UCX connects by the first operations.
    fn connect_windows(&mut self) -> Result<(), OpenError> {
        let mut found = Vec::new();
        for owner in (0..self.geometry.owners).map(Owner) {
            for operation in [ControlOperation::Add, ControlOperation::Read] {
                match self.run_control(owner, operation, Deadline::after(CONNECT_TIMEOUT)) {
                    Some(UCS_OK) => {}
                    Some(status) => {
                        let source = CallFailed::of(&self.ucp, "the operation", status);
                        return Err(OpenError::FirstFailed { owner, source });
                    }
                    None => return Err(timed_out(owner)),
                }
            }
            if let Some(peer) = self.parts.peers.get(owner.0 as usize) {
                found.extend(transports(&self.ucp, peer.endpoint));
            }
        }
        found.sort_unstable();
        found.dedup();
        self.info.transports = found;
        Ok(())
    }

    /// Checks the word that every owner has added 1 to.
    fn check_self_test(&self) -> Result<(), OpenError> {
        let word = self.parts.window.words().get(SCRATCH);
        let found = word.map_or(0, |word| word.load(SeqCst));
        let expected = self.geometry.owners.into();
        if found == expected { Ok(()) } else { Err(OpenError::SelfTest { expected, found }) }
    }

    /// Calls `wait`, which blocks this thread. Another thread progresses the worker meanwhile, for
    /// owners that are not ready yet, unless the engine has a progress thread.
    fn while_progressing<R>(&self, wait: impl FnOnce() -> R) -> R {
        /// Ends the other thread, also when `wait` panics.
        struct Over<'a>(&'a AtomicBool);

        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Release);
            }
        }

        if self.parts.progress_thread.is_some() {
            return wait();
        }
        // SAFETY: it is used until `wait` has returned. No other thread progresses the worker until
        // then, because the engine is borrowed.
        let worker = unsafe { self.parts.worker.lend() };
        let over = &AtomicBool::new(false);
        thread::scope(|scope| {
            let progress = move || {
                while !over.load(Acquire) {
                    if !worker.progress() {
                        thread::sleep(IDLE_SLEEP);
                    }
                }
            };
            // If it cannot be started, peers that need this owner report that it timed out.
            let _ = thread::Builder::new().spawn_scoped(scope, progress);
            let _over = Over(over);
            wait()
        })
    }

    /// Measures which operations need the owner's CPU. All owners call it. While owner 0 posts
    /// operations, the others do not progress, for 200 ms at most.
    fn measure_needs_owner<E: Exchange + ?Sized>(
        &mut self,
        exchange: &mut E,
    ) -> Result<Option<NeedsOwner>, OpenError> {
        if self.geometry.owners == 1 {
            return Ok(None);
        }
        let measures = self.geometry.me == Owner(0);
        let thread = self.parts.progress_thread.as_ref().filter(|_| !measures);
        let thread = thread.map(ProgressThread::shared);
        let paused = thread.as_ref().map(|thread| thread.pause());
        let found = self.measure_between_barriers(measures, exchange);
        drop(paused);
        let found = found?;
        let drained = self.drain_control(Deadline::after(CONNECT_TIMEOUT));
        let found = self.while_progressing(|| found.of_all(exchange))?;
        if drained { Ok(Some(found)) } else { Err(timed_out(Owner(1))) }
    }

    fn measure_between_barriers<E: Exchange + ?Sized>(
        &mut self,
        measures: bool,
        exchange: &mut E,
    ) -> Result<NeedsOwner, SetupError> {
        exchange.barrier()?;
        let mut found = NeedsOwner::default();
        for owner in (1..self.geometry.owners).map(Owner).filter(|_| measures) {
            found.reads = found.reads || self.needs_owner(owner, ControlOperation::Read);
            found.atomics =
                found.atomics || self.needs_owner(owner, ControlOperation::CompareAndSwap);
        }
        exchange.barrier()?;
        Ok(found)
    }

    /// Whether an operation does not complete while `owner` does not progress.
    fn needs_owner(&mut self, owner: Owner, operation: ControlOperation) -> bool {
        let deadline = Deadline::after(NEEDS_OWNER_AFTER);
        let Some(number) = self.post_control(owner, operation) else { return true };
        let now = || Deadline::after(Duration::ZERO);
        let ended = (0..MIN_POLLS).any(|_| self.await_control(number, now()).is_some());
        !ended && self.await_control(number, deadline).is_none()
    }
}

fn timed_out(owner: Owner) -> OpenError {
    OpenError::TimedOut { owner, after_s: CONNECT_TIMEOUT.as_secs() }
}
