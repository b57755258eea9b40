//! Probes of the candidates of a key: a READ of each, what it has shown, and what follows.

use probeline_pipeline::{Plain, Stop};
use probeline_transport::Transport;

#[cfg(test)]
use super::Mutant;
use super::{Ended, READ, Running, Stage, writes};
use crate::control::{Control, State};
use crate::hash::hash_of_bytes;
use crate::outcome::{Outcome, Request, ValueHash, Written};
use crate::search::{Kind, Next, Seen, Target};

impl<T: Transport, K: Plain, V: Plain> Running<'_, '_, T, K, V> {
    /// Reads the present candidate, and claims the first one as if it were empty.
    #[inline(always)]
    pub(super) fn probe(&mut self) -> Result<(), Stop> {
        let claims = self.context.claims_with_read
            && writes(self.request)
            && self.progress.search.is_at_start();
        self.port.reserve(1 + u32::from(claims))?;
        let bucket = self.context.layout.segment(self.place(self.progress.search.nth()));
        self.port.read(READ, bucket, self.landing(bucket.words))?;
        self.progress.awaited |= 1 << READ;
        self.context.stats.bucket_reads += 1;
        if claims {
            self.progress.target = Target { nth: 0, seen: Control::EMPTY, kind: Kind::Empty };
            self.progress.ticket = self.context.ticket(self.progress.hash);
            self.swap(Control::EMPTY, self.progress.ticket)?;
        }
        self.progress.stage = Stage::Probed { claims };
        Ok(())
    }

    /// Examines the candidate that has landed.
    #[inline(always)]
    pub(super) fn probed(&mut self, claims: bool) -> Result<Ended, Stop> {
        // The compare-and-swap decides: the READ posted with it may show an older word.
        if claims && self.progress.old == Control::EMPTY {
            return Ok(self.claimed());
        }
        let (control, key, value) = self.landed_entry()?;
        if claims && control.state() == State::Empty {
            self.context.follow_writer(control, self.progress.old);
            return Ok(self.wait());
        }
        let seen = Seen::unless_full(control, self.progress.hash)
            .unwrap_or_else(|| self.examine(control, key, value));
        match self.request {
            Request::Get if seen == Seen::Key => return Ok(Some(Outcome::Hit(()))),
            Request::Replace(_, old) if seen == Seen::Key && !self.may_replace(value, *old) => {
                return Ok(Some(self.end(Written::Present)));
            }
            _ => {}
        }
        self.context.stats.failed_checks += u64::from(seen == Seen::Mixed);
        let nth = self.progress.search.nth();
        self.progress.target = Target { nth, seen: control, kind: Kind::Key };
        if matches!(seen, Seen::ClaimedForKey | Seen::ClaimedForOther) {
            self.progress.blocked_by = control;
            if !self.words_are_whole() {
                // A get may pass any claim: a miss is right.
                if !matches!(self.request, Request::Get) {
                    self.progress.stage = Stage::Confirm;
                    return Ok(None);
                }
                self.progress.is_doubtful = true;
            }
        }
        Ok(self.see(control, seen))
    }

    /// Returns what a full bucket shows, by the key and the value that have landed.
    #[inline(always)]
    fn examine(&self, control: Control, key: &[u8], value: &[u8]) -> Seen {
        let is_key = key == self.key.bytes();
        #[cfg(test)]
        match self.progress.mutant {
            Mutant::TrustsKeys if is_key => return Seen::Key,
            Mutant::PassesMixed if !is_key => return Seen::Other,
            _ => {}
        }
        let place = self.place(self.progress.search.nth());
        let matches = |hash| control.has_check(self.context.check(hash, value, place));
        let has_check = match is_key {
            true => matches(self.progress.hash),
            false => !writes(self.request) || matches(hash_of_bytes(key, 0)),
        };
        Seen::from_full(is_key, has_check)
    }

    fn may_replace(&self, value: &[u8], expected: ValueHash) -> bool {
        #[cfg(test)]
        if self.progress.mutant == Mutant::ReplacesAll {
            return true;
        }
        ValueHash::from_bytes(value) == expected
    }

    /// Posts a fetch-and-add of 0 of the present candidate's control word.
    pub(super) fn confirm(&mut self) -> Result<(), Stop> {
        let at = self.context.layout.control(self.place(self.progress.search.nth()));
        self.add(at, 0)?;
        self.progress.stage = Stage::Confirmed;
        Ok(())
    }

    /// Believes the claim that a READ has shown if the word is still the same.
    pub(super) fn confirmed(&mut self) -> Ended {
        let seen = self.progress.target.seen;
        if self.context.mode.control(self.progress.old.0) != seen {
            return self.wait();
        }
        let shown = Seen::unless_full(seen, self.progress.hash).unwrap_or(Seen::Mixed);
        self.see(seen, shown)
    }

    /// Marks the target, whose entry is destroyed, as dropped.
    pub(super) fn clean(&mut self) -> Result<(), Stop> {
        let seen = self.progress.target.seen;
        if self.context.mode.overwrites() {
            // A WRITE would not tell whether another client has changed the bucket.
            self.progress.old = seen;
        } else {
            self.swap(seen, self.dropped(seen))?;
        }
        self.progress.stage = Stage::Cleaned;
        Ok(())
    }

    /// Passes the target that was cleaned, unless another client has changed it.
    pub(super) fn cleaned(&mut self) -> Ended {
        let (seen, old) = (self.progress.target.seen, self.progress.old);
        if old != seen {
            self.context.follow_writer(seen, old);
            return self.wait();
        }
        // Without an atomic the entry stays, and is counted by none of those who see it.
        self.context.stats.lost_entries += u64::from(!self.context.mode.overwrites());
        self.see(self.dropped(seen), Seen::Dropped)
    }

    /// Probes the present candidate again.
    #[inline(always)]
    pub(super) fn wait(&mut self) -> Ended {
        let next = self.progress.search.again();
        self.follow(next)
    }

    #[inline(always)]
    fn see(&mut self, control: Control, seen: Seen) -> Ended {
        let goal = self.context.goal(self.progress.hash, writes(self.request));
        let next = self.progress.search.see(control, seen, goal);
        self.follow(next)
    }

    /// Turns a decision of the search into the next stage, or the outcome.
    #[inline(always)]
    pub(super) fn follow(&mut self, next: Next) -> Ended {
        if next == Next::Busy && self.context.mode.locks() {
            self.note_held_lock();
        }
        self.progress.stage = match (next, self.request) {
            (Next::Probe(_) | Next::ProbeAgain, _) => Stage::Probe,
            (Next::Clean, _) => Stage::Clean,
            (Next::Key, Request::PutIfAbsent(_)) => return Some(self.end(Written::Present)),
            (Next::Key, _) => Stage::Claim,
            (Next::Absent(Some(target)), _) => {
                self.progress.target = target;
                Stage::Claim
            }
            (Next::Absent(None) | Next::Busy, Request::Get) => {
                let is_busy = next == Next::Busy || self.progress.is_doubtful;
                self.context.stats.busy += u64::from(is_busy);
                return Some(Outcome::Miss);
            }
            (Next::Absent(None), _) => return Some(self.end(Written::Absent)),
            (Next::Busy, _) => return Some(self.end(Written::Dropped)),
        };
        None
    }
}
