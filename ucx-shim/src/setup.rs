//! What the UCX and the MPI engine share outside the data path: sizes, the collective steps of
//! opening with their errors, deadlines, and the control word that names a lost owner.

use core::error::Error;
use core::fmt::{self, Display};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::time::Instant;

use probeline_transport::{
    Exchange, ExchangeError, Geometry, LINE_WORDS, MAX_OWNERS, Owner, Segment, Sizes,
};

/// Why the owners of a job cannot open engines together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// A size of the builder is invalid, or memory for it is missing: what, and what to choose.
    Sizes(&'static str),
    /// The exchange failed.
    Exchange(ExchangeError),
    /// An owner was opened with other sizes or modes than this one.
    Differs {
        /// The other owner.
        owner: Owner,
        /// What differs.
        what: &'static str,
        /// This owner's value.
        mine: String,
        /// The other owner's value.
        theirs: String,
    },
    /// Another owner could not open its engine; its own error says why.
    PeerFailed(Owner),
}

impl Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sizes(what) => f.write_str(what),
            Self::Exchange(error) => write!(f, "cannot agree with the other owners: {error}"),
            Self::Differs { owner, what, mine, theirs } => write!(
                f,
                "{owner} was opened with {theirs} {what}, this one with {mine}: \
                 start every owner with the same options and the same build"
            ),
            Self::PeerFailed(owner) => {
                write!(f, "{owner} could not open its engine: see its own message")
            }
        }
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Exchange(source) => Some(source),
            _ => None,
        }
    }
}

impl From<ExchangeError> for SetupError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

/// The sizes of a builder before they are changed: 64 slots of 64 words and depth 64.
pub(crate) fn default_sizes(window_words: u64) -> Sizes {
    Sizes { window_words, slots: 64, slot_words: 64, depth: 64 }
}

/// Checks the sizes of a builder; `depths` is the refusal of a depth above `max_depth`.
pub(crate) fn check_sizes(
    sizes: &Sizes,
    max_depth: u32,
    depths: &'static str,
) -> Result<(), SetupError> {
    let refusal = match *sizes {
        Sizes { window_words: 0, .. } => "a window needs at least 1 word",
        Sizes { slots: 0, .. } => "an engine needs at least 1 slot",
        Sizes { slot_words, .. } if slot_words == 0 || slot_words % LINE_WORDS != 0 => {
            "a slot's words must be a multiple of 8, at least 8"
        }
        Sizes { depth, .. } if !(1..=max_depth).contains(&depth) => depths,
        _ => return Ok(()),
    };
    Err(SetupError::Sizes(refusal))
}

pub(crate) fn geometry(sizes: &Sizes, me: Owner, owners: u32) -> Geometry {
    let Sizes { window_words, slots, slot_words, .. } = *sizes;
    Geometry { me, owners, window_words, slots, slot_words }
}

/// Refuses more than [`MAX_OWNERS`] owners with `refusal`.
pub(crate) fn check_owners(owners: u32, refusal: &'static str) -> Result<(), SetupError> {
    if owners > MAX_OWNERS { Err(SetupError::Sizes(refusal)) } else { Ok(()) }
}

/// Gathers `mine` from every owner, in the order of owners.
pub(crate) fn gather<E>(exchange: &mut E, mine: &[u8]) -> Result<Vec<u8>, SetupError>
where
    E: Exchange + ?Sized,
{
    let mut all = vec![0; mine.len() * exchange.owners() as usize];
    exchange.all_gather(mine, &mut all)?;
    Ok(all)
}

/// Gathers the connection info of every owner, records of `N` words. An owner that cannot open
/// passes `None`, which ends the opening of all owners. `version` is not 0; it changes with the
/// record, with the collective calls, and with the control words.
pub(crate) fn gather_records<E, const N: usize>(
    exchange: &mut E,
    version: u64,
    mine: Option<[u64; N]>,
) -> Result<Vec<[u64; N]>, SetupError>
where
    E: Exchange + ?Sized,
{
    let words = mine.map(|mine| [version].into_iter().chain(mine));
    let mut bytes: Vec<u8> = words.into_iter().flatten().flat_map(u64::to_le_bytes).collect();
    bytes.resize((1 + N) * size_of::<u64>(), 0);
    let all = gather(exchange, &bytes)?;
    let (words, _) = all.as_chunks();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let record = |(owner, words): (Owner, &[u64])| match *words {
        [0, ..] => Err(SetupError::PeerFailed(owner)),
        [theirs, ref record @ ..] => {
            agree(owner, "as protocol version", version, theirs)?;
            Ok(record.try_into().unwrap_or([0; N]))
        }
        [] => Err(SetupError::PeerFailed(owner)),
    };
    (0..).map(Owner).zip(words.chunks(1 + N)).map(record).collect()
}

/// Fails if `owner` was opened with another value than this one.
pub(crate) fn agree<T>(
    owner: Owner,
    what: &'static str,
    mine: T,
    theirs: T,
) -> Result<(), SetupError>
where
    T: PartialEq + Display,
{
    if mine == theirs {
        return Ok(());
    }
    let (mine, theirs) = (mine.to_string(), theirs.to_string());
    Err(SetupError::Differs { owner, what, mine, theirs })
}

/// Tells every owner whether this owner succeeded; an error names the first owner that did not.
pub(crate) fn all_succeeded<E>(exchange: &mut E, succeeded: bool) -> Result<(), SetupError>
where
    E: Exchange + ?Sized,
{
    let all = gather(exchange, &[u8::from(succeeded)])?;
    match (0..).zip(all).find(|&(_, succeeded)| succeeded == 0) {
        Some((owner, _)) => Err(SetupError::PeerFailed(Owner(owner))),
        None => Ok(()),
    }
}

