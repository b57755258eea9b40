//! The connection information that the owners exchange when they open their engines.

use probeline_transport::SetupError;
use probeline_transport::engine::setup::{agree, gather, gather_records};
use probeline_transport::{Exchange, Fingerprint, Owner};

/// The record and the collective calls of opening.
const PROTOCOL: Fingerprint = Fingerprint::new(6);
/// The number of bytes of its address and key that an owner sends in one call. Address and key grow
/// with the number of networks of the machine, and an exchange may limit the result of a call. The
/// slices of 4096 owners have 2 MiB.
const SLICE_BYTES: usize = 512;
/// The options that all owners have in common.
const OPTIONS: [&str; 4] = [
    "words in a window",
    "words in a slot",
    "as atomic mode (0: cpu, 1: device)",
    "as progress (0: thread, 1: caller)",
];

/// The connection info of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionInfo {
    /// The values of [`OPTIONS`].
    pub(super) options: [u64; OPTIONS.len()],
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
        let record =
            |Self { options: [window, slot, atomics, progress], address, worker, key }: &Self| {
                let lengths = [worker, key].map(|bytes| bytes.len() as u64);
                [*window, *slot, *atomics, *progress, *address, lengths[0], lengths[1]]
            };
        let records = gather_records(exchange, PROTOCOL, mine.map(record))?;
        let bytes = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
        let lengths = records.iter().map(|[.., worker, key]| bytes(worker.saturating_add(*key)));
        let longest = lengths.max().unwrap_or(0);
        let mut blob = mine.map_or_else(Vec::new, |mine| [&*mine.worker, &mine.key].concat());
        blob.resize(longest, 0);
        let mut blobs = vec![Vec::with_capacity(longest); records.len()];
        for slice in blob.chunks(SLICE_BYTES) {
            let all = gather(exchange, slice)?;
            for (blob, part) in blobs.iter_mut().zip(all.chunks_exact(slice.len())) {
                blob.extend_from_slice(part);
            }
        }
        let info = |([options @ .., address, worker, key], mut blob): ([u64; 7], Vec<u8>)| {
            blob.truncate(bytes(worker.saturating_add(key)));
            let key = blob.split_off(blob.len().min(bytes(worker)));
            Self { options, address, worker: blob, key }
        };
        Ok(records.into_iter().zip(blobs).map(info).collect())
    }

    /// Fails if `other`, that of another owner, has other sizes or modes.
    pub(super) fn agree(&self, owner: Owner, other: &Self) -> Result<(), SetupError> {
        let values = self.options.iter().zip(other.options);
        let mut options = OPTIONS.into_iter().zip(values);
        options.try_for_each(|(what, (mine, theirs))| agree(owner, what, *mine, theirs))
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::{Alone, MAX_OWNERS};

    use super::*;

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            options: [1 << 40, 24, 1, 0],
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
        let all = ConnectionInfo::gather(Some(&long), &mut Alone).unwrap();
        assert_eq!(all, [long]);
        let max = MAX_OWNERS as usize * SLICE_BYTES;
        assert!(max <= probeline_exchange::MAX_RESULT_BYTES, "a slice fits one call");
        let failed = ConnectionInfo::gather(None, &mut Alone);
        assert_eq!(failed, Err(SetupError::PeerFailed(Owner(0))));
    }

    #[test]
    fn names_differing_sizes_and_modes() {
        let mine = info();
        assert_eq!(mine.agree(Owner(1), &mine), Ok(()));
        for (nth, what) in OPTIONS.into_iter().enumerate() {
            let mut other = mine.clone();
            other.options[nth] += 1;
            let refused = mine.agree(Owner(1), &other);
            let differs = |owner, named| owner == Owner(1) && named == what;
            assert!(
                matches!(refused, Err(SetupError::Differs { owner, what, .. }) if differs(owner, what))
            );
        }
    }
}
