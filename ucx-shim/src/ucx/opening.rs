//! Opening: everybody makes what is its own, tells the others, connects, and tries it.

use core::cell::Cell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use core::time::Duration;
use std::process;
use std::rc::Rc;
use std::thread;

use probeline_transport::{Exchange, Geometry, Owner};
use probeline_ucx_sys::Ucp;

use super::attendant::Attendant;
use super::context::Context;
use super::control::{CONTROL_WORDS, SCRATCH};
use super::deadline::{CONNECTING, Deadline};
use super::description::lanes;
use super::desk::Desk;
use super::engine::Parts;
use super::hello::{Greeting, Hello};
use super::lane::{Alarm, Lane, Peer};
use super::mapping::Mapping;
use super::own::{Act, OWN, is_good};
use super::settings::{allows_shared_memory, environment};
use super::slots::Slots;
use super::watch::{Watch, machine};
use super::worker::Worker;
use super::{Builder, CallFailed, Description, Engine, OpenError, Progress};

/// How long a thread that progresses while the engine's own waits sleeps where there is nothing to
/// do.
const NAP: Duration = Duration::from_micros(50);

impl Builder {
    pub(super) fn open_with<E>(&self, exchange: &mut E) -> Result<Engine, OpenError>
    where
        E: Exchange + ?Sized,
    {
        // An owner that fails still takes part in all calls, so that nobody waits for it in vain.
        let own = self.create(exchange.owners());
        let all = match Greeting::gather(own.as_ref().ok().map(|own| &own.greeting), exchange) {
            Ok(all) => all,
            Err(error) => return Err(own.err().unwrap_or(error)),
        };
        let engine = own.and_then(|own| self.connect(own, &all, exchange.me()));
        let everybody = tell(exchange, engine.is_ok());
        let mut engine = engine?;
        if let Err(error) = everybody {
            engine.abandon();
            return Err(error);
        }
        let met = engine.meet_everybody().and_then(|()| self.check_gid(&engine));
        let everybody = engine.attended(|| tell(exchange, met.is_ok()));
        if let Err(error) = met.and(everybody) {
            engine.abandon();
            return Err(error);
        }
        let tested = engine.judge_self_test();
        let everybody = engine.attended(|| tell(exchange, tested.is_ok()));
        tested?;
        everybody?;
        engine.description.idle = engine.find_idle(exchange)?;
        let nobody = engine.description.idle.is_none_or(super::Idle::needs_nobody);
        engine.caps.needs_owner_progress = self.progress == Progress::Caller && !nobody;
        Ok(engine)
    }

    /// Everything that is this owner's alone.
    fn create(&self, owners: u32) -> Result<Own, OpenError> {
        self.check()?;
        let ucp = Ucp::load().map_err(OpenError::Library)?;
        let context = Context::open(ucp, &self.settings(), self.progress, owners)?;
        let worker = Worker::create(&context)?;
        let attended = match self.progress {
            Progress::Thread => Some(Worker::create(&context)?),
            Progress::Caller => None,
        };
        let words = self.window_words.saturating_add(CONTROL_WORDS as u64);
        let window = Mapping::allocate(&context, words)?;
        let slots = Slots::new(&context, self.slots, self.slot_words)?;
        let desk = Desk::new(self.depth + OWN, context.request_bytes)?;
        let (address, key) = (attended.as_ref().unwrap_or(&worker).address()?, window.pack_key()?);
        let short = |bytes: usize| {
            u32::try_from(bytes).map_err(|_| OpenError::Sizes("an address too long to be told"))
        };
        let hello = Hello {
            window_words: self.window_words,
            slot_words: self.slot_words,
            atomics: self.atomics,
            progress: self.progress,
            machine: machine(),
            pid: process::id(),
            address: window.address(),
            worker_bytes: short(address.len())?,
            key_bytes: short(key.len())?,
        };
        let greeting = Greeting { hello, worker: address, key };
        Ok(Own { greeting, worker, attended, desk, slots, window })
    }

    /// Makes the ways to all owners.
    fn connect(&self, own: Own, all: &[Greeting], me: Owner) -> Result<Engine, OpenError> {
        let mine = own.greeting.hello;
        let owners = || (0..).map(Owner).zip(all);
        owners().try_for_each(|(owner, theirs)| mine.agree(owner, &theirs.hello))?;
        let near = |hello: &Hello| hello.machine == mine.machine;
        let processes = owners()
            .filter(|(owner, theirs)| *owner != me && near(&theirs.hello))
            .map(|(owner, theirs)| (owner, theirs.hello.pid));
        let watch = Watch::of(processes)?;
        let shared = allows_shared_memory(self.tls_in_force().as_deref());
        let itself = own.worker.address()?;
        let rung = Rc::new(Cell::new(false));
        let alarms: Vec<_> = all.iter().map(|_| Alarm::new(&rung)).collect();
        let peers = owners().map(|(owner, theirs)| Peer {
            // Its own operations are its own to progress, and UCX has a way within one worker.
            worker: if owner == me { &itself } else { &theirs.worker },
            key: &theirs.key,
            address: theirs.hello.address,
            handled: owner != me && !(shared && near(&theirs.hello)),
        });
        let Own { greeting: _, worker, attended, desk, slots, window } = own;
        let mut parts = Parts {
            lanes: Vec::with_capacity(all.len()),
            attendant: None,
            worker,
            _attended: attended,
            _alarms: alarms,
            rung,
            desk,
            slots,
            window,
            watch,
        };
        if let Err(error) = self.link(&mut parts, peers) {
            // As in `Engine::abandon`: there may be ways to some.
            parts.leak();
            return Err(error);
        }
        let description = self.describe(&parts);
        let geometry = Geometry {
            me,
            owners: u32::try_from(all.len()).unwrap_or(u32::MAX),
            window_words: self.window_words,
            slots: self.slots,
            slot_words: self.slot_words,
        };
        Ok(Engine::new(self.caps(), geometry, description, parts))
    }

