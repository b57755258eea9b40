//! The entries that this client has taken and not used.
//!
//! Each part has a counter of the entries taken from it. A client adds the length of a run to the
//! counter of its own part and then owns the run. When its part is exhausted it goes on with the
//! next owner's, so that a table is full only when every part is.

use core::hash::{Hash, Hasher};

use super::key::{Entries, Entry};

/// The longest run. While one is in use, the next is requested, so a client holds up to two.
const MAX_RUN: u64 = 64;
/// Divisor of the length of a run: a run takes at most 1/8 of an owner's equal share of the entries
/// left in a part.
const SHARE: u64 = 8;

/// Most entries given back that any operation can take. Those beyond stay with the storage of their
/// operation.
const MAX_RETURNED: usize = if cfg!(test) { 4 } else { 128 };

/// A run of entries of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Run {
    owner: u32,
    next: u64,
    end: u64,
}

impl Run {
    fn left(&self) -> u64 {
        self.end - self.next
    }
}

/// A fetch-and-add that takes entries, in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fetch {
    pub(crate) owner: u32,
    pub(crate) count: u64,
    /// Whether it takes a run for all operations, not an entry for its own only.
    is_run: bool,
}

/// Entries that operations gave back, the last one on top.
#[derive(Clone, Copy, Debug)]
struct Returned {
    entries: [Entry; MAX_RETURNED],
    count: usize,
}

impl Returned {
    const NONE: Self = Self { entries: [Entry(0); MAX_RETURNED], count: 0 };

    /// Returns `entry` if there is no room for it.
    fn push(&mut self, entry: Entry) -> Option<Entry> {
        let Some(place) = self.entries.get_mut(self.count) else { return Some(entry) };
        *place = entry;
        self.count += 1;
        None
    }

    #[inline]
    fn pop(&mut self) -> Option<Entry> {
        let top = self.count.checked_sub(1)?;
        self.count = top;
        self.entries.get(top).copied()
    }
}

impl Hash for Returned {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.entries.get(..self.count).hash(hasher);
    }
}

/// Returns the length of a run in a part that has this many entries left.
fn run_of(left: u64, owners: u32) -> u64 {
    let share = left.checked_div(SHARE * u64::from(owners)).unwrap_or(0);
    share.clamp(1, MAX_RUN)
}

/// The entries taken and not used. Those that operations keep are not among them.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Spares {
    runs: [Run; 2],
    /// Entries that operations gave back unused.
    returned: Returned,
    /// Whether a fetch of a run is in flight.
    is_fetching: bool,
    me: u32,
    owners: u32,
    /// The owner of the part from which entries are taken, and the parts not exhausted.
    part: u32,
    parts_left: u32,
    /// The length of the next run.
    run: u64,
    /// Changes when all entries that clients hold become free: `clear` and `retain`.
    pub(crate) epoch: u32,
}

impl Spares {
    pub(crate) fn new(me: u32, owners: u32, entries: &Entries) -> Self {
        Self {
            runs: [Run::default(); 2],
            returned: Returned::NONE,
            is_fetching: false,
            me,
            owners,
            part: me,
            parts_left: owners,
            run: run_of(entries.per_owner, owners),
            epoch: 0,
        }
    }

    /// Starts with runs of this length, for the model check.
    #[cfg(test)]
    pub(crate) fn taking(run: u64, entries: &Entries) -> Self {
        Self { run, ..Self::new(0, 1, entries) }
    }

    /// Drops all entries, also those that operations keep.
    pub(crate) fn forget(&mut self, entries: &Entries) {
        let epoch = self.epoch.wrapping_add(1);
        *self = Self { epoch, ..Self::new(self.me, self.owners, entries) };
    }

    /// Takes one of the entries held.
    #[inline]
    pub(crate) fn pop(&mut self, entries: &Entries) -> Option<Entry> {
        if let Some(entry) = self.returned.pop() {
            return Some(entry);
        }
        if self.runs[0].left() == 0 {
            self.runs.swap(0, 1);
        }
        let run = &mut self.runs[0];
        if run.left() == 0 {
            return None;
        }
        run.next += 1;
        Some(entries.entry(run.owner, run.next - 1))
    }

    /// Takes back an entry to which no bucket refers and no WRITE may still happen. Returns it if
    /// there is no room, which there is for the entry taken last.
    pub(crate) fn give_back(&mut self, entry: Entry) -> Option<Entry> {
        self.returned.push(entry)
    }

