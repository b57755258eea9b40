//! The simulated transport of one owner.

use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;

use probeline_transport::engine::{CpuMemory, InFlight, Slots};
use probeline_transport::{
    Caps, Completion, Fault, Geometry, Owner, PostError, Request, Segment, SetupError, SlotRange,
    StableMemory, Token, Transport,
};

use crate::DirectAccess;
use crate::cluster::{Shared, Turn};
use crate::record::run;

/// The value of the landing words of a READ from its post to its completion, and after an error. It
/// is not a canonical address, not a small number and not text.
pub const POISON: u64 = 0xdead_beef_dead_beef;

/// The engine of one owner, with its own virtual clock.
///
/// A poll reports the completions that are due at the engine's time. If none is due and something
/// is in flight, the poll first advances the engine to its next completion, after all earlier
/// events of the cluster; so a caller that polls until an operation completes never hangs. With
/// nothing in flight, the poll advances the engine by the model's `idle_poll_ns`.
///
/// An operation starts when it is posted; `kick` does nothing.
pub struct Engine {
    caps: Caps,
    geometry: Geometry,
    slots: Slots<CpuMemory, InFlight>,
    in_flight: u32,
    shared: Arc<Shared>,
    turn: Option<Arc<dyn Turn>>,
}

impl Engine {
    pub(crate) fn new(
        me: Owner,
        shared: Arc<Shared>,
        turn: Option<Arc<dyn Turn>>,
    ) -> Result<Self, SetupError> {
        let geometry = shared.config.geometry(me);
        let slots = Slots::for_cpu(geometry.slots, geometry.slot_words);
        let slots = slots.ok_or(SetupError::NO_SLOT_MEMORY)?;
        Ok(Self { caps: shared.config.caps(), geometry, slots, in_flight: 0, shared, turn })
    }

    /// Returns this engine's virtual time, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.fabric.lock().clock_ns(self.geometry.me)
    }

    /// Returns the virtual time at which the next poll reports something, if nothing is posted
    /// before, in nanoseconds. A driver that polls several engines from one thread orders them by
    /// it.
    #[must_use]
    pub fn next_poll_ns(&self) -> u64 {
        self.shared.fabric.lock().poll_until_ns(self.geometry.me)
    }

    /// Advances the engine's clock by `ns` nanoseconds of work of the caller's CPU.
    pub fn spend(&mut self, ns: u64) {
        self.shared.fabric.lock().spend(self.geometry.me, ns);
    }

    /// Advances the engine's clock as [`spend`](Self::spend) does, after all earlier events of the
    /// cluster, and without a poll: the own window then shows what has taken effect.
    pub fn pass(&mut self, ns: u64) {
        let me = self.geometry.me;
        self.spend(ns);
        let now_ns = self.now_ns();
        if let Some(turn) = &self.turn {
            turn.yield_until(me, now_ns);
        }
        self.shared.fabric.lock().run_until(now_ns);
    }

    /// Advances the engine's clock by at most `ns` nanoseconds, as [`pass`](Self::pass) does, on a stage
    /// only until an operation changes the own window.
    pub fn watch(&mut self, ns: u64) {
        let me = self.geometry.me;
        let now_ns = self.now_ns();
        let until_ns = now_ns.saturating_add(ns);
        let until_ns = self.turn.as_ref().map_or(until_ns, |turn| turn.watch_until(me, until_ns));
        self.spend(until_ns.saturating_sub(now_ns));
        self.shared.fabric.lock().run_until(until_ns);
    }
}

impl Transport for Engine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        let mut fabric = self.shared.fabric.lock();
        if fabric.is_closed(self.geometry.me) {
            return Err(PostError::Closed);
        }
        self.geometry.check(&self.caps, &request)?;
        if self.in_flight == self.caps.depth {
            return Err(PostError::Full);
        }
        let payload = match request {
            Request::Write { from, .. } => self.slots.words(from).ok_or(PostError::OutOfRange)?,
            _ => &[],
        };
        fabric.accept(self.geometry.me, (token, request), payload)?;
        if let Request::Read { into, .. } = request {
            self.slots.words_mut(into).ok_or(PostError::OutOfRange)?.fill(POISON);
        }
        if let Some(local) = request.local() {
            self.slots.hold(local.slot);
        }
        self.in_flight += 1;
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        let me = self.geometry.me;
        let mut fabric = self.shared.fabric.lock();
        if let Some(fault) = fabric.fault(me) {
            return Err(fault);
        }
        if out.is_empty() {
            return Ok(0);
        }
        let until_ns = fabric.poll_until_ns(me);
        if let Some(turn) = &self.turn {
            drop(fabric);
            turn.yield_until(me, until_ns);
            fabric = self.shared.fabric.lock();
            if let Some(fault) = fabric.fault(me) {
                return Err(fault);
            }
        }
        fabric.run_until(until_ns);
        let polled = fabric.deliver(me, until_ns, &mut self.slots, out);
        self.in_flight -= u32::try_from(polled).unwrap_or(self.in_flight);
        Ok(polled)
    }

    fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.slots.landed(at, u64::MAX)
    }

    fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.slots.staged(at, u64::MAX)
    }

    fn window(&self) -> &[AtomicU64] {
        &self.shared.windows[self.geometry.me.0 as usize]
    }

    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.geometry.check_segment(at).ok()?;
        let reached = match self.shared.config.direct_access {
            DirectAccess::None => false,
            DirectAccess::Own => at.start.owner == self.geometry.me,
            DirectAccess::All => true,
        };
        reached.then(|| run(&self.shared.windows[at.start.owner.0 as usize], at))
    }
}

// SAFETY: slots and windows are allocations outside the engine, freed after it is dropped. `Slots`
// creates references only to the range that a call names; windows are boxed atomics that all
// engines of the cluster share.
#[allow(unsafe_code)]
unsafe impl StableMemory for Engine {}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.fabric.lock().close(self.geometry.me);
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::{RemoteWord, Slot};

    use super::*;
    use crate::{Cluster, Config, Model};

    /// The contract hides busy slots, so only a unit test can observe what they hold.
    #[test]
    fn poisons_landing_range_until_completion() {
        let cluster = Cluster::new(Config { model: Model::simple(1_000), ..Config::default() });
        let mut engine = cluster.unwrap().engine(Owner(0)).unwrap();
        let whole = SlotRange { slot: Slot(3), start: 0, words: 64 };
        let landing = SlotRange { start: 8, words: 4, ..whole };
        engine.staged(whole).unwrap().fill(1);
        let start = RemoteWord { owner: Owner(1), index: 0 };
        let from = Segment { start, words: 4 };
        assert!(engine.read(Token(0), Segment { words: 5, ..from }, landing).is_err());
        assert_eq!(engine.slots.words(whole), Some(&[1; 64][..]), "a refused post leaves no trace");

        engine.read(Token(0), from, landing).unwrap();
        assert_eq!(engine.slots.words(landing), Some(&[POISON; 4][..]));
        assert_eq!(engine.landed(landing), Err(PostError::Busy));
        engine.shared.fabric.lock().apply_outstanding();
        assert_eq!(engine.slots.words(landing), Some(&[POISON; 4][..]), "read, not yet completed");

        assert_eq!(engine.poll(&mut [Completion::default()]), Ok(1));
        let mut expected = [1; 64];
        expected[8..12].fill(0);
        assert_eq!(engine.landed(whole), Ok(&expected[..]));
    }
}
