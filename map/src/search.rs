//! The search of an operation: what it has seen of a key's candidates, and what it does next. Posted
//! operations and the CPU share these decisions.

use crate::control::{Clock, Control, State};
use crate::layout::MAX_CANDIDATES;
use crate::outcome::Written;

/// The largest number of READs of a bucket again, and of searches from the start again, that one
/// operation makes because other clients write to its candidates.
pub(crate) const MAX_RETRIES: u32 = 8;

/// READs in a row of a bucket with the same control word, none with a matching check, after which its
/// entry is known to be destroyed.
const MIXED_READS: u8 = 3;

/// Content of a bucket for an operation on a key, as one READ shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Never used.
    Empty,
    /// The key's entry, with a check that matches.
    Key,
    /// The entry of another key. For a write, its check matches.
    Other,
    /// No entry.
    Dropped,
    /// A client writes an entry of this key, or of another one.
    ClaimedForKey,
    ClaimedForOther,
    /// The bucket is full and the check does not match: words of different times, or an entry that
    /// a late WRITE has destroyed.
    Mixed,
}

impl Seen {
    /// Returns what the control word shows to an operation on a key of this hash; `None` if the body
    /// decides.
    #[inline(always)]
    pub(crate) fn unless_full(control: Control, hash: u64) -> Option<Self> {
        match control.state() {
            State::Full => None,
            State::Empty => Some(Self::Empty),
            State::Dropped => Some(Self::Dropped),
            State::Claimed if control.is_claim_for(hash) => Some(Self::ClaimedForKey),
            State::Claimed => Some(Self::ClaimedForOther),
        }
    }

    /// Returns what a full bucket shows: whether the key's bytes, and whether the check matches these
    /// or those of the other key.
    ///
    /// A get may pass an entry of another key as if its check matched: an entry of the key that was
    /// complete before the get began would show the key's bytes.
    #[inline(always)]
    pub(crate) fn from_full(is_key: bool, has_check: bool) -> Self {
        match (is_key, has_check) {
            (true, true) => Self::Key,
            (false, true) => Self::Other,
            (_, false) => Self::Mixed,
        }
    }
}

/// The next step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Probe the candidate of this number.
    Probe(u32),
    /// Probe the present candidate again.
    ProbeAgain,
    /// The candidate with the key decides.
    Key,
    /// The entry of the present candidate is destroyed: mark it as dropped. A WRITE that is late could
    /// otherwise complete it.
    Clean,
    /// The key has no entry. For a write: claim this candidate.
    Absent(Option<Target>),
    /// Too many retries, because other clients write to the candidates.
    Busy,
}

/// A candidate to claim, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) nth: u32,
    /// The control word that the claim replaces.
    pub(crate) seen: Control,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The first empty candidate.
    Empty,
    /// The key's own bucket.
    Key,
    /// A bucket without an entry: dropped, or claimed by a client that seems dead.
    Unused,
    /// The oldest entry of another key.
    Oldest,
}

impl Kind {
    /// Returns what a put has done that has replaced the control word of such a candidate.
    pub(crate) fn written(self) -> Written {
        match self {
            Self::Key => Written::Updated,
            Self::Oldest => Written::Evicted,
            Self::Empty | Self::Unused => Written::Inserted,
        }
    }
}

impl Target {
    /// Returns whether the other candidates must be compared after the claim. Another client may
    /// have chosen another bucket for the same key, unless the key has this one, or the first of its
    /// candidates was empty.
    pub(crate) fn needs_comparison(&self) -> bool {
        !(self.kind == Kind::Key || self.kind == Kind::Empty && self.nth == 0)
    }
}

/// The progress of an operation through the candidates of its key.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Search {
    /// Control words of the candidates before `nth`.
    controls: [Control; MAX_CANDIDATES as usize],
    nth: u32,
    retries: u32,
    /// The largest number of retries.
    max: u32,
    /// The control word that the last READs of the present candidate have shown, and their number,
    /// if they were mixed.
    mixed: (Control, u8),
}

impl Search {
    pub(crate) const START: Self = Self {
        controls: [Control::EMPTY; MAX_CANDIDATES as usize],
        nth: 0,
        retries: 0,
        max: MAX_RETRIES,
        mixed: (Control::EMPTY, 0),
    };

    /// Sets the largest number of retries.
    pub(crate) fn set_max_retries(&mut self, max: u32) {
        self.max = max;
    }

    /// Returns the number of the present candidate, from 0 on.
    #[inline]
    pub(crate) fn nth(&self) -> u32 {
        self.nth
    }

    /// Returns whether nothing was seen yet.
    #[inline]
    pub(crate) fn is_at_start(&self) -> bool {
        self.nth == 0 && self.retries == 0
    }

    /// Returns the number of retries so far.
    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    /// Returns the control word of a candidate as it was seen last.
    pub(crate) fn control(&self, nth: u32) -> Control {
        self.controls.get(nth as usize).copied().unwrap_or_default()
    }

    /// Counts a retry. Returns false after too many.
    fn may_retry(&mut self) -> bool {
        self.retries += 1;
        self.retries <= self.max
    }

    /// Looks at the present candidate again.
    pub(crate) fn again(&mut self) -> Next {
        if self.may_retry() { Next::ProbeAgain } else { Next::Busy }
    }

