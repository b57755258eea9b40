//! Opening: every owner creates its objects, exchanges connection information, connects, tests the
//! connections, and measures which operations need an owner's CPU.

use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use probeline_transport::SetupError;
use probeline_transport::engine::setup::{check_owners, check_sizes, together};
use probeline_transport::engine::{Deadline, Slots};
use probeline_transport::{
    Call, Completion, Exchange, Owner, RemoteWord, Request, Segment, Slot, SlotRange, Term, Token,
    Transport,
};
use probeline_ucx_sys::Ucp;

use super::connection_info::ConnectionInfo;
use super::context::{Context, environment, version};
use super::engine::Parts;
use super::info::transports;
use super::request_pool::RequestPool;
use super::window::{Mapping, Window};
use super::worker::{Peer, ProgressThread, Worker};
use super::{Builder, Engine, Info, MAX_DEPTH, NeedsOwner, OpenError, Progress};

/// The time for which opening waits for the first operations on each owner's window, which connect to
/// it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The slot range in which the READs of opening land.
const LANDING: SlotRange = SlotRange { slot: Slot(0), start: 0, words: 1 };
/// The time for which a temporary thread that progresses the worker sleeps when it is idle.
const IDLE_SLEEP: Duration = Duration::from_micros(50);
/// An operation that has not completed after this time needs the owner's CPU. Other operations take
/// microseconds on any network, and milliseconds if the network is emulated.
const NEEDS_OWNER_AFTER: Duration = Duration::from_millis(100);
/// The minimum number of polls before that decision, in case this process got no CPU.
const MIN_POLLS: u32 = 1000;

impl Builder {
    /// Opens this owner's engine. Every member of `exchange` calls it, in the thread that will use
    /// the engine. The window is zero.
    ///
    /// Waits for the other owners as long as the exchange does, at most 30 s for the first
    /// operations on each window, and 200 ms to measure which operations need the owner's CPU.
    ///
    /// # Errors
    /// [`OpenError`]: what this owner, or another one, is missing. If one fails, all do.
    pub fn open<E: Exchange + ?Sized>(&self, exchange: &mut E) -> Result<Engine, OpenError> {
        check_owners(exchange.owners())?;
        // An owner that fails still takes part in all collective calls, so that no owner waits for it in
        // vain.
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
            self.progress == Progress::Caller && needs_owner.is_some_and(|needs| needs.atomics);
        engine.info.needs_owner = needs_owner;
        engine.stores_words =
            needs_owner.is_some_and(|needs| !needs.reads) && engine.info.is_shared_memory();
        Ok(engine)
    }

