//! The layout of a marking in a word: one bit field for each place.
//!
//! The widths come from a sample of the state space and from proven bounds. If the sample was too
//! small, firing a transition overflows a field later, and [`Packing::grown`] gives a wider layout.

use core::cmp::Reverse;

use crate::bounds::upper_bounds;
use crate::probe::{Budget, probe};
use crate::{Net, Overflow};

/// Bits of a packed state; the top bit of the word stays 0.
pub const STATE_BITS: u32 = 63;

/// Maximum number of places that an error lists.
const MAX_LISTED: usize = 8;

/// The bits of a packed state that hold one place's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// Index of the lowest bit: below [`STATE_BITS`], or at most that if the field has no bits.
    pub(crate) shift: u32,
    /// The width; 0 for a place that never held a token.
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

    /// Returns the field's tokens in `state`.
    pub(crate) fn tokens(self, state: u64) -> u64 {
        (state >> self.shift) & self.max()
    }
}

/// The layout of a net's markings in packed states.
///
/// Processes that pack the same net, and grow the layout by the same overflows, have the same
/// layout. Equal markings have equal states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    fields: Vec<Field>,
    /// The largest token count seen in each place.
    seen: Vec<u64>,
    /// An upper bound on each place's tokens, if one is known.
    bounds: Vec<Option<u64>>,
}

impl Packing {
    /// Chooses the widths of a net's places. Takes at most about 0.3 s in a release build.
    ///
    /// # Errors
    /// [`PackingError`] if the markings seen need more than [`STATE_BITS`].
    pub fn new(net: &Net) -> Result<Self, PackingError> {
        Self::probed(net, Budget::default())
    }

    fn probed(net: &Net, budget: Budget) -> Result<Self, PackingError> {
        let seen = probe(net, budget);
        let bounds = match seen.complete {
            true => seen.max.iter().copied().map(Some).collect(),
            false => upper_bounds(net),
        };
        Self::fit(net, seen.max, bounds)
    }

    /// Returns a layout that also holds the marking that overflowed this one.
    ///
    /// Each overflow shows that a place needs one more bit. After at most [`STATE_BITS`] calls,
    /// each with an overflow of the previous result, the layout therefore holds all reachable
    /// markings, or the call fails.
    ///
    /// # Errors
    /// [`PackingError`] if the markings seen so far need more than [`STATE_BITS`].
    pub fn grown(&self, net: &Net, overflow: Overflow) -> Result<Self, PackingError> {
        let mut seen = self.seen.clone();
        if let Some(seen) = seen.get_mut(overflow.place) {
            *seen = overflow.tokens.max(*seen);
        }
        Self::fit(net, seen, self.bounds.clone())
    }

    /// Gives each place the bits that the markings seen need, then distributes the remaining bits.
    fn fit(net: &Net, seen: Vec<u64>, bounds: Vec<Option<u64>>) -> Result<Self, PackingError> {
        let mut widths: Vec<u32> = seen.iter().map(|&tokens| bits_of(tokens)).collect();
        let needed: u64 = widths.iter().copied().map(u64::from).sum();
        let spare = match u32::try_from(needed) {
            Ok(needed) if needed <= STATE_BITS => STATE_BITS - needed,
            _ => return Err(PackingError::new(net, needed, &widths)),
        };
        for _ in 0..spare {
            let Some(place) = fullest(net, &seen, &bounds, &widths) else { break };
            widths[place] += 1;
        }
        Ok(Self { fields: lay_out(&widths), seen, bounds })
    }

    /// Creates a layout of exactly these widths, at most [`STATE_BITS`] together.
    #[cfg(test)]
    pub(crate) fn of_widths(widths: &[u32]) -> Self {
        let seen: Vec<u64> = widths.iter().map(|&bits| Field { shift: 0, bits }.max()).collect();
        Self { fields: lay_out(widths), bounds: seen.iter().copied().map(Some).collect(), seen }
    }

