//! Markings as packed states: one bit field for each place, in one word or in several.
//!
//! The widths come from a sample of the state space and from proven bounds. If the sample was too
//! small, firing a transition overflows a field later, and [`Packing::grown`] gives a wider layout.

use core::cmp::Reverse;

use crate::petri::Net;
use crate::petri::bounds::upper_bounds;
use crate::petri::layout::{self, Field, STATE_BITS, Tokens, WORD_BITS};
use crate::petri::probe::{BUDGET, Budget, probe};

/// Maximum number of places that an error lists.
const MAX_LISTED: usize = 8;

/// The layout of a net's markings in packed states.
///
/// Processes that pack the same net, and grow the layout by the same overflows, have the same
/// layout. Equal markings have equal states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    fields: Vec<Field>,
    /// Known facts about the tokens of each place.
    places: Vec<Tokens>,
    /// Words of a state.
    words: u32,
    /// The words that a state may have, in ascending order.
    sizes: Vec<u32>,
}

impl Packing {
    /// Packs the markings of a net in one word. Takes at most about 0.3 s in a release build.
    ///
    /// # Errors
    /// [`PackingError`] if the markings seen need more than [`STATE_BITS`].
    pub fn new(net: &Net) -> Result<Self, PackingError> {
        Self::wide(net, &[1])
    }

    /// Packs the markings of a net in the least number of words of `sizes`, in ascending order, that
    /// holds those seen: [`STATE_BITS`] in one word, [`WORD_BITS`] in each of several. Takes at most
    /// about 0.3 s in a release build.
    ///
    /// # Errors
    /// [`PackingError`] if the markings seen need more bits.
    pub fn wide(net: &Net, sizes: &[u32]) -> Result<Self, PackingError> {
        Self::probed(net, sizes, BUDGET)
    }

    fn probed(net: &Net, sizes: &[u32], budget: Budget) -> Result<Self, PackingError> {
        let seen = probe(net, budget);
        let bounds = match seen.complete {
            true => seen.max.iter().copied().map(Some).collect(),
            false => upper_bounds(net),
        };
        let known = net.places().iter().zip(seen.max).zip(bounds);
        let known =
            known.map(|((place, seen), bound)| Tokens { initial: place.initial, seen, bound });
        Self::fit(net, known.collect(), sizes)
    }

    /// Returns a layout that also holds the marking that overflowed this one. It may have more
    /// words.
    ///
    /// Each overflow shows that a place needs one more bit. After at most [`STATE_BITS`] calls for
    /// each place, each with an overflow of the previous result, the layout therefore holds all
    /// reachable markings, or the call fails.
    ///
    /// # Errors
    /// [`PackingError`] if the markings seen so far do not fit the words.
    pub fn grown(&self, net: &Net, overflow: Overflow) -> Result<Self, PackingError> {
        let mut places = self.places.clone();
        if let Some(place) = places.get_mut(overflow.place) {
            place.seen = overflow.tokens.max(place.seen);
        }
        Self::fit(net, places, &self.sizes)
    }

    /// Gives each place the bits that the markings seen need, then distributes the remaining bits.
    fn fit(net: &Net, places: Vec<Tokens>, sizes: &[u32]) -> Result<Self, PackingError> {
        let layout = |&words: &u32| Some((words, layout::lay_out(&places, words)?));
        match sizes.iter().find_map(layout) {
            Some((words, fields)) => Ok(Self { fields, places, words, sizes: sizes.to_vec() }),
            None => Err(PackingError::new(net, &places, sizes)),
        }
    }

    /// Returns whether a marking may overflow the packing.
    pub fn may_overflow(&self) -> bool {
        (0..self.fields.len()).any(|place| self.may_exceed(place))
    }

    /// Returns whether a reachable marking may hold more tokens in this place than its field.
    pub(crate) fn may_exceed(&self, place: usize) -> bool {
        self.places[place].may_exceed(self.fields[place].max())
    }

    /// Packs a marking, one token count for each place, in a state of `W` words: those of the packing,
    /// and further ones of 0. The top bit of the state of a packing of one word is 0.
    ///
    /// # Errors
    /// [`Overflow`] with the first place whose field is too narrow.
    ///
    /// # Panics
    /// If the packing has more [`words`](Self::words).
    pub fn pack<const W: usize>(&self, marking: &[u64]) -> Result<[u64; W], Overflow> {
        let mut state = [0; W];
        state[..self.words()].copy_from_slice(&self.pack_words(marking)?);
        Ok(state)
    }

