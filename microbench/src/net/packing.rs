//! How a marking is laid out in one table entry: a bit field for each place.
//!
//! The widths come from a short look at the state space and from proven bounds. Where the look
//! was too short, firing overflows a field; the caller takes [`Packing::grown`] and starts again.
//! Every process of a job that does so with the same net and overflows has the same layout.

use core::error::Error;
use core::fmt;

use super::bounds::upper_bounds;
use super::probe::{Budget, probe};
use super::{Net, Overflow};
use crate::digest::{Digest, Digester};

/// Bits of data in a table entry; the 64th says that the entry is occupied.
pub(crate) const ENTRY_BITS: u32 = 63;

/// Places that an error lists.
const WIDEST_LISTED: usize = 8;

/// Where one place's tokens are in an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    /// The lowest bit, below [`ENTRY_BITS`] where the field has a bit at all, else at most that.
    pub(super) shift: u32,
    /// How many bits; 0 for a place that never held a token.
    pub(super) bits: u32,
}

impl Field {
    /// The most tokens the field holds.
    pub(super) fn most(self) -> u64 {
        u64::MAX.checked_shr(u64::BITS - self.bits).unwrap_or(0)
    }

    /// The field's tokens in `state`.
    pub(super) fn tokens(self, state: u64) -> u64 {
        (state >> self.shift) & self.most()
    }
}

/// The layout of markings in entries, a bit field for each place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    fields: Vec<Field>,
    /// The most tokens each place was seen to hold.
    most: Vec<u64>,
    /// The most tokens each place can ever hold, where that is known.
    bounds: Vec<Option<u64>>,
}

impl Packing {
    /// Finds the widths of a net's places. Takes at most about 0.3 s.
    ///
    /// # Errors
    /// [`PackingError`] where the markings seen need more than [`ENTRY_BITS`].
    pub(crate) fn new(net: &Net) -> Result<Self, PackingError> {
        Self::probed(net, Budget::default())
    }

    fn probed(net: &Net, budget: Budget) -> Result<Self, PackingError> {
        let seen = probe(net, budget);
        let bounds = match seen.complete {
            true => seen.most.iter().copied().map(Some).collect(),
            false => upper_bounds(net),
        };
        Self::fit(net, seen.most, bounds)
    }

    /// The layout that also holds what has overflowed this one. A chain of layouts, each grown by
    /// an overflow of the one before, ends after at most [`ENTRY_BITS`], since each overflow shows
    /// that some place needs a bit more than was known.
    ///
    /// # Errors
    /// [`PackingError`] where the markings seen by now need more than [`ENTRY_BITS`].
    pub(crate) fn grown(&self, net: &Net, overflow: Overflow) -> Result<Self, PackingError> {
        let mut most = self.most.clone();
        most[overflow.place] = overflow.tokens.max(most[overflow.place]);
        Self::fit(net, most, self.bounds.clone())
    }

    /// Gives each place the bits it was seen to need, and deals out those that are left.
    fn fit(net: &Net, most: Vec<u64>, bounds: Vec<Option<u64>>) -> Result<Self, PackingError> {
        let mut widths: Vec<u32> = most.iter().map(|&tokens| bits_of(tokens)).collect();
        let needed: u64 = widths.iter().copied().map(u64::from).sum();
        let spare = match u32::try_from(needed) {
            Ok(needed) if needed <= ENTRY_BITS => ENTRY_BITS - needed,
            _ => return Err(PackingError::new(net, needed, &widths)),
        };
        for _ in 0..spare {
            let Some(place) = fullest(net, &most, &bounds, &widths) else { break };
            widths[place] += 1;
        }
        Ok(Self { fields: lay_out(&widths), most, bounds })
    }

    /// A layout of exactly these widths, at most [`ENTRY_BITS`] together.
    #[cfg(test)]
    pub(super) fn of_widths(widths: &[u32]) -> Self {
        let most: Vec<u64> = widths.iter().map(|&bits| Field { shift: 0, bits }.most()).collect();
        Self { fields: lay_out(widths), bounds: most.iter().copied().map(Some).collect(), most }
    }

    /// Packs a marking, one count for each place.
    ///
    /// # Errors
    /// [`Overflow`] with the first place whose field is too narrow.
    pub(crate) fn pack(&self, marking: &[u64]) -> Result<u64, Overflow> {
        let mut state = 0;
        for (place, (field, &tokens)) in self.fields.iter().zip(marking).enumerate() {
            if tokens > field.most() {
                return Err(Overflow { place, tokens });
            }
            state |= tokens << field.shift;
        }
        Ok(state)
    }

