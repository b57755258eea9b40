//! Linear inequalities over the places of a net, which a search checks in every state.
//!
//! `2 * p1 + p2 <= q - 1` has terms on both sides of one relation. A term is a number, a place, or a
//! number and a place. A place is given by its identifier, or by its name if no other place has it.

mod parser;

use core::cmp::Ordering;
use core::fmt;

use self::parser::Parser;
use crate::petri::{Net, Packing};

/// The largest number of an inequality. The products of such numbers and tokens, summed over 2^24
/// terms, fit an `i128`.
pub const MAX_NUMBER: u64 = 1 << 40;

/// A linear inequality over the tokens of places.
///
/// ```
/// use probeline_programs::petri::{Invariant, Net};
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
    /// The place of the comparison in [`RELATIONS`].
    relation: usize,
    right: i128,
}

/// The comparisons of the left side of an inequality with the right one: the text of each, the longer ones first, and
/// the orderings in which it holds.
const RELATIONS: [(&str, &[Ordering]); 6] = [
    ("<=", &[Ordering::Less, Ordering::Equal]),
    (">=", &[Ordering::Greater, Ordering::Equal]),
    ("==", &[Ordering::Equal]),
    ("!=", &[Ordering::Less, Ordering::Greater]),
    ("<", &[Ordering::Less]),
    (">", &[Ordering::Greater]),
];

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
        RELATIONS[self.relation].1.contains(&left.cmp(&self.right))
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

/// The text is not an inequality over the places of the net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}', character {position}: {fault}")]
pub struct InvariantError {
    /// The whole text.
    pub text: String,
    /// The number of the character at which the fault is, from 1.
    pub position: usize,
    /// The error at that character.
    pub fault: InvariantFault,
}

/// The error in the text of an inequality.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum InvariantFault {
    /// Something else stands where a term has to be.
    #[error("expected a place or a number, found {found}; write, for example, '2 * p1 + p2 <= 3'")]
    NoTerm { found: String },
    /// Something else stands where the sum continues or ends.
    #[error(
        "expected '+', '-' or one of <=, >=, ==, !=, <, >, found {found}; an identifier of other \
         characters than letters, digits, _ and . stands in double quotes"
    )]
    NoOperator { found: String },
    /// The inequality is complete, but the text is not.
    #[error("expected the end, '+' or '-', found {found}; give each inequality as one of its own")]
    NoEnd { found: String },
    /// `=` instead of `==`.
    #[error("'=' is not a comparison; write ==")]
    SingleEquals,
    /// No place has this identifier or name.
    #[error("the net has no place '{name}'{}", did_you_mean(near, some))]
    UnknownPlace { name: String, near: Vec<String>, some: Vec<String> },
    /// Several places have this name.
    #[error("several places have the name '{name}'; write an identifier: {}", ids.join(", "))]
    AmbiguousPlace { name: String, ids: Vec<String> },
    /// A number is too large.
    #[error("the number is larger than {MAX_NUMBER}; scale the inequality down")]
    LargeNumber,
    /// A quoted identifier does not end.
    #[error("the quoted identifier has no end; add a double quote")]
    OpenQuote,
    /// The inequality compares numbers only.
    #[error("the inequality names no place; write, for example, 'p1 + p2 <= 1'")]
    NoPlace,
}

fn did_you_mean(near: &[String], some: &[String]) -> String {
    match near {
        [] => format!("; identifiers are those of the model, such as {}", some.join(", ")),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests;
