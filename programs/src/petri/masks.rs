//! Masks with a bit for each field of a word, and with a bit for each of 64 transitions.

use crate::petri::Transition;
use crate::petri::layout::Field;

/// Transitions of one mask.
pub(crate) const BLOCK: usize = u64::BITS as usize;
/// Most transitions that nodes remember. More would leave out little more, because most states are
/// found by the first transitions of a net; the masks take n / 8 bytes for each.
const MAX_ORIGINS: u64 = 1023;

/// Returns the number of transitions that the bits of a node's last word from `first_bit` on can
/// number, 0 being none of them.
pub(crate) fn labels_above(first_bit: u32) -> usize {
    let labels = u64::MAX.checked_shr(first_bit).unwrap_or(0).min(MAX_ORIGINS);
    usize::try_from(labels).unwrap_or(0)
}

/// Masks of the fields of one word, and the largest gain of each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields {
    /// The top bit of each field.
    tops: u64,
    /// The other bits.
    lower: u64,
    /// The most tokens that a transition adds to each field, in the field, if they may overflow it.
    gains: u64,
    /// The top bits of the fields with such a gain.
    gain_tops: u64,
}

impl Fields {
    pub(crate) fn new(fields: &[Field], word: usize) -> Self {
        let used = fields.iter().filter(|field| field.word as usize == word && field.bits > 0);
        let tops = used.clone().fold(0, |all, field| all | field.top());
        let all = used.fold(0, |all, field| all | field.max() << field.shift);
        Self { tops, lower: all & !tops, ..Self::default() }
    }

    /// Adds the largest gain of a field that may overflow, at least 1 and at most its maximum.
    pub(crate) fn add_gain(&mut self, field: Field, tokens: u64) {
        self.gains |= tokens << field.shift;
        self.gain_tops |= field.top();
    }

    /// Returns the top bits of the fields that hold 0 in a word of a state.
    #[inline]
    pub(crate) fn empty(self, word: u64) -> u64 {
        // The sum carries into a field's top bit if and only if a lower bit is set.
        let lower_set = (word & self.lower).wrapping_add(self.lower);
        !(lower_set | word) & self.tops
    }

    /// Returns 0 if no transition overflows a field of this word of a state.
    #[inline]
    pub(crate) fn carries(self, word: u64) -> u64 {
        // A sum carries out of a field's top bit if and only if the field is too narrow; this holds
        // exactly for the lowest field that overflows (Warren, Hacker's Delight, 2nd edition,
        // section 2-16).
        let next = word.wrapping_add(self.gains);
        let carries = (word & self.gains) | ((word | self.gains) & !next);
        carries & self.gain_tops
    }
}

/// For each byte of a word's mask of empty fields, and each of its values, the transitions of a
/// block that need a token of one of these fields.
#[derive(Clone, Debug)]
pub(crate) struct Disabled([[u64; 256]; 8]);

impl Disabled {
    pub(crate) fn none() -> Self {
        Self([[0; 256]; 8])
    }

    /// Adds the transition of this bit, which needs a token of `field`.
    pub(crate) fn add(&mut self, bit: u64, field: Field) {
        let top = field.top().trailing_zeros() as usize;
        for (value, disabled) in self.0[top / 8].iter_mut().enumerate() {
            *disabled |= if value >> (top % 8) & 1 == 1 { bit } else { 0 };
        }
    }

    /// Returns the transitions that need a token of one of the `empty` fields.
    #[inline]
    pub(crate) fn of(&self, empty: u64) -> u64 {
        let bytes = self.0.iter().zip(empty.to_le_bytes());
        bytes.fold(0, |all, (table, byte)| all | table[usize::from(byte)])
    }
}

/// Returns the indices of the bits that are set, all below [`BLOCK`].
#[inline]
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize % BLOCK;
        let any = mask != 0;
        mask &= mask.wrapping_sub(1);
        any.then_some(at)
    })
}

/// Returns the masks of the transitions after `first`, the one at `index`, that take no token of its
/// input places, so that it stays enabled if they fire; `taken` has the places that each takes from.
pub(crate) fn commuting(first: &Transition, taken: &[Vec<usize>], index: usize) -> Vec<u64> {
    let mut masks = vec![0; taken.len().div_ceil(BLOCK)];
    for (later, taken) in taken.iter().enumerate().skip(index + 1) {
        if !first.inputs.iter().any(|input| taken.contains(&input.place)) {
            masks[later / BLOCK] |= 1 << (later % BLOCK);
        }
    }
    masks
}

/// Returns the places that hold fewer tokens after the transition.
pub(crate) fn places_taken_from(transition: &Transition) -> Vec<usize> {
    let effect = transition.effect();
    effect.iter().filter(|&&(_, by)| by < 0).map(|&(place, _)| place).collect()
}
