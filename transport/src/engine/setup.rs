//! The steps by which the owners of a job open their engines together.
//!
//! An owner that cannot open its engine still takes part in every collective call, so that no other
//! owner waits for it in vain: it passes `None` to [`gather_records`] and `false` to
//! [`all_succeeded`]. Both return [`SetupError::PeerFailed`] on the other owners.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

use crate::{Exchange, Fingerprint, LINE_WORDS, MAX_OWNERS, Owner, SetupError, Sizes, WORD_BYTES};

/// Checks the sizes of an engine whose largest depth is `max_depth`, and the memory of this machine. Call
/// it before any memory is allocated.
///
/// # Errors
/// [`SetupError::Sizes`], [`SetupError::Range`] or [`SetupError::Memory`].
pub fn check_sizes(sizes: &Sizes, max_depth: u32) -> Result<(), SetupError> {
    let refusal = match *sizes {
        Sizes { window_words: 0, .. } => {
            "a window needs at least 1 word: give the structure at least 1 element"
        }
        Sizes { slots: 0, .. } => {
            "an engine needs at least 1 slot: give at least 1 operation in flight"
        }
        Sizes { slot_words, .. } if slot_words == 0 || !slot_words.is_multiple_of(LINE_WORDS) => {
            "the words of a slot must be a multiple of 8, at least 8"
        }
        Sizes { depth, .. } => {
            SetupError::check("the depth", depth.into(), 1, max_depth.into())?;
            return check_memory(sizes, 1);
        }
    };
    Err(SetupError::Sizes(refusal))
}

/// Checks that engines of these sizes of `ranks` ranks fit this machine. Libraries that allocate more
/// than that wait forever, or are killed when they touch it.
///
/// # Errors
/// [`SetupError::Memory`].
pub fn check_memory(sizes: &Sizes, ranks: u32) -> Result<(), SetupError> {
    let slots = u64::from(sizes.slots) * u64::from(sizes.slot_words);
    let words = sizes.window_words.saturating_add(slots);
    let needed_bytes = words.saturating_mul(WORD_BYTES as u64).saturating_mul(ranks.into());
    match installed_bytes() {
        Some(installed_bytes) if needed_bytes > installed_bytes => {
            Err(SetupError::Memory { ranks, needed_bytes, installed_bytes })
        }
        _ => Ok(()),
    }
}