    /// Returns whether a run is being fetched, whose entries any operation can take.
    pub(crate) fn is_fetching(&self) -> bool {
        self.is_fetching
    }

    /// Returns the fetch-and-add to post: for an operation that `lacks` an entry, and to take the
    /// next run in time. It must be posted.
    #[inline]
    pub(crate) fn fetch(&mut self, lacks: bool) -> Option<Fetch> {
        if self.parts_left == 0 {
            return None;
        }
        let left = self.returned.count as u64 + self.runs[0].left() + self.runs[1].left();
        let is_run = !self.is_fetching && left <= self.run / 2;
        if !lacks && (!is_run || self.run == 1) {
            return None;
        }
        self.is_fetching |= is_run;
        Some(Fetch { owner: self.part, count: if is_run { self.run } else { 1 }, is_run })
    }

    /// Handles the result of a fetch: the entries taken from that part before it. Returns one for
    /// an operation that `lacks` one, if the part had any left.
    pub(crate) fn fetched(
        &mut self,
        Fetch { owner, count, is_run }: Fetch,
        before: u64,
        lacks: bool,
        entries: &Entries,
    ) -> Option<Entry> {
        self.is_fetching &= !is_run;
        let left = entries.per_owner.saturating_sub(before);
        let taken = count.min(left);
        if taken < count && owner == self.part {
            self.part = if self.part + 1 < self.owners { self.part + 1 } else { 0 };
            self.parts_left = self.parts_left.saturating_sub(1);
            // How much the next part has left is not known yet.
            self.run = 1;
        } else {
            self.run = run_of(left - taken, self.owners);
        }
        let mut run = Run { owner, next: before, end: before.saturating_add(taken) };
        let first = (lacks && taken > 0).then(|| {
            run.next += 1;
            entries.entry(owner, before)
        });
        if let Some(shorter) = self.runs.iter_mut().min_by_key(|run| run.left())
            && shorter.left() < run.left()
        {
            core::mem::swap(shorter, &mut run);
        }
        // Both runs may be in use: the next run is requested while up to half of it is left, and it may
        // have been longer than those in use. Entries without room are lost.
        for index in run.next..run.end {
            self.returned.push(entries.entry(run.owner, index));
        }
        first
    }

    /// Lets another operation fetch a run, after the one with this fetch in flight has failed. What
    /// the fetch takes is lost.
    pub(crate) fn fetch_failed(&mut self, fetch: Fetch) {
        self.is_fetching &= !fetch.is_run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_fetch_leaves_other_fetch() {
        let entries = Entries::new(1, 64, 1, 0);
        let mut spares = Spares::taking(4, &entries);
        let run = spares.fetch(true).unwrap();
        let single = spares.fetch(true).unwrap();
        assert_eq!((run.count, single.count), (4, 1));
        spares.fetch_failed(single);
        assert!(spares.is_fetching());
        assert_eq!(spares.fetch(false), None, "a second run");
        spares.fetch_failed(run);
        assert_eq!(spares.fetch(false), Some(run));
    }

    #[test]
    fn keeps_third_run() {
        let entries = Entries::new(1, 64, 1, 0);
        let mut spares = Spares::taking(4, &entries);
        for (before, count) in [(0, 2), (2, 3), (5, 3)] {
            let fetch = Fetch { owner: 0, count, is_run: true };
            assert_eq!(spares.fetched(fetch, before, false, &entries), None);
        }
        let mut held: Vec<_> = core::iter::from_fn(|| spares.pop(&entries)).collect();
        held.sort_unstable_by_key(|entry| entry.0);
        assert_eq!(held, (0..8).map(Entry).collect::<Vec<_>>());
    }

    #[test]
    fn reuses_returned_entries() {
        let entries = Entries::new(1, 64, 1, 0);
        let mut spares = Spares::taking(1, &entries);
        for index in 0..MAX_RETURNED as u64 {
            assert_eq!(spares.give_back(Entry(index)), None);
        }
        assert_eq!(spares.give_back(Entry(63)), Some(Entry(63)));
        for index in (0..MAX_RETURNED as u64).rev() {
            assert_eq!(spares.pop(&entries), Some(Entry(index)));
        }
        assert_eq!(spares.pop(&entries), None);
        spares.give_back(Entry(1));
        spares.forget(&entries);
        assert_eq!(spares.pop(&entries), None);
    }
}
