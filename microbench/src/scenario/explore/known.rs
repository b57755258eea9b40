//! States that this rank has lately handed to the table. Nothing leaves the table while it is
//! explored, so what has gone there once need not go again: a cache without coherence.

/// In no entry: states have 63 bits.
const NOTHING: u64 = u64::MAX;
/// 2^64 divided by the golden ratio, odd (Knuth, TAOCP volume 3, section 6.4).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The states handed over last, one for each hash.
pub(super) struct Known {
    entries: Box<[u64]>,
    /// From a hash of 64 bits to the index of an entry.
    shift: u32,
}

impl Known {
    /// Room for `states`, a power of two, of 8 bytes each; with 0 or 1 it knows none.
    pub(super) fn new(states: u32) -> Self {
        let entries = if states > 1 { vec![NOTHING; states as usize] } else { Vec::new() };
        Self { entries: entries.into(), shift: u64::BITS - states.max(1).ilog2() }
    }

    /// Moves those of `states` that are not known to the front, in order, says how many they are,
    /// and knows them from then on.
    #[inline]
    pub(super) fn sift(&mut self, states: &mut [u64]) -> usize {
        if self.entries.is_empty() {
            return states.len();
        }
        let mut unknown = 0;
        for at in 0..states.len() {
            let state = states[at];
            // Below the number of entries, which is 2 at least and a u32.
            #[allow(clippy::cast_possible_truncation)]
            let index = (state.wrapping_mul(FACTOR) >> self.shift) as usize;
            let Some(entry) = self.entries.get_mut(index) else { continue };
            // Written in any case, and kept if it is not known: nothing to predict.
            states[unknown] = state;
            unknown += usize::from(*entry != state);
            *entry = state;
        }
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sifted(known: &mut Known, states: &[u64]) -> Vec<u64> {
        let mut states = states.to_vec();
        let unknown = known.sift(&mut states);
        states.truncate(unknown);
        states
    }

    #[test]
    fn what_was_handed_over_is_known() {
        let mut known = Known::new(1 << 10);
        assert_eq!(sifted(&mut known, &[0, 5, 5, 0, 6]), [0, 5, 6]);
        assert_eq!(sifted(&mut known, &[6, 8, 0]), [8]);
        assert!(sifted(&mut known, &[]).is_empty());
    }

    /// Two entries for many states: most are forgotten, and none is known that was not given.
    #[test]
    fn what_is_forgotten_goes_again() {
        let mut known = Known::new(2);
        let states: Vec<u64> = (0..100).collect();
        assert_eq!(sifted(&mut known, &states), states);
        assert!(sifted(&mut known, &states).len() >= 98);
    }

    #[test]
    fn without_room_it_knows_nothing() {
        for states in [0, 1] {
            assert_eq!(sifted(&mut Known::new(states), &[3, 3, 3]), [3, 3, 3]);
        }
    }
}
