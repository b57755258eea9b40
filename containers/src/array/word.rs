//! Elements of one word, on which atomics act.

use probeline_pipeline::Plain;

/// An element of one word: its order, and its conversion to the word of an atomic.
pub trait Word: Plain {
    /// The order of the type's values.
    const ORDER: Order;

    /// Returns the value of a word.
    #[inline(always)]
    #[must_use]
    fn from_word(word: u64) -> Self {
        Self::from_bytes(&word.to_ne_bytes())
    }

    /// Returns the word of the value.
    #[inline(always)]
    #[must_use]
    fn to_word(self) -> u64 {
        self.bytes().first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }
}

/// A word whose sum is that of a fetch-and-add.
pub trait Add: Word {}

/// The order of the values that words have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// `u64`.
    Unsigned,
    /// `i64`.
    Signed,
    /// `f64`, as [`f64::total_cmp`] orders them.
    Float,
}

const SIGN: u64 = 1 << 63;

impl Order {
    /// Returns the place of a word in the order, as a number.
    #[inline(always)]
    pub(crate) fn rank(self, word: u64) -> u64 {
        match self {
            Self::Float if word & SIGN != 0 => !word,
            Self::Float | Self::Signed => word ^ SIGN,
            Self::Unsigned => word,
        }
    }

    /// Returns the word at this place in the order.
    pub(crate) fn word_of(self, rank: u64) -> u64 {
        match self {
            Self::Float if rank & SIGN == 0 => !rank,
            Self::Float | Self::Signed => rank ^ SIGN,
            Self::Unsigned => rank,
        }
    }
}

impl Word for u64 {
    const ORDER: Order = Order::Unsigned;
}

impl Add for u64 {}

impl Word for i64 {
    const ORDER: Order = Order::Signed;
}

impl Add for i64 {}

impl Word for f64 {
    const ORDER: Order = Order::Float;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_keep_order(one: u64, other: u64) {
            let (signed, float) = ([one as i64, other as i64], [one, other].map(f64::from_bits));
            let rank = |order: Order| order.rank(one).cmp(&order.rank(other));
            prop_assert_eq!(rank(Order::Unsigned), one.cmp(&other));
            prop_assert_eq!(rank(Order::Signed), signed[0].cmp(&signed[1]));
            prop_assert_eq!(rank(Order::Float), float[0].total_cmp(&float[1]));
            for order in [Order::Unsigned, Order::Signed, Order::Float] {
                prop_assert_eq!(order.word_of(order.rank(one)), one);
            }
        }
    }
}