/// Waits until every owner has passed its result. Returns this owner's; its success only if all
/// owners succeeded.
pub(crate) fn together<E, T, F>(exchange: &mut E, mine: Result<T, F>) -> Result<T, F>
where
    E: Exchange + ?Sized,
    F: From<SetupError>,
{
    let all = all_succeeded(exchange, mine.is_ok());
    let mine = mine?;
    all?;
    Ok(mine)
}

/// Which operations on an owner's words need that owner's CPU, measured when engines are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeedsOwner {
    /// READs and WRITEs do.
    pub reads: bool,
    /// Atomics do.
    pub atomics: bool,
}

impl NeedsOwner {
    /// Whether any operation needs the owner's CPU.
    #[must_use]
    pub fn any(self) -> bool {
        self.reads || self.atomics
    }

    /// Adds what another measurement has found.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        Self { reads: self.reads || other.reads, atomics: self.atomics || other.atomics }
    }

    /// What any owner has found.
    pub(crate) fn of_all<E>(self, exchange: &mut E) -> Result<Self, SetupError>
    where
        E: Exchange + ?Sized,
    {
        let all = gather(exchange, &[self.reads, self.atomics].map(u8::from))?;
        let (all, _) = all.as_chunks();
        let theirs =
            |[reads, atomics]: &[u8; 2]| Self { reads: *reads != 0, atomics: *atomics != 0 };
        Ok(all.iter().map(theirs).fold(self, Self::or))
    }
}

/// The end of a bounded wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    pub(crate) fn has_passed(self) -> bool {
        Instant::now() >= self.0
    }
}

/// The control word that names `owner` as lost; 0 names no owner.
pub(crate) fn lost_word(owner: Owner) -> u64 {
    u64::from(owner.0) + 1
}

/// The owner that a control word names as lost, if it is one of `owners`.
#[inline]
pub(crate) fn lost_owner(word: &AtomicU64, owners: u32) -> Option<Owner> {
    let owner = u32::try_from(word.load(Acquire).checked_sub(1)?).ok()?;
    (owner < owners).then_some(Owner(owner))
}

/// `at` in `window`, the window of this owner; `None` if `at` is another owner's.
#[inline]
pub(crate) fn own_words<'a>(
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
    use probeline_transport::Alone;

    use super::*;

    #[test]
    fn records_arrive_as_they_were_sent() {
        let sent = [1, u64::MAX, 1 << 40];
        assert_eq!(gather_records(&mut Alone, 7, Some(sent)), Ok(vec![sent]));
        let failed = gather_records::<_, 3>(&mut Alone, 7, None);
        assert_eq!(failed, Err(SetupError::PeerFailed(Owner(0))));
        assert_eq!(all_succeeded(&mut Alone, true), Ok(()));
        assert_eq!(all_succeeded(&mut Alone, false), Err(SetupError::PeerFailed(Owner(0))));
    }

    /// Owner 0 has version 7, owner 1 version 6.
    struct TwoVersions;

    impl Exchange for TwoVersions {
        fn me(&self) -> Owner {
            Owner(0)
        }

        fn owners(&self) -> u32 {
            2
        }

        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
            let (first, second) = all.split_at_mut(mine.len());
            first.copy_from_slice(mine);
            second.copy_from_slice(mine);
            second[0] -= 1;
            Ok(())
        }

        fn all_to_all(&mut self, _: &[u8], _: &mut [u8]) -> Result<(), ExchangeError> {
            Err(ExchangeError::System { errno: 0 })
        }

        fn barrier(&mut self) -> Result<(), ExchangeError> {
            Ok(())
        }
    }

    #[test]
    fn another_version_is_named() {
        let Err(SetupError::Differs { owner, what, mine, theirs }) =
            gather_records(&mut TwoVersions, 7, Some([0; 2]))
        else {
            panic!("versions 6 and 7 agree");
        };
        assert_eq!((owner, what), (Owner(1), "as protocol version"));
        assert_eq!([mine, theirs], ["7", "6"]);
    }

    #[test]
    fn a_lost_owner_is_read_as_it_was_written() {
        let words = [0, lost_word(Owner(0)), lost_word(Owner(6)), u64::MAX].map(AtomicU64::new);
        let names = words.each_ref().map(|word| lost_owner(word, 7));
        assert_eq!(names, [None, Some(Owner(0)), Some(Owner(6)), None]);
        assert_eq!(lost_owner(&words[2], 6), None);
    }

    #[test]
    fn invalid_sizes_are_refused() {
        let valid = Sizes { window_words: 1, slots: 1, slot_words: 8, depth: 16 };
        let check = |sizes: Sizes| check_sizes(&sizes, 16, "too deep");
        assert_eq!(check(valid), Ok(()));
        for invalid in [
            Sizes { window_words: 0, ..valid },
            Sizes { slots: 0, ..valid },
            Sizes { slot_words: 0, ..valid },
            Sizes { slot_words: 12, ..valid },
            Sizes { depth: 0, ..valid },
            Sizes { depth: 17, ..valid },
        ] {
            assert!(matches!(check(invalid), Err(SetupError::Sizes(_))), "{invalid:?}");
        }
        assert_eq!(check_owners(MAX_OWNERS, "too many"), Ok(()));
        assert_eq!(check_owners(MAX_OWNERS + 1, "too many"), Err(SetupError::Sizes("too many")));
    }
}
