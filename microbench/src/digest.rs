//! Digests of inputs that ranks compare. A digest is the same on every machine and in every build.

use core::fmt;

use sha2::{Digest as _, Sha256};

/// 128 bits are enough to detect inputs that differ by mistake.
const DIGEST_BYTES: usize = 16;

/// The first 128 bits of a SHA-256 hash; shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    pub(crate) fn of(text: &str) -> Self {
        Self::from_list(text, [])
    }

    /// Returns the digest of a list of numbers. `what` separates lists of different kinds.
    pub(crate) fn from_list(what: &str, numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut hash = Sha256::new();
        // The length comes first, so that different texts and lists give different input.
        hash.update((what.len() as u64).to_le_bytes());
        hash.update(what);
        numbers.into_iter().for_each(|number| hash.update(number.to_le_bytes()));
        let hash: [u8; 32] = hash.finalize().into();
        Self(core::array::from_fn(|at| hash[at]))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: `printf '\3\0\0\0\0\0\0\0net\7\0\0\0\0\0\0\0' | sha256sum`.
    #[test]
    fn matches_sha256() {
        assert_eq!(Digest::from_list("net", [7]).to_string(), "928146e514805714abecf91a7deadc43");
        assert_ne!(Digest::of("a"), Digest::of("b"));
    }
}