    /// Packs a marking, one token count for each place. The top bit of the state is 0.
    ///
    /// # Errors
    /// [`Overflow`] with the first place whose field is too narrow.
    pub fn pack(&self, marking: &[u64]) -> Result<u64, Overflow> {
        let mut state = 0;
        for (place, (field, &tokens)) in self.fields.iter().zip(marking).enumerate() {
            if tokens > field.max() {
                return Err(Overflow { place, tokens });
            }
            state |= tokens << field.shift;
        }
        Ok(state)
    }

    /// Returns the marking of a packed state: the tokens of each place, in the net's order.
    pub fn unpack(&self, state: u64) -> impl Iterator<Item = u64> {
        self.fields.iter().map(move |field| field.tokens(state))
    }

    /// Returns the layout and its growth state as numbers. Processes compare a hash of these
    /// numbers to check that they pack states in the same way.
    pub fn encoding(&self) -> Vec<u64> {
        let mut numbers = vec![self.fields.len() as u64];
        for ((field, &seen), bound) in self.fields.iter().zip(&self.seen).zip(&self.bounds) {
            let bound = [bound.is_some().into(), bound.unwrap_or(0)];
            numbers.extend([field.shift.into(), field.bits.into(), seen]);
            numbers.extend(bound);
        }
        numbers
    }

    /// Returns the number of bits that the fields use, at most [`STATE_BITS`].
    pub fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum()
    }

    /// Returns the fields of the places.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// Lays out fields of these widths side by side, from the lowest bit up.
fn lay_out(widths: &[u32]) -> Vec<Field> {
    let mut shift = 0;
    let fields = widths.iter().map(|&bits| {
        let field = Field { shift, bits };
        shift += bits;
        field
    });
    fields.collect()
}

/// Returns the width of a field that holds this count; 0 for no tokens.
fn bits_of(tokens: u64) -> u32 {
    u64::BITS - tokens.leading_zeros()
}

/// Returns the place whose field is fullest among those that may have to hold more tokens. Of
/// equally full fields it is the one with the largest gain since the initial marking. `None` if
/// every field holds its place's bound.
fn fullest(net: &Net, seen: &[u64], bounds: &[Option<u64>], widths: &[u32]) -> Option<usize> {
    let open = (0..widths.len())
        .filter(|&place| bounds[place].is_none_or(|bound| widths[place] < bits_of(bound)));
    open.max_by_key(|&place| {
        // (seen + 1) / 2^width as a fixed-point number, at most 2^63.
        let fullness = (u128::from(seen[place]) + 1) << (STATE_BITS - widths[place]);
        let gain = seen[place].saturating_sub(net.places()[place].initial);
        // Of equal places, the first one.
        (fullness, gain, Reverse(place))
    })
}

/// The error of a net whose markings do not fit [`STATE_BITS`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a state needs at least {needed_bits} bits, and {STATE_BITS} fit a packed state; take a \
     smaller instance of the model (a net without a bound on its tokens has none); the widest \
     places are {}",
    .widest.iter().map(|(place, bits)| format!("{place} ({bits})")).collect::<Vec<_>>().join(", ")
)]
pub struct PackingError {
    /// Bits that the markings seen so far need.
    pub needed_bits: u64,
    /// The widest places, at most 8, and their bits.
    pub widest: Vec<(String, u32)>,
}

