//! The direct path: lines of the table that the CPU reaches are looked at in place, eight buckets
//! at once, and empty buckets claimed by its own compare-and-swap.
//!
//! Machine-local accesses are standard memory operations in the paper too (section 1). The CPU's
//! compare-and-swap is used only where the transport's atomics are atomic with it
//! (`AtomicScope::Cpu`).

use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{AtomicScope, Caps, Segment, Transport};

use crate::bucket::Bucket;
use crate::find_or_put::{Intent, Outcome};
use crate::layout::{Layout, Position};
use crate::line::{Line, prefetch, see};
use crate::probe::LINE_BUCKETS;
use crate::walk::Walk;

/// What the CPU does itself with words that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// Nothing.
    Off,
    /// Loads in place of READs, but not by a find: its empty bucket may have been claimed by a
    /// device, and the CPU see that no earlier than the next barrier. A find-or-put's own claim
    /// then tells.
    Loads,
    /// Loads and compare-and-swaps.
    Claims,
}

impl Direct {
    /// What is allowed, if it is wanted at all.
    pub(crate) fn allowed(wanted: bool, caps: &Caps) -> Self {
        match (wanted, caps.atomics) {
            (false, _) => Self::Off,
            (true, AtomicScope::Device) => Self::Loads,
            (true, AtomicScope::Cpu) => Self::Claims,
        }
    }

    /// Whether the CPU makes READs of an operation itself, where it reaches the words.
    #[inline]
    pub(crate) fn copies(self, intent: Intent) -> bool {
        match self {
            Self::Off => false,
            Self::Loads => intent == Intent::FindOrPut,
            Self::Claims => true,
        }
    }
}

/// What looking at one line came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The walk ends, at the bucket that decided it unless it was the last in reach.
    Done(Outcome),
    /// All of it is other data: the walk has gone on to the next line.
    Passed,
}

impl Walk {
    /// The line that comes next, asked for already; `None` where the CPU does not reach it.
    #[inline]
    pub(crate) fn line<'t>(
        &self,
        transport: &'t impl Transport,
        layout: &Layout,
    ) -> Option<&'t Line> {
        reach(transport, layout, self.probe.at)
    }

    /// Looks at `line`, the present one, claims its first empty bucket if data is to be put there,
    /// or goes on to the next line.
    #[inline]
    pub(crate) fn look(&mut self, line: &Line, layout: &Layout) -> Look {
        self.lines += 1;
        let first = layout.offset_in_line(self.probe.at) + self.probe.rotation;
        let buckets = self.buckets_in_line(layout);
        let reach = u64::from(buckets).min(self.reach);
        // At most 8.
        #[allow(clippy::cast_possible_truncation)]
        let ended = look(line, self.bucket, self.intent, first, self.passed..reach as u32);
        if let Some((nth, outcome)) = ended {
            self.passed = nth;
            return Look::Done(outcome);
        }
        if self.reach <= u64::from(buckets) {
            return Look::Done(match self.intent {
                Intent::Find => Outcome::Absent,
                Intent::FindOrPut => Outcome::Full,
            });
        }
        self.pass_line(buckets, layout);
        Look::Passed
    }
}

/// Whether the CPU reaches any owner's words.
pub(crate) fn reaches_any(transport: &impl Transport, layout: &Layout) -> bool {
    let first = |owner| Position { owner, index: 0 };
    (0..layout.owners()).any(|owner| reach(transport, layout, first(owner)).is_some())
}

/// The line that the bucket at `at` is in, asked for already, where the CPU reaches it.
#[inline]
pub(crate) fn reach<'t>(
    transport: &'t impl Transport,
    layout: &Layout,
    at: Position,
) -> Option<&'t Line> {
    let start = Position { index: at.index & !u64::from(LINE_BUCKETS - 1), ..at };
    let line = Segment { start: layout.word(start), words: LINE_BUCKETS };
    let words = transport.direct(line)?;
    prefetch(words);
    words.first_chunk()
}

/// Looks at those of `line` that come at `places`, counted from the bucket at `first` on and round
/// to those before it; claims the first empty one if data is to be put there. The place that
/// decided, and how; `None` if all hold other data.
#[inline]
pub(crate) fn look(
    line: &Line,
    bucket: Bucket,
    intent: Intent,
    first: u32,
    mut places: Range<u32>,
) -> Option<(u32, Outcome)> {
    // Each turn that does not end passes a place more.
    loop {
        let seen = see(line, bucket);
        // In the order in which they are looked at; those that come round again are beyond the end.
        let ends = (seen.wanted | !seen.occupied).rotate_right(first);
        let nth = (u32::from(ends) & u32::MAX << places.start).trailing_zeros();
        if nth >= places.end {
            return None;
        }
        let at = (first + nth) & (LINE_BUCKETS - 1);
        if seen.wanted >> at & 1 == 1 {
            return Some((nth, Outcome::Found));
        }
        if intent == Intent::Find {
            return Some((nth, Outcome::Absent));
        }
        match line.get(at as usize)?.compare_exchange(0, bucket.word(), SeqCst, SeqCst) {
            Ok(_) => return Some((nth, Outcome::Inserted)),
            Err(occupant) if occupant == bucket.word() => return Some((nth, Outcome::Found)),
            Err(_) => places.start = nth + 1,
        }
    }
}
