//! The clock of a transport: the machine's monotonic clock, or the simulator's virtual time;
//! and READs of words beside a structure's.

use core::ops::Range;
use std::collections::HashMap;

use probeline::transport::{Completion, Segment, Slot, SlotRange, Token, Transport};
use rustix::time::{ClockId, clock_gettime};

use crate::Error;

/// A transport with a clock: unless implemented otherwise, that of a machine. Ranks may then be on
/// several machines, whose clocks differ.
pub trait Timed: Transport {
    /// Returns whether the clocks of all ranks have the same origin.
    fn has_one_clock(&self) -> bool {
        false
    }

    /// Returns nanoseconds since an arbitrary origin.
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    /// Returns whether time is virtual, and passes only in [`spend`](Self::spend), [`pass`](Self::pass) and operations.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Lets other ranks go on, for `ns` nanoseconds of virtual time.
    fn pass(&mut self, _ns: u64) {
        std::thread::yield_now();
    }

    /// Lets other ranks go on, for at most `ns` nanoseconds of virtual time, until one changes the own window.
    fn watch(&mut self, _ns: u64) {
        std::thread::yield_now();
    }

    /// Lets the caller's CPU work for `ns` nanoseconds.
    fn spend(&mut self, ns: u64) {
        let until_ns = self.now_ns().saturating_add(ns);
        while self.now_ns() < until_ns {
            core::hint::spin_loop();
        }
    }
}

impl<T: Timed + ?Sized> Timed for &mut T {
    fn has_one_clock(&self) -> bool {
        (**self).has_one_clock()
    }

    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn is_virtual(&self) -> bool {
        (**self).is_virtual()
    }

    fn pass(&mut self, ns: u64) {
        (**self).pass(ns);
    }

    fn watch(&mut self, ns: u64) {
        (**self).watch(ns);
    }

    fn spend(&mut self, ns: u64) {
        (**self).spend(ns);
    }
}

#[cfg(feature = "sim")]
impl Timed for probeline::sim::Engine {
    fn has_one_clock(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        probeline::sim::Engine::now_ns(self)
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn pass(&mut self, ns: u64) {
        probeline::sim::Engine::pass(self, ns);
    }

    fn watch(&mut self, ns: u64) {
        probeline::sim::Engine::watch(self, ns);
    }

    fn spend(&mut self, ns: u64) {
        probeline::sim::Engine::spend(self, ns);
    }
}

impl Timed for probeline::shm::Engine {
    fn has_one_clock(&self) -> bool {
        true
    }
}

#[cfg(feature = "verbs")]
impl Timed for probeline::verbs::Engine {}
#[cfg(feature = "ucx")]
impl Timed for probeline::ucx::Engine {}
#[cfg(feature = "mpi")]
impl Timed for probeline::mpi::Engine {}

/// Returns the machine's monotonic clock in nanoseconds, which all its processes share
/// (clock_gettime(2)).
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock counts from boot, so neither field is negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// READs these words into slots, as many at a time as there are slots, and passes the words of each READ to
/// `landed` when it completes. Nothing else is in flight on the engine.
pub(crate) fn read_all(
    engine: &mut dyn Timed,
    slots: Range<u32>,
    reads: Vec<Segment>,
    mut landed: impl FnMut(&[u64]),
) -> Result<(), Error> {
    let (mut reads, mut free) = (reads.into_iter(), Vec::from_iter(slots));
    let mut landing = HashMap::new();
    let mut completions = [Completion::default(); 8];
    // Ends, because every operation that the transport accepts completes.
    loop {
        for (slot, from) in free.drain(..).zip(reads.by_ref()) {
            let into = SlotRange { slot: Slot(slot), start: 0, words: from.words };
            engine.read(Token(slot.into()), from, into)?;
            landing.insert(Token(slot.into()), into);
        }
        if landing.is_empty() {
            return Ok(());
        }
        let completed = engine.poll(&mut completions)?;
        for completion in completions.iter().take(completed) {
            completion.result?;
            if let Some(into) = landing.remove(&completion.token) {
                landed(engine.landed(into)?);
                free.push(into.slot.0);
            }
        }
    }
}
