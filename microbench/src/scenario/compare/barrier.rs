//! A barrier over the windows that polls the engine while it waits, because peers' operations may
//! need the owner's polls to make progress.

use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;

use probeline::transport::{Completion, Local, Owner, RemoteWord, Segment, Slot, Token};

use crate::failure::Result;
use crate::one_sided::{late, wait};
use crate::timed::Timed;

/// How long a rank polls on after the barrier if a peer's last WRITE may need that to complete.
const LINGER_NS: u64 = 5_000_000;
/// Time between two READs of the own words in a barrier with a pause. Such a READ costs a device,
/// or a CPU that emulates one, as much as that of a peer's words.
const READ_NS: u64 = 20_000_000;

/// Words in each window, one for each owner, in which the owner counts the barriers it has entered.
pub(super) struct Barrier {
    first_word: u64,
    /// The staging slot of the own count; the next slot is the landing slot of all counts.
    slot: Slot,
    entered: u64,
    limit_ns: u64,
}

impl Barrier {
    /// Slots that it needs, each with a word for each owner.
    pub(super) const SLOTS: u32 = 2;

    pub(super) fn words(owners: u32) -> u64 {
        u64::from(owners).next_multiple_of(8)
    }

    /// Uses the words from `first_word` on, which are 0, and the slots from `slot` on.
    pub(super) fn new(first_word: u64, slot: Slot, limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { first_word, slot, entered: 0, limit_ns }
    }

    pub(super) fn until_ns<T: Timed>(&self, engine: &T) -> u64 {
        engine.now_ns().saturating_add(self.limit_ns)
    }

    /// Returns when all owners have called it. While it waits, it polls, and checks for the others
    /// once per `pause` by loads, or all the time by READs if `pause` is 0. No operation may be in
    /// flight.
    pub(super) fn enter<T: Timed>(&mut self, engine: &mut T, pause: Duration) -> Result<()> {
        let until_ns = self.until_ns(engine);
        let (me, owners) = (engine.geometry().me, engine.geometry().owners);
        self.entered += 1;
        let mine = Local { slot: self.slot, start: 0, words: 1 };
        engine.staged(mine)?.fill(self.entered);
        let index = self.first_word + u64::from(me.0);
        for owner in (0..owners).map(Owner) {
            let start = RemoteWord { owner, index };
            engine.write(Token(0), mine, Segment { start, words: 1 })?;
            wait(engine, until_ns)?;
        }
        let start = RemoteWord { owner: me, index: self.first_word };
        let all = Local { slot: Slot(self.slot.0 + 1), start: 0, words: owners };
        loop {
            self.wait_by_loads(engine, pause)?;
            // The contract does not define the value of such a load before a barrier.
            engine.read(Token(0), Segment { start, words: owners }, all)?;
            wait(engine, until_ns)?;
            if engine.landed(all)?.iter().all(|&entered| entered >= self.entered) {
                break;
            }
            if engine.now_ns() > until_ns {
                return Err(late());
            }
        }
        let lingers = engine.caps().needs_owner_progress;
        poll_for(engine, if lingers { LINGER_NS } else { 0 })
    }

    /// Polls until loads of this window show that all have entered, checked once per `pause`, or
    /// until a READ is due.
    fn wait_by_loads<T: Timed>(&self, engine: &mut T, pause: Duration) -> Result<()> {
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        if pause_ns == 0 {
            return Ok(());
        }
        let first = usize::try_from(self.first_word)?;
        let words = first..first + engine.geometry().owners as usize;
        let start_ns = engine.now_ns();
        while engine.now_ns() - start_ns < READ_NS {
            let mut counts = engine.window().get(words.clone()).unwrap_or_default().iter();
            if counts.all(|count| count.load(Acquire) >= self.entered) {
                break;
            }
            poll_for(engine, pause_ns)?;
        }
        Ok(())
    }
}

fn poll_for<T: Timed>(engine: &mut T, pause_ns: u64) -> Result<()> {
    let start_ns = engine.now_ns();
    while engine.now_ns() - start_ns < pause_ns {
        engine.poll(&mut [Completion::default()])?;
    }
    Ok(())
}
