//! Measures which operations need an owner's CPU, by letting owners sleep outside MPI.

use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;
use std::thread;

use probeline_transport::{Exchange, Owner};

use super::OpenError;
use super::error::check;
use super::exchange::Members;
use super::in_flight::Operands;
use super::window::{Call, Window};
use crate::NeedsOwner;

/// The times for which owners sleep. The later, longer sleeps are for ranks that get no CPU in time
/// because ranks outnumber cores. They are omitted if no operation waited for a short one.
const SLEEPS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// The word of the window in which an owner stores whether it sleeps outside MPI. Zero before and after.
const ASLEEP: u64 = 0;
/// The word on which others try atomics meanwhile. Every window has it: whole cache lines.
const TRIED: u64 = 1;

pub(super) struct Trial<'a> {
    pub(super) members: &'a mut Members,
    pub(super) window: &'a Window,
    /// No operation is in flight, so that the words of the first place are unused.
    pub(super) operands: &'a Operands,
}

impl Trial<'_> {
    /// Tries all pairs of members, which all call this, in two rounds for each bit of their
    /// numbers: the numbers of any two members differ in a bit, so that one sleeps while the other
    /// is awake.
    pub(super) fn measure(&mut self) -> Result<NeedsOwner, OpenError> {
        self.connect()?;
        let mut needs_owner = NeedsOwner::default();
        for sleep in SLEEPS {
            needs_owner = self.rounds(sleep)?;
            if !needs_owner.any() {
                break;
            }
        }
        Ok(needs_owner)
    }

    /// Accesses every window once while all members are in MPI: the first operation may need both.
    fn connect(&mut self) -> Result<(), OpenError> {
        for owner in (0..self.members.owners()).map(Owner) {
            self.read(owner)?;
            self.compare_and_swap(owner)?;
        }
        Ok(self.members.barrier()?)
    }

    fn rounds(&mut self, sleep: Duration) -> Result<NeedsOwner, OpenError> {
        let (me, owners) = (self.members.me(), self.members.owners());
        let bits = u32::BITS - (owners - 1).leading_zeros();
        let mut needs_owner = NeedsOwner::default();
        for (bit, asleep) in (0..bits).flat_map(|bit| [(bit, 0), (bit, 1)]) {
            let sleeps = |owner: Owner| (owner.0 >> bit) & 1 == asleep;
            self.members.barrier()?;
            if sleeps(me) {
                // Not before the barrier, in which this member may progress others' operations.
                self.set_asleep(true);
                thread::sleep(sleep);
                self.set_asleep(false);
            } else {
                thread::sleep(sleep / 4);
                let sleepers = (0..owners).map(Owner).filter(|owner| sleeps(*owner));
                needs_owner = needs_owner.or(self.try_on(sleepers)?);
            }
            self.members.barrier()?;
        }
        Ok(needs_owner.combine_all(self.members)?)
    }

    /// Measures which operations need their owner. A READ that finds an owner asleep has not waited for
    /// it; nor has an atomic between two such READs. The first READs of all owners come first, because
    /// an atomic may wait until all owners are awake.
    fn try_on(
        &self,
        sleepers: impl Iterator<Item = Owner> + Clone,
    ) -> Result<NeedsOwner, OpenError> {
        let mut needs_owner = NeedsOwner::default();
        for owner in sleepers.clone() {
            needs_owner.reads |= self.read(owner)? == 0;
        }
        for owner in sleepers {
            let asleep_before = self.read(owner)? == 1;
            self.compare_and_swap(owner)?;
            let asleep_after = self.read(owner)? == 1;
            needs_owner.atomics |= !(asleep_before && asleep_after);
        }
        Ok(needs_owner)
    }

    fn set_asleep(&self, asleep: bool) {
        let word = self.window.own_words().first();
        debug_assert!(word.is_some(), "a window has words");
        if let Some(word) = word {
            word.store(asleep.into(), Release);
            // The measurement relies on it.
            debug_assert_eq!(word.load(Acquire), u64::from(asleep));
        }
    }

    /// Reads whether `owner` is asleep.
    fn read(&self, owner: Owner) -> Result<u64, OpenError> {
        let [into, ..] = self.operands.at(0);
        self.run("MPI_Get", owner, ASLEEP, Call::Get(into, 1))
    }

    /// Compares a word that is always 0 with 0 and swaps 0 in: the operands are zero since they
    /// were allocated.
    fn compare_and_swap(&self, owner: Owner) -> Result<u64, OpenError> {
        let call = Call::CompareAndSwap(self.operands.at(0));
        self.run("MPI_Compare_and_swap", owner, TRIED, call)
    }

    /// Runs an operation and returns its result.
    fn run(
        &self,
        name: &'static str,
        owner: Owner,
        index: u64,
        call: Call,
    ) -> Result<u64, OpenError> {
        // SAFETY: words of the first place, which nothing else uses until the flush.
        check(name, unsafe { self.window.start(owner, index, call) })?;
        check("MPI_Win_flush", self.window.flush(owner))?;
        Ok(self.operands.result(0))
    }
}