impl PackingError {
    fn new(net: &Net, needed_bits: u64, widths: &[u32]) -> Self {
        let mut widest: Vec<_> = net.places().iter().zip(widths.iter().copied()).collect();
        // The sort is stable: places of equal width stay in the model's order.
        widest.sort_by_key(|&(_, bits)| Reverse(bits));
        let widest = widest.into_iter().take(MAX_LISTED);
        let widest = widest.map(|(place, bits)| (place.to_string(), bits)).collect();
        Self { needed_bits, widest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::naive::{self, explore, net, nets};
    use crate::{FiringRule, MAX_TOKENS};

    /// A sample of only the initial marking, so that fields have to grow.
    const BLIND: Budget = Budget { states: 1, search_work: 0, walks: 0, steps: 0, walk_work: 0 };

    fn widths(packing: &Packing) -> Vec<u32> {
        packing.fields().iter().map(|field| field.bits).collect()
    }

    #[test]
    fn the_encoding_covers_the_layout() {
        let [one, same, other] = [&[2, 0, 1], &[2, 0, 1], &[0, 2, 1]]
            .map(|widths| Packing::of_widths(widths).encoding());
        assert_eq!(one, same);
        assert_ne!(one, other);
    }

    #[test]
    fn a_small_state_space_gets_exact_widths() {
        let net = net(&[5, 0, 0], &[(&[(0, 1)], &[(1, 1)])]);
        assert_eq!(widths(&Packing::new(&net).unwrap()), [3, 3, 0]);
    }

    #[test]
    fn proven_bounds_give_exact_widths_too() {
        // Ten tokens in a ring of ten places: 92,378 markings, more than the sample.
        let ring: Vec<_> = (0..10).map(|at| ([(at, 1)], [((at + 1) % 10, 1)])).collect();
        let ends: Vec<_> = ring.iter().map(|(from, to)| (&from[..], &to[..])).collect();
        let net = net(&[10, 0, 0, 0, 0, 0, 0, 0, 0, 0], &ends);
        assert_eq!(widths(&Packing::new(&net).unwrap()), [4; 10]);
    }

    #[test]
    fn spare_bits_go_to_places_that_may_gain_tokens() {
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
    fn spare_bits_go_to_the_fullest_first() {
        // 7 tokens fill 3 bits, 4 tokens do not; 56 bits are taken by a place that never grows.
        let net = net(&[7, 4, (1 << 56) - 1], &[(&[], &[(0, 1), (1, 1)])]);
        assert_eq!(widths(&Packing::probed(&net, BLIND).unwrap()), [4, 3, 56]);
    }

    #[test]
    fn errors_name_the_widest_places() {
        let net = net(&[1 << 40, 3, 1 << 30], &[]);
        let error = Packing::new(&net).unwrap_err();
        assert_eq!(error.needed_bits, 74);
        assert_eq!(error.widest, [("p0".into(), 41), ("p2".into(), 31), ("p1".into(), 2)]);
        let message = error.to_string();
        assert!(message.contains("at least 74 bits, and 63 fit"), "{message}");
        assert!(message.ends_with("p0 (41), p2 (31), p1 (2)"), "{message}");
    }

    #[test]
    fn a_count_of_2_to_62_fits_alone() {
        let net = net(&[MAX_TOKENS, 0], &[]);
        let packing = Packing::new(&net).unwrap();
        assert_eq!(widths(&packing), [63, 0]);
        let state = packing.pack(&net.initial()).unwrap();
        assert!(packing.unpack(state).eq([MAX_TOKENS, 0]));
    }

    #[test]
    fn a_count_of_2_to_63_does_not_fit() {
        let net = net(&[MAX_TOKENS], &[(&[], &[(0, MAX_TOKENS)])]);
        assert_eq!(Packing::new(&net).unwrap_err().needed_bits, 64);
        let packing = Packing::probed(&net, BLIND).unwrap();
        let grown = packing.grown(&net, Overflow { place: 0, tokens: 1 << 63 });
        assert_eq!(grown.unwrap_err().needed_bits, 64);
    }

    #[test]
    fn rejects_markings_that_do_not_fit() {
        let packing = Packing::of_widths(&[2, 0, 1]);
        assert_eq!(packing.pack(&[3, 0, 1]), Ok(0b111));
        assert_eq!(packing.pack(&[4, 0, 1]), Err(Overflow { place: 0, tokens: 4 }));
        assert_eq!(packing.pack(&[3, 1, 1]), Err(Overflow { place: 1, tokens: 1 }));
    }

    proptest! {
        #[test]
        fn packed_markings_unpack(widths in naive::widths(), words in vec(any::<u64>(), 8)) {
            let packing = Packing::of_widths(&widths);
            let fitting: Vec<u64> = packing
                .fields()
                .iter()
                .zip(&words)
                .map(|(field, &word)| word & field.max())
                .collect();
            let state = packing.pack(&fitting).unwrap();
            prop_assert!(state >> STATE_BITS == 0);
            prop_assert!(packing.unpack(state).eq(fitting.iter().copied()));
        }

        #[test]
        fn states_and_markings_correspond_one_to_one(widths in naive::widths(), word in any::<u64>()) {
            let packing = Packing::of_widths(&widths);
            let used: u32 = widths.iter().sum();
            let state = word & (Field { shift: 0, bits: used }).max();
            let marking: Vec<u64> = packing.unpack(state).collect();
            prop_assert_eq!(packing.pack(&marking), Ok(state));
        }

        /// Starting from the initial marking alone and growing on each overflow gives a layout of
        /// all reachable markings, or fails because they need too many bits.
        #[test]
        fn widths_grow_until_they_fit(net in nets()) {
            let (naive, _) = explore(&net, 200);
            let largest = (0..net.places().len())
                .map(|place| naive.iter().map(|marking| marking[place]).max().unwrap());
            let needed: u64 = largest.map(|most| u64::from(bits_of(most))).sum();
            let mut packing = Packing::probed(&net, BLIND);
            for _ in 0..=STATE_BITS {
                let Ok(layout) = &packing else { break };
                match naive.iter().find_map(|marking| layout.pack(marking).err()) {
                    Some(overflow) => packing = layout.grown(&net, overflow),
                    None => break,
                }
            }
            match packing {
                Ok(layout) => {
                    prop_assert!(needed <= u64::from(STATE_BITS));
                    for marking in &naive {
                        prop_assert!(layout.pack(marking).is_ok());
                    }
                }
                Err(error) => prop_assert!(error.needed_bits <= needed && needed > 63),
            }
        }

        #[test]
        fn fields_never_overlap_nor_exceed_a_bound(net in nets()) {
            let packing = Packing::probed(&net, BLIND);
            prop_assume!(packing.is_ok());
            let packing = packing.unwrap();
            let mut used = 0_u64;
            for (field, bound) in packing.fields().iter().zip(&packing.bounds) {
                let bits = field.max() << field.shift;
                prop_assert_eq!(used & bits, 0);
                used |= bits;
                prop_assert!(bound.is_none_or(|bound| field.bits <= bits_of(bound)));
            }
            prop_assert_eq!(used >> STATE_BITS, 0);
        }

        /// The compiled rule detects every overflow, and layouts grown by its overflows suffice.
        #[test]
        fn firing_grows_the_widths_too(net in nets()) {
            let mut packing = Packing::probed(&net, BLIND);
            let mut restarts = 0;
            while let Ok(layout) = &packing {
                match first_overflow(&net, layout) {
                    Some(overflow) => packing = layout.grown(&net, overflow),
                    None => break,
                }
                restarts += 1;
                prop_assert!(restarts <= STATE_BITS);
            }
            let (naive, _) = explore(&net, 100);
            if let Ok(layout) = packing {
                for marking in naive {
                    prop_assert!(layout.pack(&marking).is_ok());
                }
            }
        }
    }

    /// Explores 100 states breadth-first, in the same order as the naive exploration.
    fn first_overflow(net: &Net, packing: &Packing) -> Option<Overflow> {
        let rule = FiringRule::new(net, packing);
        let mut queue = vec![packing.pack(&net.initial()).unwrap()];
        let mut next = 0;
        while let Some(&state) = queue.get(next) {
            next += 1;
            let fired = rule.successors(state, |_, after| {
                if queue.len() < 100 && !queue.contains(&after) {
                    queue.push(after);
                }
            });
            if let Err(overflow) = fired {
                return Some(overflow);
            }
        }
        None
    }
}
