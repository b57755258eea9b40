//! What every owner tells all others when it opens: where its memory is, and its sizes.

use probeline_transport::{Exchange, ExchangeError, Owner};

use crate::OpenError;

/// The format of this record and of the control page. Engines of one job agree in it.
const FORMAT: u64 = u64::from_be_bytes(*b"plshm\0\0\x01");
const WORDS: usize = 6;
const BYTES: usize = WORDS * size_of::<u64>();

/// One owner's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// [`FORMAT`], or 0 from an owner that could not open its own memory.
    pub(crate) format: u64,
    pub(crate) pid: u64,
    /// The memory's descriptor in that process.
    pub(crate) fd: u64,
    /// Random; also in the memory, to recognise it by.
    pub(crate) nonce: u64,
    pub(crate) window_words: u64,
    pub(crate) slot_words: u64,
}

impl Hello {
    /// From an owner that could not open its own memory.
    pub(crate) const FAILED: Self =
        Self { format: 0, pid: 0, fd: 0, nonce: 0, window_words: 0, slot_words: 0 };

    pub(crate) fn new(fd: u64, nonce: u64, window_words: u64, slot_words: u64) -> Self {
        let pid = u64::from(std::process::id());
        Self { format: FORMAT, pid, fd, nonce, window_words, slot_words }
    }

    /// Tells everybody `self`, and gives what everybody told, in the order of owners.
    pub(crate) fn gather<E: Exchange + ?Sized>(
        self,
        exchange: &mut E,
    ) -> Result<Vec<Self>, ExchangeError> {
        let mut all = vec![0; BYTES * exchange.owners() as usize];
        exchange.all_gather(&self.to_bytes(), &mut all)?;
        let (records, _) = all.as_chunks::<BYTES>();
        Ok(records.iter().map(Self::from_bytes).collect())
    }

    /// Whether `owner`, which told `theirs`, opened, and opened with the same sizes.
    pub(crate) fn agree(&self, owner: Owner, theirs: &Self) -> Result<(), OpenError> {
        if *theirs == Self::FAILED {
            return Err(OpenError::PeerFailed(owner));
        }
        for (what, mine, theirs) in [
            ("as the record's format", self.format, theirs.format),
            ("words in the window", self.window_words, theirs.window_words),
            ("words in a slot", self.slot_words, theirs.slot_words),
        ] {
            if mine != theirs {
                return Err(OpenError::Differs { owner, what, mine, theirs });
            }
        }
        Ok(())
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let Self { format, pid, fd, nonce, window_words, slot_words } = self;
        let mut bytes = [0; BYTES];
        let (places, _) = bytes.as_chunks_mut::<{ size_of::<u64>() }>();
        for (place, word) in
            places.iter_mut().zip([format, pid, fd, nonce, window_words, slot_words])
        {
            *place = word.to_ne_bytes();
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
        let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        Self {
            format: next(),
            pid: next(),
            fd: next(),
            nonce: next(),
            window_words: next(),
            slot_words: next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::Alone;

    use super::*;

    #[test]
    fn a_record_arrives_as_it_was_sent() {
        let sent = Hello::new(3, 0xDEAD_BEEF_0123_4567, 1 << 40, 64);
        assert_eq!(sent.gather(&mut Alone).unwrap(), [sent]);
        assert_eq!(Hello::FAILED.gather(&mut Alone).unwrap(), [Hello::FAILED]);
        assert_ne!(sent.format, Hello::FAILED.format);
    }
}
