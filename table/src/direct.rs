//! The direct path: the CPU examines lines of the table in place, eight buckets at once, and claims
//! empty buckets with its own compare-and-swap.
//!
//! The paper also uses memory operations within a machine (section 1). The CPU's compare-and-swap
//! is used only if the transport's atomics are atomic with it (`AtomicScope::Cpu`).

use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{AtomicScope, Caps, Segment, Transport};

use crate::bucket::Bucket;
use crate::layout::{LINE_BUCKETS, Layout, Position};
use crate::line::{Compare, Line, prefetch};
use crate::outcome::{Intent, Outcome};

/// What the CPU itself does with words that it can address.
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

/// The result of looking at one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The operation is done.
    Done(Outcome),
    /// The line holds other keys; the operation continues at the next line.
    Passed,
}

/// Returns whether the CPU can address any owner's words.
pub(crate) fn reaches_any(transport: &impl Transport, layout: &Layout) -> bool {
    let first = |owner| Position { owner, index: 0 };
    (0..layout.owners()).any(|owner| line_at(transport, layout, first(owner)).is_some())
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

/// Looks at those buckets of `line` whose bits are set in `places`. Bit 0 stands for bucket `first`
/// of the line, and the order wraps around. Claims the first empty bucket if the intent is
/// find-or-put.
///
/// Returns the deciding place and the outcome, or `None` if all places hold other keys.
#[inline(always)]
pub(crate) fn look<C: Compare>(
    line: &Line,
    bucket: Bucket,
    intent: Intent,
    first: u32,
    places: u8,
) -> Option<(u32, Outcome)> {
    let mut places = places;
    // Each iteration that does not return passes at least one more place.
    loop {
        let seen = C::see(line, bucket);
        let wanted = seen.wanted.rotate_right(first);
        let ends = (wanted | !seen.occupied.rotate_right(first)) & places;
        if ends == 0 {
            return None;
        }
        let nth = ends.trailing_zeros();
        let end = ends & ends.wrapping_neg();
        if wanted & end != 0 {
            return Some((nth, Outcome::Found));
        }
        if intent == Intent::Find {
            return Some((nth, Outcome::Absent));
        }
        let at = (first + nth) % LINE_BUCKETS;
        match line.get(at as usize)?.compare_exchange(0, bucket.word(), SeqCst, SeqCst) {
            Ok(_) => return Some((nth, Outcome::Inserted)),
            Err(occupant) if occupant == bucket.word() => return Some((nth, Outcome::Found)),
            Err(_) => places &= !end & !(end - 1),
        }
    }
}
