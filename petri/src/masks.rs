//! Masks with a bit for each field of a word, and with a bit for each of 64 transitions.

use crate::Transition;
use crate::layout::Field;

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
    /// The most tokens that a transition adds to each field, in the field.
    gains: u64,
    /// The top bits of the fields with a gain.
    gain_tops: u64,
}

impl Fields {
    pub(crate) fn new(fields: &[Field], word: u32) -> Self {
        let used = fields.iter().filter(|field| field.word == word && field.bits > 0);
        let tops = used.clone().fold(0, |all, field| all | field.top());
        let all = used.fold(0, |all, field| all | field.max() << field.shift);
        Self { tops, lower: all & !tops, ..Self::default() }
    }

    /// Adds the largest gain of a field, at least 1 and at most its maximum.
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

    /// Returns the top bits of the fields of a word of a state that a transition may overflow; no
    /// transition overflows another field.
    #[inline]
    pub(crate) fn near_overflow(self, word: u64) -> u64 {
        // A sum carries out of the top bit of a field that is too narrow, and perhaps of fields above
        // it (Warren, Hacker's Delight, 2nd edition, section 2-16).
        let next = word.wrapping_add(self.gains);
        let carries = (word & self.gains) | ((word | self.gains) & !next);
        carries & self.gain_tops
    }
}

/// The transitions of a block by the fields of one word: for each byte of a mask of the fields' top
/// bits, and each of its values, the transitions of these fields.
#[derive(Clone, Debug)]
pub(crate) struct ByField([[u64; 256]; 8]);

impl ByField {
    /// Adds the transition of this bit to those of `field`.
    fn add(&mut self, bit: u64, field: Field) {
        let top = field.top().trailing_zeros() as usize;
        for (value, transitions) in self.0[top / 8].iter_mut().enumerate() {
            *transitions |= if value >> (top % 8) & 1 == 1 { bit } else { 0 };
        }
    }

    /// Returns the transitions of the fields whose top bits are set in `tops`.
    #[inline]
    pub(crate) fn of(&self, tops: u64) -> u64 {
        let bytes = self.0.iter().zip(tops.to_le_bytes());
        bytes.fold(0, |all, (table, byte)| all | table[usize::from(byte)])
    }
}

/// The words in which transitions of a block have fields, and the transitions by field.
pub(crate) type ByWord = Vec<(usize, ByField)>;

/// Adds the transition of this bit to those of `field`.
pub(crate) fn add(transitions: &mut ByWord, bit: u64, field: Field) {
    let word = field.word as usize;
    let known = transitions.iter().position(|(of, _)| *of == word);
    let at = known.unwrap_or(transitions.len());
    if at == transitions.len() {
        transitions.push((word, ByField([[0; 256]; 8])));
    }
    transitions[at].1.add(bit, field);
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