    /// Makes the lanes, by owner, and lets the attendant attend.
    fn link<'a>(
        &self,
        parts: &mut Parts,
        peers: impl Iterator<Item = Peer<'a>>,
    ) -> Result<(), OpenError> {
        for ((owner, peer), alarm) in (0..).map(Owner).zip(peers).zip(&parts._alarms) {
            // SAFETY: both go into the parts, which drop lanes, worker and alarms in this order.
            let lane = unsafe { Lane::create(&parts.worker, peer, alarm) };
            parts.lanes.push(lane.map_err(|source| self.no_way(owner, source))?);
        }
        if let Some(attended) = &parts._attended {
            // SAFETY: the parts drop the attendant before the worker, which nothing else uses.
            parts.attendant = Some(unsafe { Attendant::start(attended) }?);
        }
        Ok(())
    }

    /// The transports allowed, by this builder or by the environment.
    fn tls_in_force(&self) -> Option<String> {
        self.tls.clone().or_else(|| std::env::var("UCX_TLS").ok())
    }

    /// A GID index that nothing heeds would be an option without effect.
    fn check_gid(&self, engine: &Engine) -> Result<(), OpenError> {
        if self.gid_index.is_none() || engine.description.is_verbs() {
            return Ok(());
        }
        Err(OpenError::NoGid)
    }

    fn no_way(&self, owner: Owner, source: CallFailed) -> OpenError {
        let tls = self.tls_in_force().unwrap_or_else(|| "all".into());
        OpenError::NoWay { owner, tls, source }
    }

    fn describe(&self, parts: &Parts) -> Description {
        Description {
            version: parts.worker.context.version(),
            lanes: Vec::new(),
            atomics: self.atomics,
            progress: self.progress,
            idle: None,
            environment: environment(),
        }
    }
}

/// What an owner has before it knows the others. Dropped in this order, as [`Parts`] are.
struct Own {
    greeting: Greeting,
    worker: Worker,
    attended: Option<Worker>,
    desk: Desk,
    slots: Slots,
    window: Mapping,
}

impl Engine {
    /// Adds 1 to a word of everybody, and reads it: UCX connects by the first operations.
    fn meet_everybody(&mut self) -> Result<(), OpenError> {
        let mut found = Vec::new();
        for owner in (0..self.geometry.owners).map(Owner) {
            for act in [Act::Add(1), Act::Read] {
                self.meet(owner, act)?;
            }
            if let Some(lane) = self.parts.lanes.get(owner.0 as usize) {
                found.extend(lanes(&self.ucp, lane.endpoint));
            }
        }
        found.sort_unstable();
        found.dedup();
        self.description.lanes = found;
        Ok(())
    }

    fn meet(&mut self, owner: Owner, act: Act) -> Result<(), OpenError> {
        match self.do_own(owner, act, Deadline::after(CONNECTING)) {
            Some(status) if is_good(status) => Ok(()),
            Some(status) => {
                let source = CallFailed::of(&self.ucp, "it", status);
                Err(OpenError::FirstFailed { owner, source })
            }
            None => Err(OpenError::NotConnected { owner, after_s: CONNECTING.as_secs() }),
        }
    }

    /// Everybody has added 1 to a word here.
    fn judge_self_test(&self) -> Result<(), OpenError> {
        let word = self.parts.window.words().get(SCRATCH);
        let found = word.map_or(0, |word| word.load(SeqCst));
        let expected = self.geometry.owners.into();
        if found == expected { Ok(()) } else { Err(OpenError::SelfTest { expected, found }) }
    }

    /// Does `wait`, in which this thread blocks; meanwhile another one progresses the worker where
    /// that is the caller's to do, for owners that are not ready yet.
    pub(super) fn attended<R>(&self, wait: impl FnOnce() -> R) -> R {
        if self.parts.attendant.is_some() {
            return wait();
        }
        // SAFETY: it is used until `wait` has ended, in which nobody else progresses the worker:
        // the engine is borrowed.
        let lent = unsafe { self.parts.worker.lend() };
        let over = &AtomicBool::new(false);
        thread::scope(|scope| {
            let progress = move || {
                while !over.load(Acquire) {
                    if !lent.progress() {
                        thread::sleep(NAP);
                    }
                }
            };
            // Without it whoever needs this owner says, in time, that it is not there.
            let _ = thread::Builder::new().spawn_scoped(scope, progress);
            let _over = Over(over);
            wait()
        })
    }
}

/// Tells the other thread that the wait is over, also when it panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Tells everybody whether this owner is ready; returns when all have told.
fn tell<E: Exchange + ?Sized>(exchange: &mut E, ready: bool) -> Result<(), OpenError> {
    let mut all = vec![0; exchange.owners() as usize];
    exchange.all_gather(&[u8::from(ready)], &mut all).map_err(OpenError::Exchange)?;
    match (0..).zip(all).find(|&(_, ready)| ready == 0) {
        Some((owner, _)) => Err(OpenError::PeerFailed(Owner(owner))),
        None => Ok(()),
    }
}
