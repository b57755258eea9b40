//! The words of all owners that the CPU addresses, looked up once for many operations.

use core::sync::atomic::AtomicU64;

use probeline_transport::{Owner, RemoteWord, Segment, Transport};

/// Owners whose words are looked up once.
const MAX_OWNERS: usize = 64;

/// One part of each owner's window, as the CPU addresses it.
pub struct Mapped<'t> {
    parts: [&'t [AtomicU64]; MAX_OWNERS],
}

impl<'t> Mapped<'t> {
    /// Looks up `words` words from `first_word` on in the window of each owner. Returns `None` if the CPU
    /// cannot address some of them, if a part has more than `u32::MAX` words, or if there are more than 64
    /// owners: then the engine has to be asked for each word.
    pub fn new(transport: &'t impl Transport, first_word: u64, words: u64) -> Option<Self> {
        let words = u32::try_from(words).ok()?;
        let mut mapped = Self { parts: [&[]; MAX_OWNERS] };
        for owner in 0..transport.geometry().owners {
            let start = RemoteWord { owner: Owner(owner), index: first_word };
            let part = mapped.parts.get_mut(owner as usize)?;
            *part = transport.direct(Segment { start, words })?;
        }
        Some(mapped)
    }

    /// Returns `count` words of an owner's part, from the part's word `first` on.
    #[inline(always)]
    pub fn words(&self, owner: u32, first: u64, count: usize) -> Option<&'t [AtomicU64]> {
        // A part is mapped into this process, so its indices fit a usize.
        #[allow(clippy::cast_possible_truncation)]
        let first = first as usize;
        self.parts.get(owner as usize)?.get(first..first.checked_add(count)?)
    }
}
