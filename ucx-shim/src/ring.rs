//! A queue of a fixed number of operations.

/// A queue in a ring that is allocated once.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// The length is a power of two, so that positions can be masked.
    items: Box<[T]>,
    pushed: u64,
    popped: u64,
}

impl<T: Copy + Default> Ring<T> {
    /// A ring for at least `capacity` items.
    pub(crate) fn new(capacity: u32) -> Self {
        let items = vec![T::default(); capacity.next_power_of_two() as usize].into();
        Self { items, pushed: 0, popped: 0 }
    }

    /// The caller keeps at most the capacity in it.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "at most the capacity, a u32")]
    pub(crate) fn len(&self) -> u32 {
        (self.pushed - self.popped) as u32
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pushed == self.popped
    }

    /// The place of the item number `count`, counted from the first one that was pushed.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the masked value is an index")]
    pub(crate) fn place(&self, count: u64) -> usize {
        count as usize & (self.items.len() - 1)
    }

    /// The item number `count`, which was pushed and not popped.
    #[inline]
    pub(crate) fn get(&self, count: u64) -> Option<&T> {
        self.items.get(self.place(count))
    }

    /// Appends `item`; the caller has checked that there is room.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        let place = self.place(self.pushed);
        match self.items.get_mut(place) {
            Some(place) => {
                *place = item;
                self.pushed += 1;
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.get(self.popped) }
    }

    /// Removes the first item, which exists.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.popped += 1;
    }

    /// The number of items that were ever pushed.
    #[inline]
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The number of items that were ever popped.
    #[inline]
    pub(crate) fn popped(&self) -> u64 {
        self.popped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order_when_the_ring_wraps() {
        let mut ring = Ring::new(3);
        for round in 0..4 {
            (0..3).for_each(|item| ring.push(3 * round + item));
            assert_eq!(ring.len(), 3);
            for item in 0..3 {
                assert_eq!(ring.first(), Some(&(3 * round + item)));
                ring.pop();
            }
            assert_eq!((ring.first(), ring.is_empty()), (None, true));
        }
        assert_eq!((ring.pushed(), ring.popped()), (12, 12));
    }
}
