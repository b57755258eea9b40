//! The fingerprint by which owners notice that another one runs a build with another layout.

use probeline_transport::{Fingerprint, RemoteWord};

use crate::bucket::{Bucket, MAX_KEY};
use crate::layout::{Layout, Probing};
use crate::{tree, wide};

/// Version of what no function computes: the order of operations.
const VERSION: u64 = 3;
/// Keys of few bits and of all bits.
const KEYS: [u64; 4] = [0, 1, 0x0123_4567_89ab_cdef, MAX_KEY];
/// Buckets of each probe order: five lines, across the ends of parts.
const PROBED: usize = 40;

/// Returns the fingerprint of all tables of this build: of the words and places that their hashes and
/// layouts give to a few keys.
pub(crate) fn fingerprint() -> u64 {
    let all = hash_buckets(Fingerprint::new(VERSION), |key| Bucket::new(key).ok());
    tree::fingerprint(wide::fingerprint(all)).get()
}

fn hash_buckets(mut all: Fingerprint, bucket: impl Fn(u64) -> Option<Bucket>) -> Fingerprint {
    for probing in [Probing::Linear, Probing::Lines, Probing::DoubleHash] {
        let layout = Layout::new(3, 24, 8, probing);
        for bucket in KEYS.into_iter().filter_map(&bucket) {
            let order = layout.probe_order(bucket).take(PROBED);
            all = order.fold(all.with(bucket.word()), |all, at| with_word(all, layout.word(at)));
        }
    }
    all
}

/// Adds an address.
pub(crate) fn with_word(all: Fingerprint, at: RemoteWord) -> Fingerprint {
    all.with(at.owner.0.into()).with(at.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_hash() {
        let all = Fingerprint::new(VERSION);
        let mine = hash_buckets(all, |key| Bucket::new(key).ok());
        assert_eq!(mine, hash_buckets(all, |key| Bucket::new(key).ok()));
        // As a hash with another factor would do.
        assert_ne!(mine, hash_buckets(all, |key| Bucket::new(key ^ (key != 0) as u64).ok()));
    }
}
