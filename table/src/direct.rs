//! The direct path: the CPU examines lines of the table in place, eight buckets at once, and claims
//! empty buckets with its own compare-and-swap.
//!
//! The paper also uses memory operations within a machine (section 1). The CPU's compare-and-swap
//! is used only if the transport's atomics are atomic with it (`AtomicScope::Cpu`).

use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{AtomicScope, Caps, Segment, Transport};

use crate::bucket::Wanted;
use crate::layout::{LINE_BUCKETS, Layout, Position};
use crate::outcome::{Ended, Intent};
use probeline_transport::line::{Compare, Line};
use probeline_transport::prefetch;

/// The operations that the CPU itself executes on words that it can address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// The CPU accesses no bucket of the table.
    Off,
    /// CPU loads replace the READs of a find-or-put, but not those of a find. The CPU may see a
    /// bucket empty, until the next barrier, that a device has claimed. The claim of a find-or-put
    /// detects that; a find has no claim.
    Loads,
    /// CPU loads replace READs, and CPU compare-and-swaps replace claims.
    Claims,
}

impl Direct {
    /// Returns what the engine allows, if `wanted`.
    pub(crate) fn allowed(wanted: bool, caps: &Caps) -> Self {
        match (wanted, caps.atomics) {
            (false, _) => Self::Off,
            (true, AtomicScope::Device) => Self::Loads,
            (true, AtomicScope::Cpu) => Self::Claims,
        }
    }

    /// Returns whether the CPU executes an operation's READs of words that it can address.
    #[inline]
    pub(crate) fn copies(self, intent: Intent) -> bool {
        match self {
            Self::Off => false,
            Self::Loads => intent == Intent::FindOrPut,
            Self::Claims => true,
        }
    }
}

/// The result of examining one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineOutcome {
    /// The operation is done.
    Done(Ended),
    /// The line holds other keys; the operation continues at the next line.
    Passed,
}

/// Returns, for each owner, whether the CPU can address its words.
pub(crate) fn reached(transport: &impl Transport, layout: &Layout) -> impl Iterator<Item = bool> {
    let first = |owner| Position { owner, index: 0 };
    (0..layout.owners()).map(move |owner| line_at(transport, layout, first(owner)).is_some())
}

/// Returns the line of the bucket at `at` and prefetches it; `None` if the CPU cannot address it.
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

/// Examines those buckets of `line` whose bits are set in `mask`, in the order from bucket `first`
/// on, which wraps around. Claims the first empty one if the intent is find-or-put.
///
/// Returns `None` if all of them hold other keys. The wanted key decides even if a bucket before it
/// looked empty: another process may have filled that one meanwhile.
#[inline(always)]
pub(crate) fn scan<C: Compare>(
    line: &Line,
    bucket: impl Wanted,
    intent: Intent,
    first: u32,
    mask: u8,
) -> Option<Ended> {
    let seen = C::see(line, bucket.mask(), bucket.compared());
    let (wanted, empty) = (seen.wanted & mask, !seen.occupied & mask);
    if wanted | empty == 0 {
        return None;
    }
    if wanted != 0 {
        return Some(Ended::Found);
    }
    if intent == Intent::Find {
        return Some(Ended::Absent);
    }
    claim(line, bucket, first, empty)
}

/// Claims the first bucket in the order from `first` on, among those whose bits are set in `empty`.
/// A bucket that another key has taken meanwhile is passed, one that this key has taken is found.
#[inline(always)]
fn claim(line: &Line, bucket: impl Wanted, first: u32, empty: u8) -> Option<Ended> {
    let mut left = empty.rotate_right(first);
    while left != 0 {
        let at = (first + left.trailing_zeros()) % LINE_BUCKETS;
        match line.get(at as usize)?.compare_exchange(0, bucket.word(), SeqCst, SeqCst) {
            Ok(_) => return Some(Ended::Inserted),
            Err(occupant) if bucket.matches(occupant) => return Some(Ended::Found),
            Err(_) => left &= left - 1,
        }
    }
    None
}
