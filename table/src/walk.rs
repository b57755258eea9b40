//! The progress of an operation along its probe order, by bucket and by line.

use probeline_transport::Transport;

use crate::bucket::{Bucket, Wanted};
use crate::direct::{LineOutcome, line_at, scan};
use crate::layout::{LINE_BUCKETS, Layout, Position, Probing};
use crate::outcome::{Ended, Intent};
use crate::probe::Probe;
use probeline_transport::line::{Compare, Line, Narrow};

/// The progress of an operation. All buckets passed so far hold other keys permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Walk<B = Bucket> {
    pub(crate) bucket: B,
    pub(crate) intent: Intent,
    pub(crate) probe: Probe,
    /// Buckets passed since `probe`, fewer than a line.
    pub(crate) passed: u32,
    /// Buckets left within the probe limit, including those passed since `probe`; at least 1.
    pub(crate) left: u64,
    /// Cache lines that the CPU has examined.
    pub(crate) lines: u32,
}

impl<B: Wanted> Walk<B> {
    /// Returns the walk of free storage, with any bucket.
    pub(crate) const fn idle(bucket: B) -> Self {
        Self { bucket, intent: Intent::Find, probe: Probe::NOWHERE, passed: 0, left: 1, lines: 0 }
    }

    /// Starts at the home of `bucket`, to examine up to `limit` buckets.
    #[inline(always)]
    pub(crate) fn new(bucket: B, intent: Intent, limit: u64, layout: &Layout) -> Self {
        Self { bucket, intent, probe: Probe::new(bucket, layout), passed: 0, left: limit, lines: 0 }
    }

    /// Returns the position of the next bucket.
    #[inline]
    pub(crate) fn position(&self, layout: &Layout) -> Position {
        let offset = match layout.probing() {
            Probing::Linear => self.passed,
            Probing::Lines | Probing::DoubleHash => Probe::offset(self.probe.rotation, self.passed),
        };
        let Position { owner, index } = self.probe.at;
        Position { owner, index: index + u64::from(offset) }
    }

    /// Returns the position of the wanted bucket, which is in `line`, the present one.
    #[inline(always)]
    pub(crate) fn position_in(&self, line: &Line, layout: &Layout) -> Position {
        position_in::<Narrow>(line, self.probe.at, self.bucket, layout)
    }

    /// Returns the next line and prefetches it; `None` if the CPU cannot address it.
    #[inline]
    pub(crate) fn line<'t>(
        &self,
        transport: &'t impl Transport,
        layout: &Layout,
    ) -> Option<&'t Line> {
        line_at(transport, layout, self.probe.at)
    }

    /// Returns the number of buckets to examine in the present line: all 8 or, with linear probing,
    /// those from the probe position on.
    #[inline]
    pub(crate) fn buckets_in_line(&self, layout: &Layout) -> u32 {
        match layout.probing() {
            Probing::Linear => LINE_BUCKETS - layout.offset_in_line(self.probe.at),
            Probing::Lines | Probing::DoubleHash => LINE_BUCKETS,
        }
    }

    /// Scans `line`, the present one. The operation completes at it, or the walk advances to the
    /// next line.
    #[inline(always)]
    pub(crate) fn scan_line<C: Compare>(&mut self, line: &Line, layout: &Layout) -> LineOutcome {
        let (first, mask) = self.places(layout);
        let outcome = scan::<C>(line, self.bucket, self.intent, first, mask);
        self.decide(outcome, layout)
    }

    /// Returns the first bucket to examine in the present line, and a mask of those to examine.
    // A function that took a closure instead was not inlined where it uses wide instructions.
    #[inline(always)]
    pub(crate) fn places(&self, layout: &Layout) -> (u32, u8) {
        let first = layout.offset_in_line(self.probe.at) + self.probe.rotation;
        let end = u64::from(self.buckets_in_line(layout)).min(self.left);
        let places = u8::MAX << self.passed & u8::MAX >> (u64::from(LINE_BUCKETS) - end);
        (first, places.rotate_left(first))
    }

    /// Completes with `outcome`, the result of the [`places`](Self::places) of this line, or
    /// advances to the next line if it is `None`.
    #[inline(always)]
    pub(crate) fn decide(&mut self, outcome: Option<Ended>, layout: &Layout) -> LineOutcome {
        self.lines += 1;
        if let Some(outcome) = outcome {
            return LineOutcome::Done(outcome);
        }
        let buckets = self.buckets_in_line(layout);
        if self.left <= u64::from(buckets) {
            return LineOutcome::Done(self.intent.ended_at_limit());
        }
        self.pass_line(buckets, layout);
        LineOutcome::Passed
    }

    /// Advances past the next bucket. Returns false if it was the last within the probe limit.
    #[inline]
    pub(crate) fn pass(&mut self, layout: &Layout) -> bool {
        let linear = layout.probing() == Probing::Linear;
        self.passed += 1;
        if self.left <= u64::from(self.passed) {
            return false;
        }
        let whole = if linear { 1 } else { LINE_BUCKETS };
        if self.passed == whole {
            self.pass_line(whole, layout);
        }
        true
    }

    #[inline]
    fn pass_line(&mut self, buckets: u32, layout: &Layout) {
        self.left -= u64::from(buckets);
        self.passed = 0;
        self.probe.pass(buckets, self.bucket, layout);
    }
}

/// Returns the position of `bucket`, which is in `line`, the one of the bucket at `at`. No other
/// bucket holds the same key.
#[inline(always)]
pub(crate) fn position_in<C: Compare>(
    line: &Line,
    at: Position,
    bucket: impl Wanted,
    layout: &Layout,
) -> Position {
    let nth = C::see(line, bucket.mask(), bucket.compared()).wanted.trailing_zeros();
    debug_assert!(nth < LINE_BUCKETS, "the line does not hold the key");
    Position { index: at.index - u64::from(layout.offset_in_line(at)) + u64::from(nth), ..at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn passing_follows_line_order(
            key in 0..1_u64 << 63, way in 0..3, lines in 1_u64..9,
        ) {
            let probing = [Probing::Linear, Probing::Lines, Probing::DoubleHash][way as usize];
            let layout = Layout::new(2, lines * 8, 8, probing);
            let bucket = Bucket::new(key).unwrap();
            let mut walk = Walk::new(bucket, Intent::Find, layout.buckets(), &layout);
            let mut probe = Probe::new(bucket, &layout);
            let mut steps = 0;
            loop {
                let nth = (steps % 8) as u32;
                let offset =
                    if way == 0 { nth } else { Probe::offset(probe.rotation, nth) };
                let expected = layout.advance(probe.at, u64::from(offset));
                prop_assert_eq!(walk.position(&layout), expected);
                steps += 1;
                if nth == 7 {
                    probe.pass(8, bucket, &layout);
                }
                if !walk.pass(&layout) {
                    break;
                }
            }
            prop_assert_eq!(steps, layout.buckets());
        }
    }
}
