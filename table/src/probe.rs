//! Probe orders: in which order an operation looks at the buckets of the ring.

use probeline_transport::LINE_WORDS;

use crate::bucket::Bucket;
use crate::layout::{Layout, Position};

/// Buckets in a cache line.
pub(crate) const LINE_BUCKETS: u32 = LINE_WORDS;

/// In which order buckets are looked at. All owners have the same; the table's header says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probing {
    /// From the home bucket on, one after the other: the paper's (section 3.1).
    Linear,
    /// The cache line that the home bucket is in, walked round from the home bucket on, then the
    /// next lines in the same manner. A chunk starts on a line and touches one fewer for it; of
    /// C = 8 buckets it never straddles owners.
    Lines,
    /// As `Lines`, but each further line is a second hash away from the one before, so that full
    /// lines do not form clusters ("walking the line": Laarman, van de Pol and Weber, FMCAD 2010).
    /// Needs C = 8, a line a chunk.
    Jump,
}

impl Probing {
    /// How the header of a table names it.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Linear => 0,
            Self::Lines => 1,
            Self::Jump => 2,
        }
    }
}

/// One operation's way through the ring: where the buckets start that it looks at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    /// The next bucket, or the line it is in where lines are walked round.
    pub(crate) at: Position,
    /// Of each line the bucket that is looked at first; 0 where lines are not walked round.
    pub(crate) rotation: u32,
    /// From one line to the next, of a jump; not known yet while it is 0.
    stride: Position,
    /// Where jumps by `stride` lead back to.
    orbit: Position,
}

impl Probe {
    pub(crate) const NOWHERE: Self = Self {
        at: Position { owner: 0, index: 0 },
        rotation: 0,
        stride: Position { owner: 0, index: 0 },
        orbit: Position { owner: 0, index: 0 },
    };

    /// The way that begins at the home of `bucket`.
    #[inline]
    pub(crate) fn of(bucket: Bucket, layout: &Layout) -> Self {
        let home = layout.home(bucket);
        if layout.probing() == Probing::Linear {
            return Self { at: home, ..Self::NOWHERE };
        }
        let line = u64::from(LINE_BUCKETS - 1);
        let at = Position { owner: home.owner, index: home.index & !line };
        // Below 8.
        #[allow(clippy::cast_possible_truncation)]
        let rotation = (home.index & line) as u32;
        Self { at, rotation, stride: Position::default(), orbit: at }
    }

    /// As `of`, field by field.
    #[inline(always)]
    pub(crate) fn reset(&mut self, bucket: Bucket, layout: &Layout) {
        let Position { owner, index } = layout.home(bucket);
        let in_line = index & u64::from(LINE_BUCKETS - 1);
        let offset = if layout.probing() == Probing::Linear { 0 } else { in_line };
        self.at.owner = owner;
        self.at.index = index - offset;
        // Below 8.
        #[allow(clippy::cast_possible_truncation)]
        let rotation = offset as u32;
        self.rotation = rotation;
        self.stride.owner = 0;
        self.stride.index = 0;
        self.orbit.owner = owner;
        self.orbit.index = index - offset;
    }

    /// Goes on past the next `buckets`: whole lines where lines are walked round, one line where
    /// it jumps.
    #[inline]
    pub(crate) fn pass(&mut self, buckets: u32, bucket: Bucket, layout: &Layout) {
        if layout.probing() == Probing::Jump {
            return self.jump(bucket, layout);
        }
        self.at = layout.advance(self.at, u64::from(buckets));
    }

    /// Every line of the ring comes once: where a stride that has a factor in common with the
    /// number of lines leads back, the way goes on one line further.
    fn jump(&mut self, bucket: Bucket, layout: &Layout) {
        if self.stride == Position::default() {
            self.stride = layout.stride(bucket);
        }
        self.at = layout.plus(self.at, self.stride);
        if self.at == self.orbit {
            self.at = layout.advance(self.at, u64::from(LINE_BUCKETS));
            self.orbit = self.at;
        }
    }

    /// The offset in memory of the `nth` bucket looked at from here on.
    #[inline]
    pub(crate) fn offset(rotation: u32, nth: u32) -> u32 {
        let line = LINE_BUCKETS - 1;
        nth & !line | (nth + rotation) & line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::MAX_DATA;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_bucket_comes_once(
            owners in 1_u32..6, lines in 1_u64..20, data in 0..=MAX_DATA, way in 0..3,
        ) {
            let probing = [Probing::Linear, Probing::Lines, Probing::Jump][way as usize];
            let layout = Layout::new(owners, lines * 8, 8, probing);
            let bucket = Bucket::new(data).unwrap();
            let mut probe = Probe::of(bucket, &layout);
            let mut seen = BTreeSet::new();
            for line in 0..lines * u64::from(owners) {
                for nth in 0..8 {
                    let offset = match probing {
                        Probing::Linear => nth,
                        _ => Probe::offset(probe.rotation, nth),
                    };
                    let at = layout.advance(probe.at, u64::from(offset));
                    prop_assert!(line + u64::from(nth) > 0 || at == layout.home(bucket));
                    prop_assert!(seen.insert((at.owner, at.index)), "{at:?} comes twice");
                }
                probe.pass(8, bucket, &layout);
            }
            prop_assert_eq!(seen.len() as u64, layout.buckets());
        }
    }

    /// As many lines as there are, and strides with and without a factor in common.
    #[test]
    fn jumps_part_what_shares_a_line() {
        let layout = Layout::new(3, 40 * 8, 8, Probing::Jump);
        let mut seconds = BTreeSet::new();
        for data in 0..40_000 {
            let bucket = Bucket::new(data).unwrap();
            let mut probe = Probe::of(bucket, &layout);
            if probe.at == Position::default() {
                probe.pass(8, bucket, &layout);
                seconds.insert((probe.at.owner, probe.at.index));
            }
        }
        // Some 330 data share the line; of 119 others nearly all are seconds of one of them.
        assert!(seconds.len() > 100, "{}", seconds.len());
    }
}
