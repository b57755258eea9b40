//! The direct path: the CPU looks at lines of the table in place, eight buckets at once, and
//! claims empty buckets by its own compare-and-swap.
//!
//! The paper too uses memory operations within a machine (section 1). The CPU's compare-and-swap
//! is used only where the transport's atomics are atomic with it (`AtomicScope::Cpu`).

use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{AtomicScope, Caps, Segment, Transport};

use crate::bucket::Bucket;
use crate::find_or_put::{Intent, Outcome};
use crate::layout::{Layout, Position};
use crate::line::{Line, prefetch, see};
use crate::probe::LINE_BUCKETS;

/// What the CPU does itself with words that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    Off,
    /// Loads in place of a find-or-put's READs. Not of a find's: a device may have claimed the
    /// bucket that the CPU still sees empty until the next barrier; a find-or-put's claim tells.
    Loads,
    /// Loads and compare-and-swaps.
    Claims,
}

impl Direct {
    /// What the engine allows, if `config.direct` asks for it.
    pub(crate) fn allowed(wanted: bool, caps: &Caps) -> Self {
        match (wanted, caps.atomics) {
            (false, _) => Self::Off,
            (true, AtomicScope::Device) => Self::Loads,
            (true, AtomicScope::Cpu) => Self::Claims,
        }
    }

    /// Whether the CPU executes an operation's READs, where it reaches the words.
    #[inline]
    pub(crate) fn copies(self, intent: Intent) -> bool {
        match self {
            Self::Off => false,
            Self::Loads => intent == Intent::FindOrPut,
            Self::Claims => true,
        }
    }
}

/// What a look at one line decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The operation ends.
    Done(Outcome),
    /// The line holds other data; the operation goes on to the next.
    Passed,
}

/// Whether the CPU reaches any owner's words.
pub(crate) fn reaches_any(transport: &impl Transport, layout: &Layout) -> bool {
    let first = |owner| Position { owner, index: 0 };
    (0..layout.owners()).any(|owner| line_at(transport, layout, first(owner)).is_some())
}

/// The line of the bucket at `at`, requested from memory; `None` where the CPU does not reach it.
#[inline]
pub(crate) fn line_at<'t>(
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

/// Looks at the `places` of `line`, counted from bucket `first` on and round; claims the first
/// empty bucket if the intent says so. The place that decides, and how; `None` if all hold other
/// data.
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