    /// The marking in an entry: the tokens of each place, in order.
    #[cfg(test)]
    pub(crate) fn unpack(&self, state: u64) -> impl Iterator<Item = u64> {
        self.fields.iter().map(move |field| field.tokens(state))
    }

    /// The digest of the layout, and of all fields that it grows by.
    pub(crate) fn digest(&self) -> Digest {
        let mut digester = Digester::new("packing");
        digester.number(self.fields.len() as u64);
        for ((field, &most), bound) in self.fields.iter().zip(&self.most).zip(&self.bounds) {
            digester.number(field.shift.into());
            digester.number(field.bits.into());
            digester.number(most);
            digester.number(bound.is_some().into());
            digester.number(bound.unwrap_or(0));
        }
        digester.finish()
    }

    /// Bits of an entry that the fields take up, at most [`ENTRY_BITS`].
    pub(crate) fn bits(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum()
    }

    /// The fields, one for each place.
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// Fields of these widths side by side, from the lowest bit up.
fn lay_out(widths: &[u32]) -> Vec<Field> {
    let mut shift = 0;
    let fields = widths.iter().map(|&bits| {
        let field = Field { shift, bits };
        shift += bits;
        field
    });
    fields.collect()
}

/// Bits that a count takes; none for 0.
fn bits_of(tokens: u64) -> u32 {
    u64::BITS - tokens.leading_zeros()
}

/// The place whose field is fullest and may have to hold more, of equals the one that gained most
/// since the start; none if every field holds all that its place can.
fn fullest(net: &Net, most: &[u64], bounds: &[Option<u64>], widths: &[u32]) -> Option<usize> {
    let open = (0..widths.len()).filter(|&place| match bounds[place] {
        Some(bound) => widths[place] < bits_of(bound),
        None => true,
    });
    open.max_by_key(|&place| {
        // (most + 1) / 2^width as a fixed-point number, at most 2^63.
        let filled = u128::from(most[place]) + 1;
        let fullness = filled << (ENTRY_BITS - widths[place]);
        let gain = most[place].saturating_sub(net.places()[place].initial);
        // The place itself, so that of full equals the first one is taken.
        (fullness, gain, core::cmp::Reverse(place))
    })
}

/// The markings of a net do not fit a table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackingError {
    /// Bits that the markings seen so far need.
    pub(crate) needed_bits: u64,
    /// The places that need most of them, at most [`WIDEST_LISTED`], and how many bits each.
    pub(crate) widest: Vec<(String, u32)>,
}

impl PackingError {
    fn new(net: &Net, needed_bits: u64, widths: &[u32]) -> Self {
        let mut widest: Vec<_> = net.places().iter().zip(widths.iter().copied()).collect();
        // Stable, so that places of one width stay in the model's order.
        widest.sort_by_key(|&(_, bits)| core::cmp::Reverse(bits));
        let widest = widest.into_iter().take(WIDEST_LISTED);
        let widest = widest.map(|(place, bits)| (place.to_string(), bits)).collect();
        Self { needed_bits, widest }
    }
}

impl fmt::Display for PackingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed_bits;
        write!(f, "a state needs at least {needed} bits, and {ENTRY_BITS} fit a table entry; ")?;
        f.write_str(
            "take a smaller instance of the model (an unbounded net has none); \
             the widest places are ",
        )?;
        for (index, (place, bits)) in self.widest.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{place} ({bits})")?;
        }
        Ok(())
    }
}

