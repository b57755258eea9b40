//! Who needs an owner's CPU: measured by letting owners sleep outside MPI.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;
use std::thread;

use probeline_transport::{Exchange, Owner};

use super::control::Control;
use super::exchange::Members;
use super::private::Private;
use super::window::Window;
use super::{MpiError, OpenError};

/// How long owners sleep. A shorter nap that none was late for is enough; a later one is for those
/// who did not get a CPU in time, where ranks outnumber cores.
const NAPS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// What an owner outside MPI holds up, of any of the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// READs of its words wait until it enters MPI.
    pub reads_wait: bool,
    /// Atomics on its words do; taken for granted where READs do.
    pub atomics_wait: bool,
}

impl Idle {
    /// Whether anything waits.
    #[must_use]
    pub fn waits(self) -> bool {
        self.reads_wait || self.atomics_wait
    }

    fn and(self, other: Self) -> Self {
        Self {
            reads_wait: self.reads_wait || other.reads_wait,
            atomics_wait: self.atomics_wait || other.atomics_wait,
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.reads_wait, self.atomics_wait) {
            (false, false) => "READs and atomics need no owner",
            (false, true) => "READs need no owner, atomics wait for it to enter MPI",
            (true, _) => "READs and atomics wait for their owner to enter MPI",
        })
    }
}

/// What is needed to try it out.
pub(super) struct Trial<'a> {
    pub(super) members: &'a mut Members,
    pub(super) window: &'a Window,
    /// Nothing is in flight to it, so that the words of its first operation are free.
    pub(super) private: &'a Private,
    pub(super) control: Control,
}

impl Trial<'_> {
    /// Tries all pairs of members, who all call it, in 2 naps for each bit of their numbers: of any
    /// two, some bit differs, so that one sleeps while the other is awake.
    pub(super) fn measure(&mut self) -> Result<Idle, OpenError> {
        self.connect()?;
        let mut idle = Idle::default();
        for nap in NAPS {
            idle = self.turns(nap)?;
            if !idle.waits() {
                break;
            }
        }
        Ok(idle)
    }

    /// Reaches everybody once while all are in MPI: the first operation may need both sides.
    fn connect(&mut self) -> Result<(), OpenError> {
        for owner in (0..self.members.owners()).map(Owner) {
            self.read(owner)?;
            self.compare_and_swap(owner)?;
        }
        Ok(self.members.barrier()?)
    }

    fn turns(&mut self, nap: Duration) -> Result<Idle, OpenError> {
        let (me, owners) = (self.members.me(), self.members.owners());
        let bits = u32::BITS - (owners - 1).leading_zeros();
        let mut idle = Idle::default();
        for (bit, asleep) in (0..bits).flat_map(|bit| [(bit, 0), (bit, 1)]) {
            let sleeps = |owner: Owner| (owner.0 >> bit) & 1 == asleep;
            self.members.barrier()?;
            if sleeps(me) {
                // Not before: until it has left the barrier it may serve others.
                self.set_asleep(true);
                thread::sleep(nap);
                self.set_asleep(false);
            } else {
                thread::sleep(nap / 4);
                let sleepers = (0..owners).map(Owner).filter(|owner| sleeps(*owner));
                idle = idle.and(self.reach(sleepers)?);
            }
            self.members.barrier()?;
        }
        self.everybodys(idle)
    }

    /// A READ that finds an owner asleep has not waited for it; nor has an atomic between two of
    /// them. All first READs come before, for the first atomic may wait until everybody is awake.
    fn reach(&self, sleepers: impl Iterator<Item = Owner> + Clone) -> Result<Idle, OpenError> {
        let mut idle = Idle::default();
        for owner in sleepers.clone() {
            idle.reads_wait |= self.read(owner)? == 0;
        }
        for owner in sleepers {
            let asleep_before = self.read(owner)? == 1;
            self.compare_and_swap(owner)?;
            let asleep_after = self.read(owner)? == 1;
            idle.atomics_wait |= !(asleep_before && asleep_after);
        }
        Ok(idle)
    }

    fn everybodys(&mut self, idle: Idle) -> Result<Idle, OpenError> {
        let mut all = vec![0; 2 * self.members.owners() as usize];
        self.members.all_gather(&[idle.reads_wait, idle.atomics_wait].map(u8::from), &mut all)?;
        let (all, _) = all.as_chunks();
        let theirs = |[reads, atomics]: &[u8; 2]| Idle {
            reads_wait: *reads != 0,
            atomics_wait: *atomics != 0,
        };
        Ok(all.iter().map(theirs).fold(idle, Idle::and))
    }

    fn set_asleep(&self, asleep: bool) {
        let at = usize::try_from(self.control.asleep()).unwrap_or(usize::MAX);
        if let Some(word) = self.window.own_words().get(at) {
            word.store(asleep.into(), Release);
            // The trial rests on it.
            debug_assert_eq!(word.load(Acquire), u64::from(asleep));
        }
    }

    fn read(&self, owner: Owner) -> Result<u64, MpiError> {
        let [into, ..] = self.private.atomic(0);
        // SAFETY: a word that nothing else uses, until the flush in `finish`.
        let code = unsafe { self.window.get(into, 1, owner, self.control.asleep()) };
        MpiError::check("MPI_Get", code)?;
        self.finish(owner)
    }

    /// Of a word that stays 0.
    fn compare_and_swap(&self, owner: Owner) -> Result<u64, MpiError> {
        let [old, desired, expected] = self.private.atomic(0);
        // SAFETY: words that nothing else uses, until the flush in `finish`; zero since they were
        // allocated.
        let code = unsafe {
            let carried = [desired.cast_const(), expected.cast_const()];
            self.window.compare_and_swap(old, carried, owner, self.control.tried())
        };
        MpiError::check("MPI_Compare_and_swap", code)?;
        self.finish(owner)
    }

    fn finish(&self, owner: Owner) -> Result<u64, MpiError> {
        MpiError::check("MPI_Win_flush", self.window.flush(owner))?;
        Ok(self.private.old_value(0))
    }
}
