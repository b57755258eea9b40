//! What every owner tells all others before windows are made.

use probeline_transport::{Exchange, ExchangeError, Owner};

use super::OpenError;

/// The format of this record and of the control words. Engines of one job agree in it.
const FORMAT: u64 = u64::from_be_bytes(*b"plmpi\0\0\x01");
const WORDS: usize = 5;
const BYTES: usize = WORDS * size_of::<u64>();

/// One owner's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// [`FORMAT`], or 0 from an owner that cannot open.
    format: u64,
    window_words: u64,
    slot_words: u64,
    /// 0 or 1 for Open MPI's "acc_single_intrinsic", 2 for what the library chooses.
    single: u64,
    /// The lowest serial number of a window that is still in use.
    pub(super) in_use_from: u64,
}

impl Hello {
    /// From an owner that cannot open.
    pub(super) const FAILED: Self =
        Self { format: 0, window_words: 0, slot_words: 0, single: 0, in_use_from: 0 };

    pub(super) fn new(
        window_words: u64,
        slot_words: u32,
        single: Option<bool>,
        in_use_from: u64,
    ) -> Self {
        let (slot_words, single) = (slot_words.into(), single.map_or(2, u64::from));
        Self { format: FORMAT, window_words, slot_words, single, in_use_from }
    }

    /// Tells everybody `self`, and gives what everybody told, in the order of owners.
    pub(super) fn gather<E: Exchange + ?Sized>(
        self,
        exchange: &mut E,
    ) -> Result<Vec<Self>, ExchangeError> {
        let mut all = vec![0; BYTES * exchange.owners() as usize];
        exchange.all_gather(self.to_words().map(u64::to_ne_bytes).as_flattened(), &mut all)?;
        let (words, _) = all.as_chunks();
        let words = words.iter().map(|word| u64::from_ne_bytes(*word)).collect::<Vec<_>>();
        Ok(words.as_chunks().0.iter().map(Self::from_words).collect())
    }

    /// Whether `owner`, which told `theirs`, can open, and with the same sizes.
    pub(super) fn agree(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        if *theirs == Self::FAILED {
            return Err(OpenError::PeerFailed(owner));
        }
        for (what, mine, theirs) in [
            ("as the record's format", self.format, theirs.format),
            ("words in the window", self.window_words, theirs.window_words),
            ("words in a slot", self.slot_words, theirs.slot_words),
            ("as acc_single_intrinsic (2: none)", self.single, theirs.single),
        ] {
            if mine != theirs {
                return Err(OpenError::Differs { owner, what, mine, theirs });
            }
        }
        Ok(())
    }

    fn to_words(self) -> [u64; WORDS] {
        let Self { format, window_words, slot_words, single, in_use_from } = self;
        [format, window_words, slot_words, single, in_use_from]
    }

    fn from_words(words: &[u64; WORDS]) -> Self {
        let [format, window_words, slot_words, single, in_use_from] = *words;
        Self { format, window_words, slot_words, single, in_use_from }
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::Alone;

    use super::*;

    #[test]
    fn a_record_arrives_as_it_was_sent() {
        let sent = Hello::new(1 << 40, 64, Some(true), 7);
        assert_eq!(sent.gather(&mut Alone).unwrap(), [sent]);
        assert_eq!(Hello::FAILED.gather(&mut Alone).unwrap(), [Hello::FAILED]);
    }

    #[test]
    fn what_differs_is_named() {
        let mine = Hello::new(64, 8, None, 0);
        assert_eq!(mine.agree(Owner(1), &Hello::new(64, 8, None, 3)), Ok(()));
        assert_eq!(mine.agree(Owner(1), &Hello::FAILED), Err(OpenError::PeerFailed(Owner(1))));
        let differs = mine.agree(Owner(1), &Hello::new(64, 16, None, 0));
        let (what, owner) = ("words in a slot", Owner(1));
        assert_eq!(differs, Err(OpenError::Differs { owner, what, mine: 8, theirs: 16 }));
    }
}
