//! The distribution of elements over the owners.

use probeline_transport::{LINE_WORDS, Owner, RemoteWord, Segment, Sizes, Transport};

use crate::collective::Parameter;
use crate::error::{ConfigError, Error};

/// The most elements of a structure, so that products and quotients of their numbers are exact.
const MAX_ELEMENTS: u64 = 1 << 48;

/// Returns the first word of a line from `word` on.
#[must_use]
pub fn next_line(word: u64) -> u64 {
    word.checked_next_multiple_of(LINE_WORDS.into()).unwrap_or(u64::MAX)
}

/// The owner of each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Consecutive elements on each owner, as many on all but the last ones.
    #[default]
    Block = 0,
    /// Element `i` on owner `i` modulo the number of owners.
    Cyclic = 1,
}

/// The places of `len` elements of some words each in the windows of all owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    len: u64,
    first_word: u64,
    /// Words of an element.
    words: u32,
    owners: u32,
    distribution: Distribution,
    divisor: Divisor,
}

impl Placement {
    /// Returns the placement of `len` elements, at least 1, of `words` words each in windows of which
    /// the first `first_word` words are not used.
    pub fn new(
        len: u64,
        words: u32,
        first_word: u64,
        distribution: Distribution,
        owners: u32,
    ) -> Self {
        let part = len.div_ceil(u64::from(owners).max(1));
        let divisor = Divisor::new(match distribution {
            Distribution::Block => part,
            Distribution::Cyclic => owners.into(),
        });
        Self { len, first_word, words, owners, distribution, divisor }
    }

    /// Checks the number of elements, that windows have room for them, and that slots and operations have room
    /// for the words that an operation needs.
    ///
    /// # Errors
    /// [`ConfigError`]: the reason.
    pub fn check(&self, transport: &impl Transport, slot_words: u32) -> Result<(), ConfigError> {
        ConfigError::check_range("the number of elements", self.len, 1, MAX_ELEMENTS)?;
        let end = self.part_words().saturating_add(self.first_word);
        ConfigError::check_engine(transport, end, slot_words)
    }

    /// Returns the sizes of an engine for these elements, with slots of `slot_words` words, rounded up to lines, for
    /// this many operations in flight.
    #[must_use]
    pub fn sizes(&self, slot_words: u32, operations: u32) -> Sizes {
        Sizes {
            window_words: self.first_word.saturating_add(self.part_words()),
            slots: operations,
            slot_words: slot_words.checked_next_multiple_of(LINE_WORDS).unwrap_or(u32::MAX),
            depth: operations,
        }
    }

    /// Returns what all owners must have in common.
    pub fn parameters(&self) -> [Parameter; 3] {
        [
            ("number of elements", self.len),
            ("distribution (0 block, 1 cyclic)", self.distribution as u64),
            ("first_word", self.first_word),
        ]
    }

    /// Returns the number of elements.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is at least 1")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the words of an element.
    #[inline]
    #[must_use]
    pub fn words(&self) -> u32 {
        self.words
    }

    /// Returns the first word of each owner's part.
    #[must_use]
    pub fn first_word(&self) -> u64 {
        self.first_word
    }

    /// Returns the distribution.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// Returns the words of an owner's part, which is the same for all.
    #[must_use]
    pub fn part_words(&self) -> u64 {
        self.len.div_ceil(u64::from(self.owners).max(1)).saturating_mul(self.words.into())
    }

    /// Returns the owner of an element and the element's number in the owner's part; `None` beyond the
    /// last element.
    #[inline(always)]
    #[must_use]
    pub fn locate(&self, index: u64) -> Option<(Owner, u64)> {
        self.locate_as(self.distribution, index)
    }

    /// Locates as [`locate`](Self::locate), for the distribution of this placement, which is a constant of the
    /// caller's loop.
    #[inline(always)]
    pub fn locate_as(&self, distribution: Distribution, index: u64) -> Option<(Owner, u64)> {
        if index >= self.len {
            return None;
        }
        let (quotient, rest) = self.divisor.divide(index);
        let (owner, nth) = match distribution {
            Distribution::Block => (quotient, rest),
            Distribution::Cyclic => (rest, quotient),
        };
        // Less than the number of owners.
        #[allow(clippy::cast_possible_truncation)]
        Some((Owner(owner as u32), nth))
    }

    /// Returns the words of an element.
    #[inline(always)]
    #[must_use]
    pub fn segment(&self, index: u64) -> Option<Segment> {
        let (owner, nth) = self.locate(index)?;
        let start = RemoteWord { owner, index: self.first_word + nth * u64::from(self.words) };
        Some(Segment { start, words: self.words })
    }

    /// Returns the [`segment`](Self::segment) of an element, or the error of one beyond the last.
    ///
    /// # Errors
    /// [`Error::Index`] beyond the last element.
    #[inline(always)]
    pub fn element(&self, index: u64) -> Result<Segment, Error> {
        self.segment(index).ok_or(Error::Index { index })
    }

    /// Returns the index of the element that begins at a word.
    #[must_use]
    pub fn index(&self, at: RemoteWord) -> Option<u64> {
        let offset = at.index.checked_sub(self.first_word)?;
        let nth = offset.checked_div(self.words.into())?;
        let is_first = nth * u64::from(self.words) == offset;
        if is_first && at.owner.0 < self.owners { self.index_in(at.owner, nth) } else { None }
    }

    /// Returns the index of the first element of an owner, of a placement by blocks; of an owner that does not
    /// exist, an index beyond the last one.
    #[inline]
    #[must_use]
    pub fn first_of(&self, owner: Owner) -> u64 {
        u64::from(owner.0).saturating_mul(self.divisor.by)
    }

