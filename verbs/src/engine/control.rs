//! The control words in front of every window, which are no part of the table.
//!
//! Word 0 is the self-test's, and what others READ to see that the owner is there. A leaving owner
//! writes into those of all others: first one that tells that some owner has left, then a word of
//! its own. Both hold the number of the owner that was lost first, plus 1: itself, or the one
//! because of which it leaves.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_transport::Owner;

/// Somebody has left, and who was lost first.
pub(super) const SOMEBODY: u64 = 1;
/// The word of owner 0; the others' follow.
const FIRST: u64 = 8;
/// Words of a base page: the window starts on a page of its own.
const PAGE_WORDS: u64 = 512;

/// Control words in front of a window, for so many owners.
pub(super) fn control_words(owners: u32) -> u64 {
    (FIRST + u64::from(owners)).next_multiple_of(PAGE_WORDS)
}

/// The word in which `owner` tells that it leaves.
pub(super) fn word_of(owner: Owner) -> u64 {
    FIRST + u64::from(owner.0)
}

/// What a control word says to who has lost `owner`.
pub(super) fn lost(owner: Owner) -> u64 {
    u64::from(owner.0) + 1
}

/// Whom the control word `index` names, if it names one of so many owners.
#[inline]
pub(super) fn named(words: &[AtomicU64], index: u64, owners: u32) -> Option<Owner> {
    let word = words.get(usize::try_from(index).ok()?)?.load(Acquire);
    let owner = u32::try_from(word.checked_sub(1)?).ok()?;
    (owner < owners).then_some(Owner(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_a_word_in_front_of_the_window() {
        for owners in [1, 2, 504, 505, 4096] {
            let words = control_words(owners);
            assert!(words.is_multiple_of(PAGE_WORDS) && word_of(Owner(owners - 1)) < words);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let words: [AtomicU64; 4] = [0, lost(Owner(0)), lost(Owner(6)), u64::MAX].map(Into::into);
        let names = [0, 1, 2, 3, 4].map(|index| named(&words, index, 7));
        assert_eq!(names, [None, Some(Owner(0)), Some(Owner(6)), None, None]);
        assert_eq!(named(&words, 2, 6), None);
    }
}
