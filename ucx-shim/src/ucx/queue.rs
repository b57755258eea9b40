//! Operations that had ended when they were posted, not yet reported, first come first served.

use transport::{Slot, Token};

/// An operation that has ended well.
// In this order, so that however stores of constants are merged, what a poll loads lies within one
// of them: a load across two waits until both have left the store buffer, a third of a READ's time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) token: Token,
    /// The old value for atomics, else 0.
    pub(super) value: u64,
    /// The slot that READ and WRITE keep busy until they are reported.
    pub(super) slot: Option<Slot>,
}

/// At most `depth` operations, in a ring allocated once.
#[derive(Debug)]
pub(super) struct Queue {
    /// A power of two, so that counters that wrap stay consecutive.
    ring: Box<[Done]>,
    pushed: u32,
    popped: u32,
}

impl Queue {
    pub(super) fn new(depth: u32) -> Self {
        let places = depth.next_power_of_two() as usize;
        Self { ring: vec![Done::default(); places].into(), pushed: 0, popped: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.pushed.wrapping_sub(self.popped)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.pushed == self.popped
    }

    /// Takes `done` in; the caller has seen that there is room.
    #[inline]
    pub(super) fn push(&mut self, done: Done) {
        let place = self.pushed as usize & (self.ring.len() - 1);
        if let Some(place) = self.ring.get_mut(place) {
            *place = done;
            self.pushed = self.pushed.wrapping_add(1);
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Done> {
        if self.is_empty() {
            return None;
        }
        let done = *self.ring.get(self.popped as usize & (self.ring.len() - 1))?;
        self.popped = self.popped.wrapping_add(1);
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_also_where_counters_wrap() {
        let mut queue = Queue::new(3);
        (queue.pushed, queue.popped) = (u32::MAX - 1, u32::MAX - 1);
        let done = |value| Done { value, ..Done::default() };
        for round in 0..4 {
            (0..3).for_each(|value| queue.push(done(3 * round + value)));
            assert_eq!(queue.len(), 3);
            (0..3).for_each(|value| assert_eq!(queue.pop(), Some(done(3 * round + value))));
            assert_eq!((queue.pop(), queue.is_empty()), (None, true));
        }
    }
}
