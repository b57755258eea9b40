//! Operations done and not yet reported, first come first served.

use probeline_transport::{Slot, Token};

/// An operation that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) token: Token,
    /// The old value for atomics, else 0.
    pub(crate) value: u64,
    /// The slot that READ and WRITE keep busy until they are reported.
    pub(crate) slot: Option<Slot>,
}

/// At most `depth` operations, in a ring allocated once.
#[derive(Debug)]
pub(crate) struct Queue {
    /// A power of two, so that counters that wrap stay consecutive.
    ring: Box<[Done]>,
    depth: u32,
    pushed: u32,
    popped: u32,
}

impl Queue {
    /// `depth` is at most [`MAX_DEPTH`](Self::MAX_DEPTH).
    pub(crate) fn new(depth: u32) -> Self {
        let places = depth.next_power_of_two() as usize;
        Self { ring: vec![Done::default(); places].into(), depth, pushed: 0, popped: 0 }
    }

    /// 24 MiB of completions; far above what hides any latency of this machine's memory.
    pub(crate) const MAX_DEPTH: u32 = 1 << 20;

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.pushed.wrapping_sub(self.popped)
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.depth
    }

    /// Takes `done` in; the caller has seen that the queue is not full.
    #[inline]
    pub(crate) fn push(&mut self, done: Done) {
        debug_assert!(!self.is_full());
        let place = self.pushed as usize & (self.ring.len() - 1);
        match self.ring.get_mut(place) {
            Some(place) => {
                *place = done;
                self.pushed = self.pushed.wrapping_add(1);
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Done> {
        if self.len() == 0 {
            return None;
        }
        let done = *self.ring.get(self.popped as usize & (self.ring.len() - 1))?;
        self.popped = self.popped.wrapping_add(1);
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_deque_of_its_depth(
            depth in 1_u32..40,
            start in any::<u32>(),
            pushes in proptest::collection::vec(any::<bool>(), 0..400),
        ) {
            let mut queue = Queue::new(depth);
            (queue.pushed, queue.popped) = (start, start);
            let mut model = VecDeque::new();
            for (value, push) in (0..).zip(pushes) {
                let done = Done { value, ..Done::default() };
                if push && !queue.is_full() {
                    queue.push(done);
                    model.push_back(done);
                } else if !push {
                    prop_assert_eq!(queue.pop(), model.pop_front());
                }
                prop_assert_eq!(queue.len() as usize, model.len());
                prop_assert_eq!(queue.is_full(), model.len() == depth as usize);
            }
        }
    }
}
