//! A barrier whose waits poll the engine, so that owners whose polls others need do not hold them
//! up while they wait.

use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;

use probeline_transport::{Completion, Local, Owner, RemoteWord, Segment, Slot, Token};

use crate::failure::{Failure, Result};
use crate::timed::Timed;

/// How long one who has met the others polls on, where a peer's last WRITE may need it to end.
const LINGER_NS: u64 = 5_000_000;
/// How often one who waits without haste READs its own words, which costs a device, or a CPU that
/// stands in for one, as much as another's.
const READ_NS: u64 = 20_000_000;
/// Polls between two readings of the clock.
const POLLS: u32 = 64;

/// Words in each window, one for each owner, in which it counts the meetings it has come to.
pub(super) struct Meeting {
    /// The first of these words.
    first_word: u64,
    /// The slot for what is written; the words read land in the one behind it.
    slot: Slot,
    met: u64,
    /// The longest wait for the others.
    limit_ns: u64,
}

impl Meeting {
    /// Slots that it takes, of at least as many words as there are owners.
    pub(super) const SLOTS: u32 = 2;

    /// Words that it takes in each window.
    pub(super) fn words(owners: u32) -> u64 {
        u64::from(owners).next_multiple_of(8)
    }

    /// In words that are 0, at `first_word`, and in the slots from `slot` on.
    pub(super) fn new(first_word: u64, slot: Slot, limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { first_word, slot, met: 0, limit_ns }
    }

    /// When an operation that is posted now must have ended, at the latest.
    pub(super) fn until_ns<T: Timed>(&self, engine: &T) -> u64 {
        engine.now_ns().saturating_add(self.limit_ns)
    }

    /// Returns when all owners have called it; one that waits looks for the others once in
    /// `pause`, by loads or, without a pause, by READs, and polls. Nothing may be in flight.
    pub(super) fn meet<T: Timed>(&mut self, engine: &mut T, pause: Duration) -> Result<()> {
        let until_ns = self.until_ns(engine);
        let (me, owners) = (engine.geometry().me, engine.geometry().owners);
        self.met += 1;
        let mine = Local { slot: self.slot, start: 0, words: 1 };
        engine.staged(mine)?.fill(self.met);
        let index = self.first_word + u64::from(me.0);
        for owner in (0..owners).map(Owner) {
            let start = RemoteWord { owner, index };
            engine.write(Token(0), mine, Segment { start, words: 1 })?;
            wait(engine, until_ns)?;
        }
        let start = RemoteWord { owner: me, index: self.first_word };
        let all = Local { slot: Slot(self.slot.0 + 1), start: 0, words: owners };
        loop {
            self.loads_see(engine, pause)?;
            // What a plain load sees of it before the next barrier is not promised.
            engine.read(Token(0), Segment { start, words: owners }, all)?;
            wait(engine, until_ns)?;
            if engine.landed(all)?.iter().all(|&met| met >= self.met) {
                break;
            }
            if engine.now_ns() > until_ns {
                return Err(late());
            }
        }
        let lingers = engine.caps().needs_owner_progress;
        poll_for(engine, if lingers { LINGER_NS } else { 0 })
    }

    /// Polls until loads of this window show that all have come, looking once in `pause`, or until
    /// a READ is due.
    fn loads_see<T: Timed>(&self, engine: &mut T, pause: Duration) -> Result<()> {
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        if pause_ns == 0 {
            return Ok(());
        }
        let first = usize::try_from(self.first_word)?;
        let words = first..first + engine.geometry().owners as usize;
        let start_ns = engine.now_ns();
        while engine.now_ns() - start_ns < READ_NS {
            let mut met = engine.window().get(words.clone()).unwrap_or_default().iter();
            if met.all(|met| met.load(Acquire) >= self.met) {
                break;
            }
            poll_for(engine, pause_ns)?;
        }
        Ok(())
    }
}

/// Polls until the one operation in flight has ended, and gives what it brought.
pub(super) fn wait<T: Timed>(engine: &mut T, until_ns: u64) -> Result<u64> {
    let mut end = [Completion::default()];
    loop {
        for _ in 0..POLLS {
            if engine.poll(&mut end)? > 0 {
                return Ok(end[0].result?);
            }
        }
        if engine.now_ns() > until_ns {
            return Err(late());
        }
    }
}

/// Polls with nothing in flight.
fn poll_for<T: Timed>(engine: &mut T, pause_ns: u64) -> Result<()> {
    let start_ns = engine.now_ns();
    while engine.now_ns() - start_ns < pause_ns {
        engine.poll(&mut [Completion::default()])?;
    }
    Ok(())
}

fn late() -> Failure {
    Failure::new(
        "an operation did not end, or a rank did not come, within --step-timeout: give more time, \
         or see in its standard error what another rank ended with",
    )
}