    /// Packs a marking in a state of the words of the packing.
    pub(crate) fn pack_words(&self, marking: &[u64]) -> Result<Vec<u64>, Overflow> {
        let mut state = vec![0; self.words()];
        for (place, (field, &tokens)) in self.fields.iter().zip(marking).enumerate() {
            if tokens > field.max() {
                return Err(Overflow { place, tokens, transition: None });
            }
            state[field.word as usize] |= tokens << field.shift;
        }
        Ok(state)
    }

    /// Returns the marking of a state: the tokens of each place, in the net's order.
    ///
    /// # Panics
    /// If `state` has fewer words than the packing.
    pub fn unpack(&self, state: &[u64]) -> impl Iterator<Item = u64> {
        self.fields.iter().map(move |field| field.tokens(state))
    }

    /// Returns the tokens of the place with this index in a state of [`words`](Self::words) words.
    ///
    /// # Panics
    /// If the net has fewer places, or `state` has fewer words.
    pub fn tokens(&self, place: usize, state: &[u64]) -> u64 {
        self.fields[place].tokens(state)
    }

    /// Returns the number of bits that the fields use.
    pub fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum()
    }

    /// Returns the number of words of a state, at least 1.
    pub fn words(&self) -> usize {
        self.words as usize
    }

    /// Returns the number of low bits of a state's words that fields may use, those between fields
    /// included. The others are 0 in every state.
    pub fn width(&self) -> u32 {
        (self.words - 1) * WORD_BITS + self.last_bits()
    }

    /// Returns the number of low bits of the last word that fields use. The others are 0 in every
    /// state.
    pub(crate) fn last_bits(&self) -> u32 {
        let last = self.fields.iter().filter(|field| field.word + 1 == self.words);
        last.map(|field| field.end()).max().unwrap_or(0)
    }

    /// Returns the fields of the places.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// A marking that does not fit a packing: a place holds more tokens than its field can.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    thiserror::Error,
    serde::Serialize,
    serde::Deserialize,
)]
#[error("place {place} (from 0) holds {tokens} tokens, more than its field; grow the packing")]
pub struct Overflow {
    /// Index of the place in [`Net::places`].
    pub place: usize,
    /// The tokens that it holds.
    pub tokens: u64,
    /// The number of the transition that leads to the marking; `None` if no transition was fired.
    pub transition: Option<u32>,
}

/// The error of a net whose markings do not fit the words of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a state needs at least {needed_bits} bits, and {available} fit a packed state; take a \
     smaller instance of the model (a net without a bound on its tokens has none); the widest \
     places are {}",
    .widest.iter().map(|(place, bits)| format!("{place} ({bits})")).collect::<Vec<_>>().join(", ")
)]
pub struct PackingError {
    /// Bits that the markings seen so far need.
    pub needed_bits: u64,
    /// Bits of the words that a state may have. In several words, no place's bits straddle two, and
    /// a place takes at most [`STATE_BITS`].
    pub available: u64,
    /// The widest places, at most 8, and their bits.
    pub widest: Vec<(String, u32)>,
}

