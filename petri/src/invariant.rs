//! Linear inequalities over the places of a net, which a search checks in every state.
//!
//! `2 * p1 + p2 <= q - 1` has terms on both sides of one relation. A term is a number, a place, or a
//! number and a place. A place is given by its identifier, or by its name if no other place has it.

mod error;
mod near;
mod parser;

use core::fmt;

pub use self::error::{InvariantError, InvariantFault};
use self::parser::Parser;
use crate::{Net, Packing};

/// The largest number of an inequality. The products of such numbers and tokens, summed over 2^24
/// terms, fit an `i128`.
pub const MAX_NUMBER: u64 = 1 << 40;

/// A linear inequality over the tokens of places.
///
/// ```
/// use probeline_petri::{Invariant, Net};
///
/// let net = Net::load("kanban:5")?;
/// let invariant = Invariant::parse("ticket_1 + work_1 <= 5", &net)?;
/// assert!(invariant.holds(|place| net.places()[place].initial));
///
/// let error = Invariant::parse("ticket_1 + wrok_1 <= 5", &net).unwrap_err();
/// assert!(error.to_string().contains("work_1"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariant {
    text: String,
    /// Indices of places with their coefficients; their sum stands to the left of the relation.
    terms: Vec<(usize, i64)>,
    relation: Relation,
    right: i128,
}

/// How the left side of an inequality compares with the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    Equal,
    NotEqual,
    AtLeast,
    Greater,
}

impl Invariant {
    /// Parses an inequality over the places of `net`, such as `2 * p1 + p2 <= 3`. The relation is
    /// `<=`, `>=`, `==`, `!=`, `<` or `>`. Identifiers that begin with a digit or have other
    /// characters than letters, digits, `_` and `.` stand in double quotes.
    ///
    /// # Errors
    /// [`InvariantError`] with the position and what to do.
    pub fn parse(text: &str, net: &Net) -> Result<Self, InvariantError> {
        Parser::new(text, net).inequality()
    }

    /// Encodes the places, factors, relation and number as numbers, but not the names.
    ///
    /// Processes that parse the same text with nets of the same [`encoding`](Net::encoding) compare
    /// a hash of these numbers to check that the names refer to the same places.
    pub fn encoding(&self) -> Vec<u64> {
        let terms = self.terms.iter();
        let terms = terms.flat_map(|&(place, factor)| [place as u64, factor.cast_unsigned()]);
        let right = self.right.cast_unsigned();
        // The two halves of a number of 128 bits.
        #[allow(clippy::cast_possible_truncation)]
        let right = [right as u64, (right >> 64) as u64];
        let relation = self.relation as u64;
        [self.terms.len() as u64].into_iter().chain(terms).chain([relation]).chain(right).collect()
    }

    /// Returns whether the inequality holds in a marking; `tokens` returns the tokens of a place.
    #[inline]
    pub fn holds(&self, tokens: impl Fn(usize) -> u64) -> bool {
        let product =
            |&(place, factor): &(usize, i64)| i128::from(factor) * i128::from(tokens(place));
        let left: i128 = self.terms.iter().map(product).sum();
        match self.relation {
            Relation::Less => left < self.right,
            Relation::AtMost => left <= self.right,
            Relation::Equal => left == self.right,
            Relation::NotEqual => left != self.right,
            Relation::AtLeast => left >= self.right,
            Relation::Greater => left > self.right,
        }
    }

    /// Returns whether the inequality holds in a state of `packing`, which belongs to the same net.
    ///
    /// # Panics
    /// If `state` has fewer words than the packing.
    #[inline]
    pub fn holds_in(&self, packing: &Packing, state: &[u64]) -> bool {
        self.holds(|place| packing.tokens(place, state))
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