    /// Returns the error of an owner that the job does not have.
    #[must_use]
    pub fn missing(&self, owner: Owner) -> Error {
        Error::UnknownOwner { owner: owner.0, owners: self.owners }
    }

    /// Returns the index of the element with this number in an owner's part.
    fn index_in(&self, owner: Owner, nth: u64) -> Option<u64> {
        let owner = u64::from(owner.0);
        let index = match self.distribution {
            Distribution::Block if nth < self.divisor.by => owner * self.divisor.by + nth,
            Distribution::Block => return None,
            Distribution::Cyclic => nth.checked_mul(self.divisor.by)?.checked_add(owner)?,
        };
        (index < self.len).then_some(index)
    }

    /// Returns the number of elements of an owner.
    #[must_use]
    pub fn count(&self, owner: Owner) -> u64 {
        let owner = u64::from(owner.0);
        match self.distribution {
            Distribution::Block => {
                self.len.saturating_sub(owner * self.divisor.by).min(self.divisor.by)
            }
            Distribution::Cyclic => {
                let after = (self.len + self.divisor.by - 1).saturating_sub(owner);
                after.checked_div(self.divisor.by).unwrap_or(0)
            }
        }
    }

    /// Returns the first and the last element of an owner, if it has any.
    pub fn ends(&self, owner: Owner) -> [Option<Segment>; 2] {
        let last = self.count(owner).checked_sub(1);
        let element = |nth| self.segment(self.index_in(owner, nth)?);
        [last.and_then(|_| element(0)), last.and_then(element)]
    }

    /// Returns the indices of an owner's elements, in the order of their words.
    pub fn indices(&self, owner: Owner) -> impl Iterator<Item = u64> + use<> {
        let placement = *self;
        (0..self.count(owner)).filter_map(move |nth| placement.index_in(owner, nth))
    }
}

/// A divisor of numbers below [`MAX_ELEMENTS`], whose quotients take a multiplication instead of a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Divisor {
    by: u64,
    /// `MAX_ELEMENTS` * 2^`shift` / `by`, rounded up.
    reciprocal: u64,
    /// `by` is at most 2^`shift` and more than half of it.
    shift: u32,
}

impl Divisor {
    /// Divides by a number; by 1 instead of 0, by `MAX_ELEMENTS` instead of more.
    fn new(by: u64) -> Self {
        let by = by.clamp(1, MAX_ELEMENTS);
        let shift = by.next_power_of_two().trailing_zeros();
        let scaled = u128::from(MAX_ELEMENTS) << shift;
        // At most 2 * MAX_ELEMENTS.
        let reciprocal = u64::try_from(scaled.div_ceil(by.into())).unwrap_or(u64::MAX);
        Self { by, reciprocal, shift }
    }

    /// Returns the quotient and the rest of a number below `MAX_ELEMENTS`. The quotient is exact: rounding adds less
    /// than 1 to the reciprocal, so less than 2^-`shift`, which is at most 1 / `by`, to the quotient.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the product is less than 2^128")]
    fn divide(self, number: u64) -> (u64, u64) {
        const UNUSED_BITS: u32 = MAX_ELEMENTS.leading_zeros() + 1;
        debug_assert!(number < MAX_ELEMENTS, "{number} is divided by {}", self.by);
        let scaled = u128::from(number << UNUSED_BITS) * u128::from(self.reciprocal);
        let quotient = (scaled >> u64::BITS) as u64 >> self.shift;
        (quotient, number.wrapping_sub(quotient.wrapping_mul(self.by)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Numbers beside multiples of the divisor show a reciprocal that is wrong by 1.
        #[test]
        fn divides(
            by in prop_oneof![1..100_u64, 1..=MAX_ELEMENTS, (0..=48_u32).prop_map(|bits| 1 << bits)],
            step in -1..=1_i64,
            multiple: u64,
            rest in prop_oneof![Just(0_u64), Just(1), Just(u64::MAX), any::<u64>()],
        ) {
            let by = by.saturating_add_signed(step).clamp(1, MAX_ELEMENTS);
            let number = multiple % MAX_ELEMENTS / by * by + rest.min(by - 1);
            let number = number.min(MAX_ELEMENTS - 1);
            prop_assert_eq!(Divisor::new(by).divide(number), (number / by, number % by));
        }

        /// Each element has one place, and each owner's part has its elements in order.
        #[test]
        fn places_each_element_once(
            len in 1..200_u64,
            words in 1..4_u32,
            first_word in 0..9_u64,
            owners in 1..9_u32,
            is_cyclic: bool,
        ) {
            let distribution = if is_cyclic { Distribution::Cyclic } else { Distribution::Block };
            let placement = Placement::new(len, words, first_word, distribution, owners);
            let mut seen = Vec::new();
            for owner in (0..owners).map(Owner) {
                let indices: Vec<u64> = placement.indices(owner).collect();
                prop_assert_eq!(indices.len() as u64, placement.count(owner));
                for (nth, &index) in (0..).zip(&indices) {
                    prop_assert_eq!(placement.locate(index), Some((owner, nth)));
                    let segment = placement.segment(index).unwrap();
                    let end = segment.start.index + u64::from(words);
                    prop_assert!(end <= first_word + placement.part_words());
                    prop_assert_eq!(placement.index(segment.start), Some(index));
                }
                seen.extend(indices);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..len).collect::<Vec<_>>());
            prop_assert_eq!(placement.locate(len), None);
        }
    }
}