impl Error for PackingError {}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::naive::{self, explore, net, nets};
    use super::super::{FiringRule, MAX_TOKENS};
    use super::*;

    /// Sees the initial marking and little else, so that fields have to grow.
    const BLIND: Budget = Budget { states: 1, search_work: 0, walks: 0, steps: 0, walk_work: 0 };

    fn widths(packing: &Packing) -> Vec<u32> {
        packing.fields().iter().map(|field| field.bits).collect()
    }

    #[test]
    fn the_digest_covers_the_layout() {
        let [one, same, other] =
            [&[2, 0, 1], &[2, 0, 1], &[0, 2, 1]].map(|widths| Packing::of_widths(widths).digest());
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
        // Ten tokens in a ring of ten places: 92,378 markings, more than are looked at.
        let ring: Vec<_> = (0..10).map(|at| ([(at, 1)], [((at + 1) % 10, 1)])).collect();
        let ends: Vec<_> = ring.iter().map(|(from, to)| (&from[..], &to[..])).collect();
        let net = net(&[10, 0, 0, 0, 0, 0, 0, 0, 0, 0], &ends);
        assert_eq!(widths(&Packing::new(&net).unwrap()), [4; 10]);
    }

    #[test]
    fn spare_bits_go_where_tokens_may_still_come() {
        // p0 only shrinks, p1 and p2 grow without end, p3 is still empty.
        let net = net(
            &[100, 0, 1, 0],
            &[(&[(0, 1)], &[]), (&[], &[(1, 1)]), (&[], &[(2, 1)]), (&[(1, 1 << 30)], &[(3, 1)])],
        );
        let widths = widths(&Packing::new(&net).unwrap());
        assert_eq!(widths[0], 7);
        assert!(widths[1] > 10 && widths[2] > 10 && widths[3] > 10, "{widths:?}");
        assert_eq!(widths.iter().sum::<u32>(), ENTRY_BITS);
    }

    #[test]
    fn spare_bits_go_to_the_fullest_first() {
        // 7 tokens fill 3 bits, 4 tokens do not; 56 bits are taken by a place that never grows.
        let net = net(&[7, 4, (1 << 56) - 1], &[(&[], &[(0, 1), (1, 1)])]);
        assert_eq!(widths(&Packing::probed(&net, BLIND).unwrap()), [4, 3, 56]);
    }

    #[test]
    fn says_how_many_bits_are_missing_and_where() {
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
    fn a_count_of_2_to_63_does_not() {
        let net = net(&[MAX_TOKENS], &[(&[], &[(0, MAX_TOKENS)])]);
        assert_eq!(Packing::new(&net).unwrap_err().needed_bits, 64);
        let packing = Packing::probed(&net, BLIND).unwrap();
        let grown = packing.grown(&net, Overflow { place: 0, tokens: 1 << 63 });
        assert_eq!(grown.unwrap_err().needed_bits, 64);
    }

    #[test]
    fn refuses_to_pack_what_does_not_fit() {
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
                .map(|(field, &word)| word & field.most())
                .collect();
            let state = packing.pack(&fitting).unwrap();
            prop_assert!(state >> ENTRY_BITS == 0);
            prop_assert!(packing.unpack(state).eq(fitting.iter().copied()));
        }

        #[test]
        fn every_entry_is_a_marking_of_its_own(widths in naive::widths(), word in any::<u64>()) {
            let packing = Packing::of_widths(&widths);
            let used: u32 = widths.iter().sum();
            let state = word & (Field { shift: 0, bits: used }).most();
            let marking: Vec<u64> = packing.unpack(state).collect();
            prop_assert_eq!(packing.pack(&marking), Ok(state));
        }

        /// Explores with a layout that knows only the initial marking, growing it on the way: it
        /// ends with all markings that the naive rule reaches, or with those that need too much.
        #[test]
        fn widths_grow_until_they_fit(net in nets()) {
            let (naive, _) = explore(&net, 200);
            let largest = (0..net.places().len())
                .map(|place| naive.iter().map(|marking| marking[place]).max().unwrap());
            let needed: u64 = largest.map(|most| u64::from(bits_of(most))).sum();
            let mut packing = Packing::probed(&net, BLIND);
            for _ in 0..=ENTRY_BITS {
                let Ok(layout) = &packing else { break };
                match naive.iter().find_map(|marking| layout.pack(marking).err()) {
                    Some(overflow) => packing = layout.grown(&net, overflow),
                    None => break,
                }
            }
            match packing {
                Ok(layout) => {
                    prop_assert!(needed <= u64::from(ENTRY_BITS));
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
                let bits = field.most() << field.shift;
                prop_assert_eq!(used & bits, 0);
                used |= bits;
                prop_assert!(bound.is_none_or(|bound| field.bits <= bits_of(bound)));
            }
            prop_assert_eq!(used >> ENTRY_BITS, 0);
        }

        /// The compiled rule finds every overflow on the way, and layouts grown by it suffice.
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
                prop_assert!(restarts <= ENTRY_BITS);
            }
            let (naive, _) = explore(&net, 100);
            if let Ok(layout) = packing {
                for marking in naive {
                    prop_assert!(layout.pack(&marking).is_ok());
                }
            }
        }
    }

    /// Explores 100 states breadth first, as the naive exploration does.
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
