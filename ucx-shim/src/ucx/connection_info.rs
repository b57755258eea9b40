//! The connection information that the owners exchange when they open their engines.

use probeline_transport::SetupError;
use probeline_transport::engine::setup::{agree, gather, gather_records};
use probeline_transport::{Exchange, Fingerprint, Owner};

use super::{Atomics, Progress};

/// The record and the collective calls of opening.
const PROTOCOL: Fingerprint = Fingerprint::new(5);
/// Words of a record.
const WORDS: usize = 7;
/// The number of bytes of its address and key that an owner sends in one call. Address and key grow
/// with the number of networks of the machine, and an exchange may limit the result of a call. The
/// slices of 4096 owners have 2 MiB.
const SLICE_BYTES: usize = 512;

/// The connection info of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionInfo {
    pub(super) window_words: u64,
    pub(super) slot_words: u32,
    pub(super) atomics: Atomics,
    pub(super) progress: Progress,
    /// The address of its window.
    pub(super) address: u64,
    /// The address of the worker that its peers connect to.
    pub(super) worker: Vec<u8>,
    /// The packed key of its window.
    pub(super) key: Vec<u8>,
}

impl ConnectionInfo {
    /// Gathers the connection information of all owners. An owner that cannot open passes `None`,
    /// and opening fails for all owners.
    pub(super) fn gather<E: Exchange + ?Sized>(
        mine: Option<&Self>,
        exchange: &mut E,
    ) -> Result<Vec<Self>, SetupError> {
        let records = gather_records(exchange, PROTOCOL, mine.map(Self::record))?;
        let lengths = records.iter().map(blob_lengths);
        let longest = lengths.map(|[worker, key]| worker.saturating_add(key)).max().unwrap_or(0);
        let mut blob = mine.map_or_else(Vec::new, |mine| [&*mine.worker, &mine.key].concat());
        blob.resize(longest, 0);
        let mut blobs = vec![Vec::with_capacity(longest); records.len()];
        for slice in blob.chunks(SLICE_BYTES) {
            let all = gather(exchange, slice)?;
            for (blob, part) in blobs.iter_mut().zip(all.chunks_exact(slice.len())) {
                blob.extend_from_slice(part);
            }
        }
        Ok(records.iter().zip(&blobs).map(|(record, blob)| Self::of(record, blob)).collect())
    }

    /// Fails if `other`, that of another owner, has other sizes or modes.
    pub(super) fn agree(&self, owner: Owner, other: &Self) -> Result<(), SetupError> {
        agree(owner, "words in a window", self.window_words, other.window_words)?;
        agree(owner, "words in a slot", self.slot_words, other.slot_words)?;
        agree(
            owner,
            "as atomic mode (0: cpu, 1: device)",
            self.atomics as u64,
            other.atomics as u64,
        )?;
        let what = "as progress (0: thread, 1: caller)";
        agree(owner, what, self.progress as u64, other.progress as u64)
    }

    fn record(&self) -> [u64; WORDS] {
        [
            self.window_words,
            self.slot_words.into(),
            (self.atomics == Atomics::Device).into(),
            (self.progress == Progress::Thread).into(),
            self.address,
            self.worker.len() as u64,
            self.key.len() as u64,
        ]
    }

    fn of(record: &[u64; WORDS], blob: &[u8]) -> Self {
        let [window_words, slot_words, device, thread, address, ..] = *record;
        let [worker, key] = blob_lengths(record);
        let (worker, rest) = blob.split_at(worker.min(blob.len()));
        Self {
            window_words,
            slot_words: u32::try_from(slot_words).unwrap_or(u32::MAX),
            atomics: if device == 0 { Atomics::Cpu } else { Atomics::Device },
            progress: if thread == 0 { Progress::Caller } else { Progress::Thread },
            address,
            worker: worker.to_vec(),
            key: rest.get(..key).unwrap_or_default().to_vec(),
        }
    }
}

/// Returns the lengths of the worker's address and the key.
fn blob_lengths(record: &[u64; WORDS]) -> [usize; 2] {
    let [.., worker, key] = *record;
    [worker, key].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use probeline_transport::{Alone, ExchangeError};

    use super::*;

    /// [`Alone`], which counts its gathers.
    #[derive(Default)]
    struct Counting {
        calls: usize,
        max_bytes: usize,
    }

    impl Exchange for Counting {
        fn me(&self) -> Owner {
            Alone.me()
        }

        fn owners(&self) -> u32 {
            Alone.owners()
        }

        fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
            self.calls += 1;
            self.max_bytes = self.max_bytes.max(mine.len());
            Alone.all_gather(mine, all)
        }
    }

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            window_words: 1 << 40,
            slot_words: 24,
            atomics: Atomics::Device,
            progress: Progress::Thread,
            address: u64::MAX - 4095,
            worker: vec![1, 2, 3],
            key: vec![4, 5, 6, 7, 8],
        }
    }

    #[test]
    fn gathers_connection_info_unchanged() {
        let sent = info();
        let all = ConnectionInfo::gather(Some(&sent), &mut Alone).unwrap();
        assert_eq!(all, core::slice::from_ref(&sent));
        let worker = (0..3000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
        let long = ConnectionInfo { worker, key: vec![7; 1200], ..sent };
        let mut exchange = Counting::default();
        let all = ConnectionInfo::gather(Some(&long), &mut exchange).unwrap();
        assert_eq!(all, [long]);
        assert_eq!((exchange.calls, exchange.max_bytes), (1 + 9, SLICE_BYTES));
        let failed = ConnectionInfo::gather(None, &mut Alone);
        assert_eq!(failed, Err(SetupError::PeerFailed(Owner(0))));
    }

    #[test]
    fn names_differing_sizes_and_modes() {
        let mine = info();
        assert_eq!(mine.agree(Owner(1), &mine), Ok(()));
        for (what, other) in [
            ("words in a window", ConnectionInfo { window_words: 8, ..mine.clone() }),
            ("words in a slot", ConnectionInfo { slot_words: 8, ..mine.clone() }),
            ("as atomic mode", ConnectionInfo { atomics: Atomics::Cpu, ..mine.clone() }),
            ("as progress", ConnectionInfo { progress: Progress::Caller, ..mine.clone() }),
        ] {
            let Err(SetupError::Differs { owner: Owner(1), what: named, .. }) =
                mine.agree(Owner(1), &other)
            else {
                panic!("{what} is not compared");
            };
            assert!(named.starts_with(what), "{named}");
        }
    }
}
