//! The control words in front of every window, which are no part of the table.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use probeline_transport::Owner;

/// What everybody adds 1 to when engines are opened, and what is read to see who acts.
pub(super) const SCRATCH: usize = 0;
/// Somebody has left, and who was lost first: itself, or the one because of which it leaves. A
/// leaving owner writes it to all others.
pub(super) const SOMEBODY: usize = 8;
/// Words of a base page: the window starts on a page of its own.
pub(super) const CONTROL_WORDS: usize = 512;

/// What a control word says to who has lost `owner`.
pub(super) fn lost(owner: Owner) -> u64 {
    u64::from(owner.0) + 1
}

/// Whom a control word names, if it names one of so many owners.
#[inline]
pub(super) fn named(word: &AtomicU64, owners: u32) -> Option<Owner> {
    let owner = u32::try_from(word.load(Acquire).checked_sub(1)?).ok()?;
    (owner < owners).then_some(Owner(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let words = [0, lost(Owner(0)), lost(Owner(6)), u64::MAX].map(AtomicU64::new);
        let names = words.each_ref().map(|word| named(word, 7));
        assert_eq!(names, [None, Some(Owner(0)), Some(Owner(6)), None]);
        assert_eq!(named(&words[2], 6), None);
    }
}
