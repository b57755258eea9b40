//! Probe orders: the order in which an operation examines the buckets of the ring.

use crate::bucket::{Bucket, Wanted};
use crate::layout::{LINE_BUCKETS, Layout, Position, Probing};

/// The position of one operation in its probe order: the start of the buckets that it examines
/// next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    /// The next bucket or, for `Lines` and `DoubleHash`, the start of its line.
    pub(crate) at: Position,
    /// Offset of the bucket examined first in each line; 0 with linear probing.
    pub(crate) rotation: u32,
    /// Distance from one line to the next in an order by double hashing; 0 until it is computed.
    stride: Position,
    /// The line at which the present orbit of steps by `stride` began, once that is computed.
    orbit: Position,
}

impl Probe {
    pub(crate) const NOWHERE: Self = Self {
        at: Position { owner: 0, index: 0 },
        rotation: 0,
        stride: Position { owner: 0, index: 0 },
        orbit: Position { owner: 0, index: 0 },
    };

    /// Returns the start of the probe order of `bucket`, at its home.
    #[inline(always)]
    pub(crate) fn new(bucket: impl Wanted, layout: &Layout) -> Self {
        let home = layout.home_of(bucket.hashed());
        let rotation =
            if layout.probing() == Probing::Linear { 0 } else { layout.offset_in_line(home) };
        let at = Position { owner: home.owner, index: home.index - u64::from(rotation) };
        Self { at, rotation, ..Self::NOWHERE }
    }

    /// Advances past the next `buckets` buckets: whole lines for `Lines`, one line for `DoubleHash`.
    #[inline]
    pub(crate) fn pass(&mut self, buckets: u32, bucket: impl Wanted, layout: &Layout) {
        if layout.probing() == Probing::DoubleHash {
            return self.go_to_next_line(bucket, layout);
        }
        self.at = layout.advance(self.at, u64::from(buckets));
    }

    /// Goes to the next line. The order visits every line of the ring once: if the stride has a
    /// common factor with the number of lines and returns to the start of the orbit, the next orbit
    /// starts one line further.
    #[inline]
    fn go_to_next_line(&mut self, bucket: impl Wanted, layout: &Layout) {
        if self.stride == Position::default() {
            self.stride = layout.stride(bucket.hashed());
            self.orbit = self.at;
        }
        self.at = layout.plus(self.at, self.stride);
        if self.at == self.orbit {
            self.at = layout.advance(self.at, u64::from(LINE_BUCKETS));
            self.orbit = self.at;
        }
    }

    /// Returns the memory offset of the `nth` bucket examined from this position on.
    #[inline]
    pub(crate) fn offset(rotation: u32, nth: u32) -> u32 {
        let line = LINE_BUCKETS - 1;
        nth & !line | (nth + rotation) & line
    }
}

impl Layout {
    /// Returns the positions of all buckets of the ring in the order in which an operation on
    /// `bucket` examines them, the home first.
    pub fn probe_order(&self, bucket: Bucket) -> impl Iterator<Item = Position> + use<> {
        let (layout, mut probe) = (*self, Probe::new(bucket, self));
        (0..self.buckets()).map(move |nth| {
            // At most 7, because of the remainder.
            #[allow(clippy::cast_possible_truncation)]
            let in_line = (nth % u64::from(LINE_BUCKETS)) as u32;
            if nth > 0 && in_line == 0 {
                probe.pass(LINE_BUCKETS, bucket, &layout);
            }
            layout.advance(probe.at, Probe::offset(probe.rotation, in_line).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Bucket, MAX_KEY};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn visits_every_bucket_once(
            owners in 1_u32..6, lines in 1_u64..20, key in 0..=MAX_KEY, way in 0..3,
        ) {
            let probing = [Probing::Linear, Probing::Lines, Probing::DoubleHash][way as usize];
            let layout = Layout::new(owners, lines * 8, 8, probing);
            let bucket = Bucket::new(key).unwrap();
            let order: Vec<Position> = layout.probe_order(bucket).collect();
            prop_assert_eq!(order[0], layout.home(bucket));
            let seen: BTreeSet<_> = order.iter().map(|at| (at.owner, at.index)).collect();
            prop_assert_eq!(order.len() as u64, layout.buckets());
            prop_assert_eq!(seen.len() as u64, layout.buckets());
        }
    }

    /// Among 120 lines there are strides with and without a common factor.
    #[test]
    fn strides_differ_by_key() {
        let layout = Layout::new(3, 40 * 8, 8, Probing::DoubleHash);
        let mut seconds = BTreeSet::new();
        for key in 0..40_000 {
            let bucket = Bucket::new(key).unwrap();
            let mut probe = Probe::new(bucket, &layout);
            if probe.at == Position::default() {
                probe.pass(8, bucket, &layout);
                seconds.insert((probe.at.owner, probe.at.index));
            }
        }
        // About 330 keys share the line; nearly all of the 119 other lines are the second line of
        // one.
        assert!(seconds.len() > 100, "{}", seconds.len());
    }
}
