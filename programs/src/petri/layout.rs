//! Layout of a state: the tokens of each place are in fields of bits, side by side in words.

use core::cmp::Reverse;

/// Bits of a state of one word; the top bit of the word stays 0. Also the largest width of a field.
pub const STATE_BITS: u32 = 63;

/// Bits of a word of a state of several words.
pub const WORD_BITS: u32 = 64;

/// Bits of the last of several words that are left to the origin of a node, if they are spare
/// (see `expander`).
const ORIGIN_BITS: u32 = 10;

/// The bits of a packed state that hold one place's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// Index of the word; 0 if the field has no bits.
    pub(crate) word: u32,
    /// Index of the lowest bit in the word; 0 if the field has no bits.
    pub(crate) shift: u32,
    /// The width, at most [`STATE_BITS`]; 0 for a place that never held a token.
    pub(crate) bits: u32,
}

impl Field {
    /// Returns the largest token count that fits.
    pub(crate) fn max(self) -> u64 {
        u64::MAX.checked_shr(u64::BITS - self.bits).unwrap_or(0)
    }

    /// Returns the top bit of a field of at least one bit.
    pub(crate) fn top(self) -> u64 {
        1 << (self.shift + self.bits - 1)
    }

    /// Returns the field's tokens in `state`, which has all words of the packing.
    pub(crate) fn tokens(self, state: &[u64]) -> u64 {
        (state[self.word as usize] >> self.shift) & self.max()
    }

    /// Returns the index of the first bit above the field.
    pub(crate) fn end(self) -> u32 {
        self.shift + self.bits
    }
}

/// Known facts about the tokens of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) initial: u64,
    /// The largest count seen.
    pub(crate) seen: u64,
    /// An upper bound, if one is known.
    pub(crate) bound: Option<u64>,
}

impl Tokens {
    /// Returns whether the place may hold more tokens than `max`.
    pub(crate) fn may_exceed(&self, max: u64) -> bool {
        self.bound.is_none_or(|bound| bound > max)
    }

    /// Returns the least width of a field: that which the counts seen need. In several words, a place that may
    /// get a token has a bit, because a restart with wider fields costs more.
    pub(crate) fn min_bits(&self, words: u32) -> u32 {
        bits_of(self.seen).max(u32::from(words > 1 && self.may_outgrow(0)))
    }

    fn may_outgrow(&self, width: u32) -> bool {
        width < STATE_BITS && self.bound.is_none_or(|bound| width < bits_of(bound))
    }
}

/// Returns the bits of each word of a state that has at most this many.
pub(crate) fn word_bits(max_words: u32) -> u32 {
    if max_words == 1 { STATE_BITS } else { WORD_BITS }
}

/// Lays out at most this number of words: each place has the bits that the counts seen need, and the
/// remaining bits are distributed. No field straddles two words. `None` if the fields do not fit.
pub(crate) fn lay_out(places: &[Tokens], max_words: u32) -> Option<Vec<Field>> {
    let mut widths: Vec<u32> = places.iter().map(|place| place.min_bits(max_words)).collect();
    let (words, mut used) = first_fit(&widths, max_words)?;
    let words_used = u32::try_from(used.len()).ok()?;
    // Of words without a field, the last one has room for the origin.
    if let Some(last) = used.last_mut().filter(|_| max_words > 1 && words_used == max_words) {
        *last += (WORD_BITS - *last).min(ORIGIN_BITS);
    }
    for (word, used) in (0..).zip(used) {
        let here: Vec<usize> = (0..words.len()).filter(|&place| words[place] == word).collect();
        widen(places, &mut widths, &here, word_bits(max_words) - used);
    }
    Some(side_by_side(&words, &widths))
}

/// Returns the first word with room for each field, and the bits used of each word.
pub(crate) fn first_fit(widths: &[u32], max_words: u32) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut used: Vec<u32> = Vec::new();
    let mut words = Vec::with_capacity(widths.len());
    for &bits in widths {
        if bits > STATE_BITS {
            return None;
        }
        let room = used.iter().position(|used| used + bits <= word_bits(max_words));
        let word = room.unwrap_or(used.len());
        if word == used.len() {
            used.push(0);
        }
        used[word] += bits;
        words.push(u32::try_from(word).ok().filter(|&word| word < max_words)?);
    }
    Some((words, used))
}

/// Adds up to `spare` bits to the fields of `here`.
fn widen(places: &[Tokens], widths: &mut [u32], here: &[usize], spare: u32) {
    for _ in 0..spare {
        let Some(place) = fullest(places, widths, here) else { return };
        widths[place] += 1;
    }
}

/// Returns the place of `here` whose field is fullest among those that may have to hold more
/// tokens. Of equally full fields it is the one with the largest gain since the initial marking.
/// `None` if every field holds its place's bound.
fn fullest(places: &[Tokens], widths: &[u32], here: &[usize]) -> Option<usize> {
    let open = here.iter().copied().filter(|&place| places[place].may_outgrow(widths[place]));
    open.max_by_key(|&place| {
        let Tokens { initial, seen, .. } = places[place];
        // (seen + 1) / 2^width as a fixed-point number, at most 2^63.
        let fullness = (u128::from(seen) + 1) << (STATE_BITS - widths[place]);
        // Of equal places, the first one.
        (fullness, seen.saturating_sub(initial), Reverse(place))
    })
}

/// Places the fields of each word side by side, from the lowest bit up.
pub(crate) fn side_by_side(words: &[u32], widths: &[u32]) -> Vec<Field> {
    let count = words.iter().max().map_or(0, |&last| last as usize + 1);
    let mut used = vec![0; count];
    let fields = words.iter().zip(widths).map(|(&word, &bits)| {
        if bits == 0 {
            return Field::default();
        }
        let used = &mut used[word as usize];
        let shift = *used;
        *used += bits;
        Field { word, shift, bits }
    });
    fields.collect()
}

/// Returns the width of a field that holds this count; 0 for no tokens.
pub(crate) fn bits_of(tokens: u64) -> u32 {
    u64::BITS - tokens.leading_zeros()
}
