//! Write notices: which pages a rank has changed in which of its intervals, and the log in which a rank
//! keeps those that it knows.

use bytemuck::{Pod, Zeroable};
use probeline_transport::Owner;

/// The words of a [`Notice`].
pub(crate) const NOTICE_WORDS: u32 = 2;
/// Bits of an interval, below the writer.
const INTERVAL_BITS: u32 = 48;

/// Adjacent pages that a rank has changed in one of its intervals: its work from a release to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Notice {
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The writer, and the number of its interval since the last barrier, from 1 on.
    source: u64,
}

impl Notice {
    pub(crate) fn new(first: u32, count: u32, writer: Owner, interval: u64) -> Self {
        Self { first, count, source: u64::from(writer.0) << INTERVAL_BITS | interval }
    }

    pub(crate) fn writer(self) -> usize {
        (self.source >> INTERVAL_BITS) as usize
    }

    pub(crate) fn interval(self) -> u64 {
        self.source & ((1 << INTERVAL_BITS) - 1)
    }

    fn contains(self, page: u32) -> bool {
        page.checked_sub(self.first).is_some_and(|offset| offset < self.count)
    }
}

/// The notices since the last barrier that this rank knows, its own and those of others, in an order in which
/// each comes after all that its writer knew. They have numbers from 0 on; a store holds the newest ones.
///
/// A log that overflows forgets all, and has one notice of this rank for all pages instead: who receives it
/// drops all copies. So a reader of the log never misses a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    me: Owner,
    /// All pages of the region.
    pages: u32,
    /// The oldest notice that the store has, and the one behind the newest.
    start: u64,
    end: u64,
    /// The number of this rank's intervals that have ended.
    closed: u64,
    /// Times that it has forgotten all, also before the last barrier.
    overflows: u64,
}

impl Log {
    pub(crate) fn new(me: Owner, pages: u32) -> Self {
        Self { me, pages, start: 0, end: 0, closed: 0, overflows: 0 }
    }

    /// Forgets everything, at a barrier.
    pub(crate) fn clear(&mut self) {
        *self = Self { overflows: self.overflows, ..Self::new(self.me, self.pages) };
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether a notice is of this rank.
    pub(crate) fn is_own(&self, notice: Notice) -> bool {
        notice.writer() == self.me.0 as usize
    }

    pub(crate) fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Ends this rank's interval.
    pub(crate) fn close_interval(&mut self) {
        self.closed += 1;
    }

    /// Notes that this rank has changed a page in its interval.
    pub(crate) fn note_own(&mut self, store: &mut [Notice], page: u32) {
        let notice = Notice::new(page, 1, self.me, self.closed + 1);
        let last = self.end.checked_sub(1).filter(|last| *last >= self.start);
        if let Some(last) = last.and_then(|last| store.get_mut(ring_index(last, store.len())))
            && last.source == notice.source
        {
            if last.contains(page) {
                return;
            }
            if page == last.first + last.count {
                last.count += 1;
                return;
            }
        }
        self.push(store, notice);
    }

    /// Adds a notice.
    pub(crate) fn push(&mut self, store: &mut [Notice], notice: Notice) {
        if self.end - self.start >= store.len() as u64 {
            return self.forget(store);
        }
        if let Some(to) = store.get_mut(ring_index(self.end, store.len())) {
            *to = notice;
        }
        self.end += 1;
    }

    /// Replaces all notices by one of this rank for all pages.
    pub(crate) fn forget(&mut self, store: &mut [Notice]) {
        self.start = self.end;
        self.overflows += 1;
        self.push(store, Notice::new(0, self.pages, self.me, self.closed + 1));
    }

    /// Returns the notices from number `from` on, or from the oldest on that the store has.
    pub(crate) fn since<'s>(
        &self,
        store: &'s [Notice],
        from: u64,
    ) -> impl Iterator<Item = (u64, Notice)> + use<'s> {
        let numbers = from.max(self.start)..self.end;
        numbers.filter_map(|number| Some((number, *store.get(ring_index(number, store.len()))?)))
    }
}

/// Returns the index of a number in a ring of this length.
pub(crate) fn ring_index(number: u64, len: usize) -> usize {
    // Less than `len`.
    #[allow(clippy::cast_possible_truncation)]
    let index = number.checked_rem(len as u64).unwrap_or_default() as usize;
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_adjacent_pages() {
        let mut log = Log::new(Owner(3), 100);
        let mut store = [Notice::zeroed(); 4];
        for page in [5, 6, 7, 6, 9] {
            log.note_own(&mut store, page);
        }
        log.close_interval();
        log.note_own(&mut store, 10);
        let all: Vec<_> = log.since(&store, 0).map(|(_, notice)| notice).collect();
        let mine = |first, count, interval| Notice::new(first, count, Owner(3), interval);
        assert_eq!(all, [mine(5, 3, 1), mine(9, 1, 1), mine(10, 1, 2)]);
        assert_eq!((all[2].writer(), all[2].interval()), (3, 2));
    }

    #[test]
    fn overflow_covers_all_pages() {
        let mut log = Log::new(Owner(1), 100);
        let mut store = [Notice::zeroed(); 2];
        for page in [5, 8, 20, 30] {
            log.note_own(&mut store, page);
        }
        let all: Vec<_> = log.since(&store, 1).collect();
        assert_eq!(all, [(2, Notice::new(0, 100, Owner(1), 1))]);
    }
}