/// Returns the bytes of this machine's memory and swap.
fn installed_bytes() -> Option<u64> {
    let mut found = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: sysinfo(2) writes the live struct, which has numbers only, for which zero is valid.
    let found = unsafe {
        if libc::sysinfo(found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    #[allow(clippy::useless_conversion, reason = "u64 here, u32 on 32-bit machines")]
    let units = u64::from(found.totalram).saturating_add(found.totalswap.into());
    Some(units.saturating_mul(found.mem_unit.into()))
}

/// Refuses a job of more than [`MAX_OWNERS`] owners, before any collective call.
///
/// # Errors
/// [`SetupError::TooManyOwners`].
pub fn check_owners(owners: u32) -> Result<(), SetupError> {
    if owners <= MAX_OWNERS { Ok(()) } else { Err(SetupError::TooManyOwners { found: owners }) }
}

/// Gathers `mine` from every owner, in the order of owners.
///
/// # Errors
/// [`SetupError::Exchange`].
pub fn gather<E>(exchange: &mut E, mine: &[u8]) -> Result<Vec<u8>, SetupError>
where
    E: Exchange + ?Sized,
{
    let mut all = vec![0; mine.len() * exchange.owners() as usize];
    exchange.all_gather(mine, &mut all)?;
    Ok(all)
}

/// Gathers the connection info of every owner, as records of `N` words. An owner that cannot open
/// its engine passes `None`, and the opening fails on all owners. `protocol` changes with the record,
/// the collective calls of opening, and the control words.
///
/// # Errors
/// [`SetupError::PeerFailed`], [`SetupError::Differs`] for another protocol, and
/// [`SetupError::Exchange`]. With the first two, all owners fail, because all have the same
/// records.
pub fn gather_records<E, const N: usize>(
    exchange: &mut E,
    protocol: Fingerprint,
    mine: Option<[u64; N]>,
) -> Result<Vec<[u64; N]>, SetupError>
where
    E: Exchange + ?Sized,
{
    let protocol = protocol.with(N as u64).get();
    let words = mine.map(|mine| [protocol].into_iter().chain(mine));
    let mut bytes: Vec<u8> = words.into_iter().flatten().flat_map(u64::to_le_bytes).collect();
    bytes.resize((1 + N) * size_of::<u64>(), 0);
    let all = gather(exchange, &bytes)?;
    let (words, _) = all.as_chunks();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let record = |(owner, words): (Owner, &[u64])| match *words {
        [] | [0, ..] => Err(SetupError::PeerFailed(owner)),
        [theirs, ref record @ ..] => {
            agree(owner, "as fingerprint of the build", protocol, theirs)?;
            Ok(record.try_into().unwrap_or([0; N]))
        }
    };
    (0..).map(Owner).zip(words.chunks(1 + N)).map(record).collect()
}

/// Fails if `owner` was opened with another value than this owner.
///
/// # Errors
/// [`SetupError::Differs`].
pub fn agree(
    owner: Owner,
    what: &'static str,
    mine: impl Into<u64>,
    theirs: impl Into<u64>,
) -> Result<(), SetupError> {
    let (mine, theirs) = (mine.into(), theirs.into());
    if mine == theirs { Ok(()) } else { Err(SetupError::Differs { owner, what, mine, theirs }) }
}

/// Reports to every owner whether this owner succeeded.
///
/// # Errors
/// [`SetupError::PeerFailed`] with the first owner that failed, and [`SetupError::Exchange`].
pub fn all_succeeded<E>(exchange: &mut E, succeeded: bool) -> Result<(), SetupError>
where
    E: Exchange + ?Sized,
{
    let failed = if succeeded { u64::MAX } else { exchange.me().0.into() };
    match u32::try_from(exchange.min(failed)?) {
        Ok(owner) => Err(SetupError::PeerFailed(Owner(owner))),
        Err(_) => Ok(()),
    }
}

/// Waits until every owner has passed its result. Returns this owner's result, which is a success
/// only if all owners succeeded.
///
/// # Errors
/// This owner's error, or that of [`all_succeeded`].
pub fn together<E, T, F>(exchange: &mut E, mine: Result<T, F>) -> Result<T, F>
where
    E: Exchange + ?Sized,
    F: From<SetupError>,
{
    let all = all_succeeded(exchange, mine.is_ok());
    let mine = mine?;
    all?;
    Ok(mine)
}

/// Draws a random number from the kernel.
///
/// # Errors
/// [`SetupError::System`].
pub fn random() -> Result<u64, SetupError> {
    let mut bytes = [0; size_of::<u64>()];
    // SAFETY: the kernel writes at most as many bytes as the array has.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return Ok(u64::from_ne_bytes(bytes));
    }
    // SAFETY: the address of this thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    Err(SetupError::System { call: "getrandom", errno, advice: "a sandbox may forbid it" })
}

#[cfg(test)]
mod tests {
    use crate::Alone;

    use super::*;

    const PROTOCOL: Fingerprint = Fingerprint::new(7);

    #[test]
    fn gathers_records_unchanged() {
        let sent = [1, u64::MAX, 1 << 40];
        assert_eq!(gather_records(&mut Alone, PROTOCOL, Some(sent)), Ok(vec![sent]));
        let failed = gather_records::<_, 3>(&mut Alone, PROTOCOL, None);
        assert_eq!(failed, Err(SetupError::PeerFailed(Owner(0))));
        assert_eq!(all_succeeded(&mut Alone, true), Ok(()));
        assert_eq!(all_succeeded(&mut Alone, false), Err(SetupError::PeerFailed(Owner(0))));
    }

    #[test]
    fn refuses_invalid_sizes() {
        let valid = Sizes { window_words: 1, slots: 1, slot_words: 8, depth: 16 };
        assert_eq!(check_sizes(&valid, 16), Ok(()));
        for invalid in [
            Sizes { window_words: 0, ..valid },
            Sizes { slots: 0, ..valid },
            Sizes { slot_words: 0, ..valid },
            Sizes { slot_words: 12, ..valid },
        ] {
            let refused = check_sizes(&invalid, 16);
            assert!(matches!(refused, Err(SetupError::Sizes(_))), "{invalid:?}");
        }
        for found in [0, 17] {
            let refused = check_sizes(&Sizes { depth: found, ..valid }, 16);
            let (what, found) = ("the depth", found.into());
            assert_eq!(refused, Err(SetupError::Range { what, found, min: 1, max: 16 }));
        }
    }

    #[test]
    fn refuses_more_than_installed_memory() {
        let installed = installed_bytes().unwrap();
        let sizes = Sizes { window_words: installed / 16, slots: 1, slot_words: 8, depth: 1 };
        assert_eq!(check_sizes(&sizes, 1), Ok(()));
        assert!(matches!(check_memory(&sizes, 2), Err(SetupError::Memory { ranks: 2, .. })));
        let slots = Sizes { slots: u32::MAX, slot_words: u32::MAX - 7, ..sizes };
        for sizes in [Sizes { window_words: u64::MAX, ..sizes }, slots] {
            let text = check_sizes(&sizes, 1).unwrap_err().to_string();
            assert!(text.contains("GiB of memory and swap: choose smaller"), "{text}");
        }
    }

    #[test]
    fn refuses_too_many_owners() {
        assert_eq!(check_owners(MAX_OWNERS), Ok(()));
        let error = check_owners(MAX_OWNERS + 1).unwrap_err();
        let text = "the job has 4097 ranks, at most 4096 can be connected: start fewer ranks";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }
}
