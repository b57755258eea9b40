//! Operations that had ended when they were posted, not yet reported, first come first served.

use probeline_transport::Token;

/// An operation that has ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) token: Token,
    /// The old value for atomics, else 0.
    pub(super) value: u64,
}

/// At most `depth` operations, in a ring allocated once.
#[derive(Debug)]
pub(super) struct Queue {
    /// A power of two, so that places are masked.
    ring: Box<[Done]>,
    pushed: u64,
    popped: u64,
}

impl Queue {
    pub(super) fn new(depth: u32) -> Self {
        let places = depth.next_power_of_two() as usize;
        Self { ring: vec![Done::default(); places].into(), pushed: 0, popped: 0 }
    }

    /// At most `depth`.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "as many as the depth")]
    pub(super) fn len(&self) -> u32 {
        (self.pushed - self.popped) as u32
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pushed == self.popped
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "what the mask leaves is an index")]
    fn place(&self, count: u64) -> usize {
        count as usize & (self.ring.len() - 1)
    }

    /// Takes `done` in; the caller has seen that there is room.
    #[inline]
    pub(super) fn push(&mut self, done: Done) {
        let place = self.place(self.pushed);
        match self.ring.get_mut(place) {
            Some(place) => {
                *place = done;
                self.pushed += 1;
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    /// The next to be reported.
    #[inline]
    pub(super) fn first(&self) -> Option<&Done> {
        if self.is_empty() {
            return None;
        }
        self.ring.get(self.place(self.popped))
    }

    /// Drops the next to be reported, which there is.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.popped += 1;
    }

    /// How many were ever pushed.
    #[inline]
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How many were ever popped.
    #[inline]
    pub(super) fn popped(&self) -> u64 {
        self.popped
    }

    /// Whether that has passed a multiple of `step`, a power of two, since it was `before`.
    #[inline]
    pub(super) fn has_passed(&self, before: u64, step: u64) -> bool {
        (before ^ self.popped) >= step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_also_behind_the_end_of_the_ring() {
        let mut queue = Queue::new(3);
        let done = |value| Done { value, ..Done::default() };
        for round in 0..4 {
            (0..3).for_each(|value| queue.push(done(3 * round + value)));
            assert_eq!(queue.len(), 3);
            for value in 0..3 {
                assert_eq!(queue.first(), Some(&done(3 * round + value)));
                queue.pop();
            }
            assert_eq!((queue.first(), queue.is_empty()), (None, true));
        }
        assert_eq!((queue.pushed(), queue.popped()), (12, 12));
        assert!(queue.has_passed(7, 8) && !queue.has_passed(8, 8) && queue.has_passed(0, 4));
    }
}