    /// Creates the objects of this owner, without peers, and its connection info.
    fn create(&self, owners: u32) -> Result<(Parts, ConnectionInfo), OpenError> {
        check_sizes(&self.sizes, MAX_DEPTH)?;
        let ucp = Ucp::load()?;
        let context = Context::open(ucp, &self.settings(), self.progress, owners)?;
        let worker = Worker::create(&context)?;
        let for_peers = match self.progress {
            Progress::Thread => Some(Worker::create(&context)?),
            Progress::Caller => None,
        };
        let window = Window::allocate(&context, self.sizes.window_words)?;
        let slots = Slots::new(self.sizes.slots, self.sizes.slot_words)
            .ok_or(SetupError::NO_SLOT_MEMORY)?;
        // SAFETY: `Parts` drops the registration before the slots.
        let registration = unsafe { Mapping::private(&context, slots.memory()) }?;
        let pool = RequestPool::new(self.sizes.depth, context.request_bytes)?;
        let info = ConnectionInfo {
            options: [
                self.sizes.window_words,
                self.sizes.slot_words.into(),
                self.atomics as u64,
                self.progress as u64,
            ],
            address: window.address(),
            worker: for_peers.as_ref().unwrap_or(&worker).address()?,
            key: window.pack_key()?,
        };
        let parts = Parts {
            peers: Vec::with_capacity(owners as usize),
            progress_thread: None,
            worker,
            for_peers,
            pool,
            _registration: registration,
            slots,
            window,
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
        let mut owners = (0..).map(Owner).zip(&all);
        owners.try_for_each(|(owner, theirs)| mine.agree(owner, theirs))?;
        // Operations of an owner on its own window go through one worker, so that the caller
        // progresses them.
        let own_worker = parts.worker.address()?;
        if let Some(own) = all.get_mut(me.0 as usize) {
            own.worker = own_worker;
        }
        if let Err(error) = self.add_peers(&mut parts, &all) {
            parts.leak();
            return Err(error);
        }
        let info = Info {
            version: version(&parts.worker.context.ucp),
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
    fn add_peers(&self, parts: &mut Parts, all: &[ConnectionInfo]) -> Result<(), OpenError> {
        for (owner, info) in (0..).map(Owner).zip(all) {
            let peer = Peer::connect(&parts.worker, info);
            parts.peers.push(
                peer.map_err(|source| OpenError::NoConnection { owner, source: Box::new(source) })?,
            );
        }
        if let Some(worker) = &parts.for_peers {
            // SAFETY: the parts drop the thread before the worker, which nothing else uses.
            parts.progress_thread = Some(unsafe { ProgressThread::start(worker) }?);
        }
        Ok(())
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
    /// Adds 1 to the first word of every owner, and reads it: UCX connects by the first operations.
    fn connect_windows(&mut self) -> Result<(), OpenError> {
        let mut found = Vec::new();
        for owner in (0..self.geometry.owners).map(Owner) {
            self.run(Request::FetchAdd { at: first_word(owner), addend: 1 })?;
            self.run(read(owner))?;
            if let Some(peer) = self.parts.peers.get(owner.0 as usize) {
                found.extend(transports(&self.ucp, peer.endpoint));
            }
        }
        found.sort_unstable();
        found.dedup();
        self.info.transports = found;
        Ok(())
    }

    /// Runs an operation while no other one is in flight.
    fn run(&mut self, request: Request) -> Result<(), OpenError> {
        let owner = request.owner();
        match self.post_and_wait(request, CONNECT_TIMEOUT, 0) {
            Some(Completion { result: Ok(_), .. }) => Ok(()),
            Some(Completion { result: Err(source), .. }) => {
                Err(OpenError::FirstFailed { owner, source })
            }
            None => Err(timed_out(owner)),
        }
    }

    /// Posts an operation and polls until it completes; `None` if it has not completed after `limit` and
    /// `min_polls` polls.
    fn post_and_wait(
        &mut self,
        request: Request,
        limit: Duration,
        min_polls: u32,
    ) -> Option<Completion> {
        let posted = self.post(Token(0), request);
        debug_assert_eq!(posted, Ok(()), "no operation is in flight, and sizes are not zero");
        self.wait(limit, min_polls)
    }

    fn wait(&mut self, limit: Duration, min_polls: u32) -> Option<Completion> {
        let deadline = Deadline::after(limit);
        let mut polls = 0_u32;
        let mut out = [Completion::default()];
        // A fault is reported after the completion of the failed operation.
        while self.poll(&mut out) == Ok(0) {
            polls = polls.saturating_add(1);
            if polls > min_polls && deadline.has_passed() {
                return None;
            }
            // The owner that this loop waits for may need this CPU.
            thread::yield_now();
        }
        let [completion] = out;
        Some(completion)
    }

    /// Checks the word that every owner has added 1 to, and makes it zero again.
    fn check_self_test(&mut self) -> Result<(), OpenError> {
        let found = self.window().first().map_or(0, |word| word.swap(0, SeqCst));
        let expected = self.geometry.owners.into();
        if found == expected { Ok(()) } else { Err(OpenError::SelfTest { expected, found }) }
    }

    /// Calls `wait`, which blocks this thread. Another thread progresses the worker meanwhile, for
    /// owners that are not ready yet, unless the engine has a progress thread.
    fn while_progressing<R>(&self, wait: impl FnOnce() -> R) -> R {
        if self.parts.progress_thread.is_some() {
            return wait();
        }
        // SAFETY: it is used until `wait` has returned. No other thread progresses the worker until
        // then, because the engine is borrowed.
        let worker = unsafe { self.parts.worker.lend() };
        // The other thread ends when this one drops `over`, even by a panic of `wait`.
        let (over, is_over) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let progress = move || {
                let pause = || if worker.progress() { Duration::ZERO } else { IDLE_SLEEP };
                while is_over.recv_timeout(pause()) == Err(RecvTimeoutError::Timeout) {}
            };
            // If it cannot be started, peers that need this owner report that it timed out.
            let _ = thread::Builder::new().spawn_scoped(scope, progress);
            let _over = over;
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
        exchange.barrier().map_err(SetupError::from)?;
        let stalled = if measures { self.first_stalled() } else { None };
        let found = stalled.map_or(NeedsOwner::default(), |(_, found)| found);
        let mut terms = [found.reads, found.atomics].map(|needs| Term::Max(needs.into()));
        exchange.reduce(const { Call::new("needs_owner") }, &mut terms)?;
        drop(paused);
        let late = stalled.filter(|_| self.wait(CONNECT_TIMEOUT, 0).is_none());
        let ended = late.map_or(Ok(()), |(owner, _)| Err(timed_out(owner)));
        self.while_progressing(|| together(exchange, ended))?;
        let [reads, atomics] = terms.map(|needs| needs.value() != 0);
        Ok(Some(NeedsOwner { reads, atomics }))
    }

    /// Returns the first owner that an operation needed, which did not complete while the owner did not
    /// progress, and what needs owners. The operation stays in flight. If READs need the owner, so do
    /// atomics. UCX chooses how it executes a READ or WRITE by its length.
    fn first_stalled(&mut self) -> Option<(Owner, NeedsOwner)> {
        let mut peers = (1..self.geometry.owners).map(Owner);
        let max = self.geometry.window_words.min(self.geometry.slot_words.into());
        let max = u32::try_from(max).unwrap_or(u32::MAX).min(self.caps.words_per_op);
        // The windows are zero before and after.
        if let Ok(words) = self.staged(SlotRange { words: max, ..LANDING }) {
            words.fill(0);
        }
        let mut stalls =
            |request| self.post_and_wait(request, NEEDS_OWNER_AFTER, MIN_POLLS).is_none();
        let lengths = (0..u32::BITS).map(|bit| 1 << bit).take_while(|words| *words < max);
        let lengths: Vec<u32> = lengths.chain([max]).collect();
        let copies =
            peers.clone().flat_map(|owner| lengths.iter().map(move |words| (owner, *words)));
        for (owner, words) in copies {
            let (at, slot) =
                (Segment { start: first_word(owner), words }, SlotRange { words, ..LANDING });
            if stalls(Request::Read { from: at, into: slot })
                || stalls(Request::Write { from: slot, to: at })
            {
                return Some((owner, NeedsOwner { reads: true, atomics: true }));
            }
        }
        let unchanged =
            |owner| Request::CompareAndSwap { at: first_word(owner), expected: 0, desired: 0 };
        let stalled = peers.find(|owner| stalls(unchanged(*owner)))?;
        Some((stalled, NeedsOwner { reads: false, atomics: true }))
    }
}

/// Returns the word on which opening tries operations, zero before and after.
fn first_word(owner: Owner) -> RemoteWord {
    RemoteWord { owner, index: 0 }
}

/// Returns a READ of [`first_word`].
fn read(owner: Owner) -> Request {
    Request::Read { from: Segment { start: first_word(owner), words: 1 }, into: LANDING }
}

fn timed_out(owner: Owner) -> OpenError {
    OpenError::TimedOut { owner, after_s: CONNECT_TIMEOUT.as_secs() }
}
