//! The control words that an engine keeps with every window, and access to the owner's own window.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use crate::{Geometry, Owner, Segment};

/// Words in a base page. Control words in front of a window take whole pages.
pub const PAGE_WORDS: usize = 512;

/// Returns the value of a control word that names `owner` as lost; 0 names no owner.
#[must_use]
pub fn lost_word(owner: Owner) -> u64 {
    u64::from(owner.0) + 1
}

/// Returns the owner that a control word names as lost, if it is one of `owners`.
#[inline]
#[must_use]
pub fn lost_owner(word: &AtomicU64, owners: u32) -> Option<Owner> {
    let owner = u32::try_from(word.load(Acquire).checked_sub(1)?).ok()?;
    (owner < owners).then_some(Owner(owner))
}

/// Returns the words of `at` in `window`, the window of this owner; `None` if `at` is another
/// owner's or exceeds the window.
#[inline]
#[must_use]
pub fn own_words<'a>(
    geometry: &Geometry,
    window: &'a [AtomicU64],
    at: Segment,
) -> Option<&'a [AtomicU64]> {
    geometry.check_segment(at).ok()?;
    if at.start.owner != geometry.me {
        return None;
    }
    let start = usize::try_from(at.start.index).ok()?;
    window.get(start..)?.get(..at.words as usize)
}

#[cfg(test)]
mod tests {
    use crate::RemoteWord;

    use super::*;

    #[test]
    fn encode_then_read_lost_owner() {
        let words = [0, lost_word(Owner(0)), lost_word(Owner(6)), u64::MAX].map(AtomicU64::new);
        let names = words.each_ref().map(|word| lost_owner(word, 7));
        assert_eq!(names, [None, Some(Owner(0)), Some(Owner(6)), None]);
        assert_eq!(lost_owner(&words[2], 6), None);
    }

    #[test]
    fn shows_only_own_window() {
        let window = [0, 1, 2].map(AtomicU64::new);
        let geometry =
            Geometry { me: Owner(1), owners: 2, window_words: 3, slots: 1, slot_words: 8 };
        let at = |owner, index, words| {
            let start = RemoteWord { owner: Owner(owner), index };
            let words = own_words(&geometry, &window, Segment { start, words })?;
            Some((words[0].load(Acquire), words.len()))
        };
        assert_eq!((at(1, 1, 2), at(1, 2, 1)), (Some((1, 2)), Some((2, 1))));
        assert_eq!((at(0, 1, 2), at(1, 1, 3), at(2, 0, 1)), (None, None, None));
    }
}
