//! The entries that this client has taken and not used.
//!
//! Each part has a counter of the entries taken from it. A client adds the length of a run to the
//! counter of its own part and then owns the run. When its part is exhausted it goes on with the
//! next owner's, so that a table is full only when every part is.

use super::key::{Entries, Entry};

/// The longest run. While one is in use, the next is requested, so a client holds up to two.
const MAX_RUN: u64 = 64;
/// Divisor of the length of a run: a run takes at most 1/8 of an owner's equal share of the entries
/// left in a part.
const SHARE: u64 = 8;

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

/// Returns the length of a run in a part that has this many entries left.
fn run_of(left: u64, owners: u32) -> u64 {
    let share = left.checked_div(SHARE * u64::from(owners)).unwrap_or(0);
    share.clamp(1, MAX_RUN)
}

/// The entries taken and not used. Those that operations keep are not among them.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Spares {
    runs: [Run; 2],
    /// One that was not used after all.
    returned: Option<Entry>,
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
            returned: None,
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
        if let Some(entry) = self.returned.take() {
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

    /// Takes back the entry taken last, which no bucket refers to.
    pub(crate) fn give_back(&mut self, entry: Entry) {
        debug_assert_eq!(self.returned, None, "two entries are returned");
        self.returned = Some(entry);
    }

    /// Returns the fetch-and-add to post: for an operation that `lacks` an entry, and to take the
    /// next run in time. It must be posted.
    #[inline]
    pub(crate) fn fetch(&mut self, lacks: bool) -> Option<Fetch> {
        if self.parts_left == 0 {
            return None;
        }
        let left = self.runs[0].left() + self.runs[1].left();
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
        // Both runs are in use only if an operation failed while another one fetched a run, so that
        // a second fetch started. The shorter run is then lost.
        if let Some(shorter) = self.runs.iter_mut().min_by_key(|run| run.left())
            && shorter.left() < run.left()
        {
            *shorter = run;
        }
        first
    }

    /// Lets another operation fetch a run, after one that may have been fetching has failed.
    pub(crate) fn failed(&mut self) {
        self.is_fetching = false;
    }
}
