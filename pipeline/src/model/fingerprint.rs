//! A 128-bit hash of states.

use core::hash::{Hash, Hasher};

/// Two hashes, each folding a 128-bit product as wyhash does.
#[derive(Default)]
pub(super) struct Fingerprint([u64; 2]);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let [first, second] = self.0;
        self.0 =
            [fold(first ^ value, FACTORS[0]), fold(second.rotate_left(23) ^ value, FACTORS[1])];
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0[0]
    }
}

/// Odd constants without structure: the fractional parts of the square roots of 2 and 3.
const FACTORS: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

#[inline]
fn fold(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(factor)
}

/// Returns the hash of `state`. Among ten million states, the probability that two share a hash is
/// below 10^-24.
#[must_use]
pub fn fingerprint(state: &impl Hash) -> u128 {
    let mut hasher = Fingerprint(FACTORS);
    state.hash(&mut hasher);
    let [first, second] = hasher.0;
    u128::from(first) << 64 | u128::from(second)
}