impl PackingError {
    fn new(net: &Net, places: &[Tokens], sizes: &[u32]) -> Self {
        let words = sizes.last().copied().unwrap_or(1);
        let available = u64::from(words) * u64::from(layout::word_bits(words));
        let widths = places.iter().map(|place| place.min_bits(words));
        let needed: u64 = widths.clone().map(u64::from).sum();
        // Fields that straddle no two words may not fit, although there are as many bits. Neither
        // does a place of more bits than a field, in any number of words.
        let too_wide = widths.clone().any(|bits| bits > STATE_BITS);
        let needed_bits = if too_wide { needed } else { needed.max(available + 1) };
        let mut widest: Vec<_> = net.places().iter().zip(widths).collect();
        // The sort is stable: places of equal width stay in the model's order.
        widest.sort_by_key(|&(_, bits)| Reverse(bits));
        let widest = widest.into_iter().take(MAX_LISTED);
        let widest = widest.map(|(place, bits)| (place.to_string(), bits)).collect();
        Self { needed_bits, available, widest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::petri::MAX_TOKENS;
    use crate::petri::naive::{self, largest, markings, net, nets};

    /// A sample of only the initial marking, so that fields have to grow.
    const BLIND: Budget = Budget { states: 1, work: 0 };

    /// Words of a state.
    const SIZES: [u32; 7] = [1, 2, 3, 4, 5, 6, 8];

    impl Packing {
        /// Creates a layout of exactly these widths, at most [`STATE_BITS`] together.
        pub(crate) fn from_widths(widths: &[u32]) -> Self {
            Self::from_wide_widths(widths, 1)
        }

        /// Creates a layout of exactly these widths in as few words as needed, at most `max_words`.
        pub(crate) fn from_wide_widths(widths: &[u32], max_words: u32) -> Self {
            let seen = widths.iter().map(|&bits| Field { bits, ..Field::default() }.max());
            let places = seen.map(|seen| Tokens { initial: 0, seen, bound: None }).collect();
            let words = match max_words {
                1 => vec![0; widths.len()],
                _ => layout::first_fit(widths, max_words).unwrap().0,
            };
            let fields = layout::side_by_side(&words, widths);
            let words = fields.iter().map(|field| field.word + 1).max().unwrap_or(1);
            Self { fields, places, words, sizes: vec![words] }
        }
    }

    fn overflow(place: usize, tokens: u64) -> Overflow {
        Overflow { place, tokens, transition: None }
    }

    fn widths(packing: &Packing) -> Vec<u32> {
        packing.fields().iter().map(|field| field.bits).collect()
    }

    #[test]
    fn spare_bits_favour_growing_places() {
        // p0 only shrinks, p1 and p2 grow without bound, p3 is still empty.
        let net = net(
            &[100, 0, 1, 0],
            &[(&[(0, 1)], &[]), (&[], &[(1, 1)]), (&[], &[(2, 1)]), (&[(1, 1 << 30)], &[(3, 1)])],
        );
        let widths = widths(&Packing::new(&net).unwrap());
        assert_eq!(widths[0], 7);
        assert!(widths[1] > 10 && widths[2] > 10 && widths[3] > 10, "{widths:?}");
        assert_eq!(widths.iter().sum::<u32>(), STATE_BITS);
    }

    #[test]
    fn known_bounds_give_exact_widths() {
        let small = net(&[5, 0, 0], &[(&[(0, 1)], &[(1, 1)])]);
        assert_eq!(widths(&Packing::new(&small).unwrap()), [3, 3, 0]);
        // More markings than the sample has, with invariants.
        let packing = Packing::new(&Net::load("kanban:7").unwrap()).unwrap();
        assert_eq!(widths(&packing), [3; 16]);
        // 7 tokens fill 3 bits, 4 tokens do not; 56 bits are taken by a place that never grows.
        let full = net(&[7, 4, (1 << 56) - 1], &[(&[], &[(0, 1), (1, 1)])]);
        assert_eq!(widths(&Packing::probed(&full, &[1], BLIND).unwrap()), [4, 3, 56]);
    }

    #[test]
    fn errors_name_widest_places() {
        let net = net(&[1 << 40, 3, 1 << 30], &[]);
        let error = Packing::new(&net).unwrap_err();
        assert_eq!(error.needed_bits, 74);
        assert_eq!(error.widest, [("p0".into(), 41), ("p2".into(), 31), ("p1".into(), 2)]);
        let message = error.to_string();
        assert!(message.contains("at least 74 bits, and 63 fit"), "{message}");
        assert!(message.ends_with("p0 (41), p2 (31), p1 (2)"), "{message}");
    }

    #[test]
    fn limits_fields_to_63_bits() {
        let full = net(&[MAX_TOKENS, 0], &[]);
        let packing = Packing::new(&full).unwrap();
        assert_eq!(widths(&packing), [63, 0]);
        let state: [u64; 1] = packing.pack(&full.initial()).unwrap();
        assert!(packing.unpack(&state).eq([MAX_TOKENS, 0]));

        let beyond = net(&[MAX_TOKENS], &[(&[], &[(0, MAX_TOKENS)])]);
        assert_eq!(Packing::new(&beyond).unwrap_err().needed_bits, 64);
        let packing = Packing::probed(&beyond, &[1], BLIND).unwrap();
        let grown = packing.grown(&beyond, overflow(0, 1 << 63));
        assert_eq!(grown.unwrap_err().needed_bits, 64);

        let beside = net(&[MAX_TOKENS, 1], &[(&[], &[(0, MAX_TOKENS)])]);
        assert_eq!(Packing::wide(&beside, &SIZES).unwrap_err().needed_bits, 65);
        let packing = Packing::probed(&beside, &SIZES, BLIND).unwrap();
        assert_eq!((widths(&packing), packing.words()), (vec![63, 1], 2));
    }

    #[test]
    fn uses_fewest_words() {
        let words =
            |model: &str| Packing::wide(&Net::load(model).unwrap(), &SIZES).unwrap().words();
        assert_eq!(words("philosophers:12"), 1);
        assert_eq!(words("philosophers:13"), 2);
        assert_eq!(words("philosophers:100"), 8);
        assert_eq!(words("peterson:2"), 2);
        // No field straddles two words.
        let counts = net(&[1 << 39; 3], &[]);
        assert_eq!(Packing::wide(&counts, &SIZES).unwrap().words(), 3);
        // The least number of words that is allowed; one of several has all 64 bits.
        let philosophers = |count| Net::load(&format!("philosophers:{count}")).unwrap();
        assert_eq!(Packing::wide(&philosophers(13), &[1, 4, 8]).unwrap().words(), 4);
        assert_eq!(Packing::wide(&philosophers(5), &[2, 3]).unwrap().words(), 2);
        let error = Packing::wide(&Net::load("philosophers:100").unwrap(), &[1, 2, 7]).unwrap_err();
        assert_eq!((error.needed_bits, error.available), (500, 448));
        assert!(error.to_string().contains("at least 500 bits, and 448 fit"), "{error}");
    }

    /// Places that were never seen marked have a bit, and the last word keeps bits for an origin.
    #[test]
    fn distributes_spare_bits_per_word() {
        let net = net(
            &[1 << 40, 1 << 40, 0],
            &[(&[], &[(0, 1)]), (&[(0, 1)], &[(1, 1)]), (&[(1, 1 << 41)], &[(2, 1)])],
        );
        let packing = Packing::probed(&net, &SIZES, BLIND).unwrap();
        assert_eq!(packing.words(), 2);
        // p0 and p2 share a word of 64 bits, p1 has one of 54.
        let widths = widths(&packing);
        assert_eq!(widths[0] + widths[2], 64);
        assert!(widths[2] >= 1, "{widths:?}");
        assert_eq!(widths[1], 54);
    }

    proptest! {
        #[test]
        fn packed_markings_unpack(
            (widths, max_words) in prop_oneof![
                (naive::widths(), Just(1)),
                (vec(prop_oneof![0_u32..=4, 0..=STATE_BITS], 1..40), Just(40)),
            ],
            words in vec(any::<u64>(), 40),
        ) {
            let packing = Packing::from_wide_widths(&widths, max_words);
            let fields = packing.fields();
            let fitting = fields.iter().zip(&words).map(|(field, &word)| word & field.max());
            let fitting: Vec<u64> = fitting.collect();
            let state = packing.pack::<40>(&fitting).unwrap();
            prop_assert!(packing.unpack(&state).eq(fitting.iter().copied()));
            let all = fields.iter().map(|field| field.max()).collect::<Vec<_>>();
            let state = packing.pack::<40>(&all).unwrap();
            // Fields do not overlap, and the bits above the last one are 0.
            let ones: u32 = state.iter().map(|word| word.count_ones()).sum();
            prop_assert_eq!(ones, packing.bits());
            let last = state[packing.words() - 1];
            prop_assert_eq!(last.checked_shr(packing.last_bits()).unwrap_or(0), 0);
            prop_assert!(packing.words() == 1 || packing.bits() > STATE_BITS);
            prop_assert!(max_words > 1 || packing.last_bits() <= STATE_BITS);
        }

        /// Starting from the initial marking alone and growing on each overflow gives a layout of
        /// all reachable markings, or fails because they need too many bits.
        #[test]
        fn layouts_grow_until_they_fit(net in nets(), in_one_word in any::<bool>()) {
            let naive = markings(&net, 200);
            let needed: Vec<u32> = largest(&net, 200).into_iter().map(layout::bits_of).collect();
            let sizes = if in_one_word { &SIZES[..1] } else { &SIZES };
            let mut packing = Packing::probed(&net, sizes, BLIND);
            for _ in 0..=6 * STATE_BITS {
                let Ok(layout) = &packing else { break };
                match naive.iter().find_map(|marking| layout.pack::<8>(marking).err()) {
                    Some(overflow) => packing = layout.grown(&net, overflow),
                    None => break,
                }
            }
            let all = needed.iter().map(|&bits| u64::from(bits)).sum::<u64>();
            match packing {
                Ok(layout) => {
                    prop_assert!(!in_one_word || all <= u64::from(STATE_BITS));
                    for marking in &naive {
                        prop_assert!(layout.pack::<8>(marking).is_ok());
                    }
                }
                Err(error) if in_one_word => {
                    prop_assert!(error.needed_bits <= all && all > u64::from(STATE_BITS));
                }
                Err(_) => prop_assert!(needed.iter().any(|&bits| bits > STATE_BITS)),
            }
        }
    }
}