    /// Begins again with the first candidate.
    pub(crate) fn restart(&mut self) -> Next {
        let Self { retries, max, .. } = *self;
        *self = Self { retries, max, ..Self::START };
        if self.may_retry() { Next::Probe(0) } else { Next::Busy }
    }

    /// Returns the number of candidates to compare after a claim that needs it: those that were seen,
    /// and the empty one at which the search stopped.
    pub(crate) fn compared(&self, goal: Goal<'_>) -> u32 {
        goal.candidates.min(self.nth + 1)
    }

    /// Returns whether a candidate may hold an entry of the same key now or later: its control word,
    /// which is not torn, has changed since the search, or shows a second old claim for the key, whose
    /// client may only be slow. After the first claim was given up, a new search takes over the second.
    pub(crate) fn is_conflict(&self, nth: u32, now: Control, hash: u64) -> bool {
        let seen = self.control(nth);
        match now.state() {
            _ if now == seen => now.is_claim_for(hash),
            _ if seen == Control::EMPTY => true,
            State::Dropped => false,
            State::Claimed => now.is_claim_for(hash),
            State::Empty | State::Full => true,
        }
    }

    /// Takes what a READ of the present candidate has shown.
    #[inline(always)]
    pub(crate) fn see(&mut self, control: Control, seen: Seen, goal: Goal<'_>) -> Next {
        let (last, times) = core::mem::take(&mut self.mixed);
        let times = if last == control { times + 1 } else { 1 };
        match seen {
            Seen::Key => return Next::Key,
            Seen::Empty => return self.end(goal, true),
            // The words of the second READ lie between the control words of the first and the
            // third one, between which no client claimed the bucket: it has no entry.
            Seen::Mixed if times >= MIXED_READS && goal.writes => return Next::Clean,
            Seen::Mixed if times >= MIXED_READS => {}
            Seen::Mixed => {
                self.mixed = (control, times);
                return self.again();
            }
            Seen::Other | Seen::Dropped | Seen::ClaimedForKey | Seen::ClaimedForOther => {}
        }
        if let Some(place) = self.controls.get_mut(self.nth as usize) {
            *place = control;
        }
        self.nth += 1;
        if self.nth < goal.candidates { Next::Probe(self.nth) } else { self.end(goal, false) }
    }

    /// Decides at the end of the candidates, or at the first empty one.
    #[inline(never)]
    fn end(&mut self, goal: Goal<'_>, at_empty: bool) -> Next {
        let seen = || (0..self.nth).map(|nth| (nth, self.control(nth)));
        let mut for_key = seen().filter(|(_, control)| control.is_claim_for(goal.hash));
        let pending = for_key.next();
        let all_old = pending.into_iter().chain(for_key).all(|(_, control)| goal.is_dead(control));
        match (pending, goal.writes) {
            // Another client writes the key. An operation that does not wait for it could give the
            // key a second bucket, or miss an entry that is only being replaced.
            (Some(_), _) if !all_old => self.restart(),
            (_, false) => Next::Absent(None),
            // Its client may complete the claim after all, so no other bucket will do.
            (Some((nth, seen)), true) => {
                Next::Absent(Some(Target { nth, seen, kind: Kind::Unused }))
            }
            (None, true) => match self.target(goal, at_empty) {
                Some(target) => Next::Absent(Some(target)),
                None => self.restart(),
            },
        }
    }

    /// Returns a dropped bucket, or else the empty one, or one whose client seems dead, or the one
    /// with the oldest entry. Returns `None` if other clients write to all candidates.
    fn target(&self, goal: Goal<'_>, at_empty: bool) -> Option<Target> {
        let seen = || (0..self.nth).map(|nth| (nth, self.control(nth)));
        let of_kind = |(nth, seen), kind| Target { nth, seen, kind };
        let dropped = seen().find(|(_, control)| control.state() == State::Dropped);
        if let Some(dropped) = dropped {
            return Some(of_kind(dropped, Kind::Unused));
        }
        if at_empty {
            return Some(of_kind((self.nth, Control::EMPTY), Kind::Empty));
        }
        if let Some(dead) = seen().find(|(_, control)| goal.is_dead(*control)) {
            return Some(of_kind(dead, Kind::Unused));
        }
        let full = seen().filter(|(_, control)| control.state() == State::Full);
        let age =
            |control: Control| core::cmp::Reverse(goal.clock.ticks_since_entry(control.age()));
        // Of equally old entries the first one, which is read most.
        let oldest = full.min_by_key(|(_, control)| age(*control));
        oldest.map(|oldest| of_kind(oldest, Kind::Oldest))
    }
}

/// The purpose of a search: its key, and whether it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal<'c> {
    pub(crate) hash: u64,
    /// Whether it needs a bucket if the key has none.
    pub(crate) writes: bool,
    pub(crate) candidates: u32,
    pub(crate) clock: &'c Clock,
    /// Ticks after which a claim is treated as that of a dead client.
    pub(crate) claim_ticks: u8,
}

impl Goal<'_> {
    /// Returns whether the client of a claim seems dead.
    fn is_dead(&self, control: Control) -> bool {
        control.state() == State::Claimed && self.clock.has_expired(control.age(), self.claim_ticks)
    }
}
