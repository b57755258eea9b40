//! Linear inequalities over the places of a net, which a search checks in every state.
//!
//! `2 * p1 + p2 <= q - 1` has terms on both sides of one relation. A term is a number, a place, or a
//! number and a place. A place is given by its identifier, or by its name if no other place has it.

use core::cmp::Ordering;
use core::fmt;

use strsim::levenshtein;

use crate::petri::{Net, Packing};

/// The largest number of an inequality. The products of such numbers and tokens, summed over 2^24
/// terms, fit an `i128`.
pub const MAX_NUMBER: u64 = 1 << 40;

/// Maximum number of places that an error lists.
const MAX_LISTED: usize = 3;

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
    /// The orderings of the left side and the right one in which the inequality holds.
    relation: &'static [Ordering],
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
        let mut parser = Parser { text, net, at: 0, terms: Vec::new(), right: 0 };
        parser.inequality().map_err(|problem| InvariantError {
            text: text.to_owned(),
            position: 1 + text[..parser.at].chars().count(),
            problem,
        })
    }

    /// Returns whether the inequality holds in a marking; `tokens` returns the tokens of a place.
    #[inline]
    pub fn holds(&self, tokens: impl Fn(usize) -> u64) -> bool {
        let product =
            |&(place, factor): &(usize, i64)| i128::from(factor) * i128::from(tokens(place));
        let left: i128 = self.terms.iter().map(product).sum();
        self.relation.contains(&left.cmp(&self.right))
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
#[error("'{text}', character {position}: {problem}")]
pub struct InvariantError {
    /// The whole text.
    pub text: String,
    /// The number of the character at which the defect is, from 1.
    pub position: usize,
    /// The defect at that character, and what to do.
    pub problem: String,
}

/// Parses by recursive descent.
struct Parser<'a> {
    text: &'a str,
    net: &'a Net,
    /// Byte offset of the next character.
    at: usize,
    terms: Vec<(usize, i64)>,
    /// The sum of the numbers so far, with the signs of the right side.
    right: i128,
}

impl<'a> Parser<'a> {
    fn inequality(&mut self) -> Result<Invariant, String> {
        self.sum(1)?;
        let Some((_, relation)) = RELATIONS.into_iter().find(|(text, _)| self.take(text)) else {
            return self.expected(
                "'+', '-' or one of <=, >=, ==, !=, <, >",
                "an identifier of other characters than letters, digits, _ and . stands in double \
                 quotes",
            );
        };
        self.sum(-1)?;
        if !self.rest().is_empty() {
            return self.expected("the end, '+' or '-'", "give each inequality as one of its own");
        }
        if self.terms.is_empty() {
            self.at = 0;
            return Err("the inequality names no place; write, for example, 'p1 <= 1'".to_owned());
        }
        let (text, terms) = (self.text.trim().to_owned(), core::mem::take(&mut self.terms));
        Ok(Invariant { text, terms, relation, right: self.right })
    }

    /// Parses the left side, with a sign of 1, or the right side, with one of -1.
    fn sum(&mut self, side: i64) -> Result<(), String> {
        let mut sign = if self.take("-") { -side } else { side };
        loop {
            self.term(sign)?;
            sign = match (self.take("+"), self.take("-")) {
                (false, false) => return Ok(()),
                (_, true) => -side,
                _ => side,
            };
        }
    }

    fn term(&mut self, sign: i64) -> Result<(), String> {
        let number = self.number()?;
        let times = number.is_some() && self.take("*");
        // At most MAX_NUMBER, which is an i64.
        let signed = sign * number.unwrap_or(1).cast_signed();
        match self.place()? {
            Some(place) => self.terms.push((place, signed)),
            None if number.is_none() || times => {
                let advice = "write, for example, '2 * p1 + p2 <= 3'";
                return self.expected("a place or a number", advice);
            }
            None => self.right -= i128::from(signed),
        }
        Ok(())
    }

    /// Parses a number if one is next.
    fn number(&mut self) -> Result<Option<u64>, String> {
        let digits = self.leading(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Ok(None);
        }
        let number = digits.parse().ok().filter(|number| *number <= MAX_NUMBER);
        let number = number.ok_or_else(|| {
            format!("the number is larger than {MAX_NUMBER}; scale the inequality down")
        })?;
        self.at += digits.len();
        Ok(Some(number))
    }

    /// Parses a place if an identifier is next. Returns its index.
    fn place(&mut self) -> Result<Option<usize>, String> {
        let (name, length) = match self.rest().strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"');
                let end = end.ok_or("the quoted identifier has no end; add a double quote")?;
                (&quoted[..end], end + 2)
            }
            None => {
                let name = self.leading(in_identifier);
                (name, name.len())
            }
        };
        if length == 0 {
            return Ok(None);
        }
        let place = self.find(name)?;
        self.at += length;
        Ok(Some(place))
    }

    fn find(&self, name: &str) -> Result<usize, String> {
        let places = self.net.places();
        let listed = |all: &[usize]| {
            let ids = all.iter().take(MAX_LISTED).map(|&at| quoted(&places[at].id));
            ids.collect::<Vec<_>>().join(", ")
        };
        let named: Vec<usize> = (0..places.len()).filter(|&at| places[at].name == name).collect();
        match (places.iter().position(|place| place.id == name), &named[..]) {
            (Some(place), _) | (None, &[place]) => Ok(place),
            (None, []) => {
                let lower = name.to_lowercase();
                let mut near: Vec<usize> = (0..places.len()).collect();
                near.sort_by_cached_key(|&at| levenshtein(&lower, &places[at].id.to_lowercase()));
                Err(format!("the net has no place '{name}'; the nearest are {}", listed(&near)))
            }
            (None, all) => {
                let ids = listed(all);
                Err(format!("several places have the name '{name}'; write an identifier: {ids}"))
            }
        }
    }

    /// Returns the text from the next character on that is not white space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    /// Returns the next characters of which all are of a kind.
    fn leading(&mut self, is_of_kind: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c| !is_of_kind(c)).unwrap_or(rest.len())]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// Fails with what had to be next, and what is.
    fn expected<T>(&mut self, what: &str, advice: &str) -> Result<T, String> {
        let found = match (self.leading(in_identifier), self.rest().chars().next()) {
            (_, None) => "the end".to_owned(),
            ("", Some(first)) => format!("'{first}'"),
            (word, _) => format!("'{word}'"),
        };
        Err(format!("expected {what}, found {found}; {advice}"))
    }
}

/// Returns the identifier as an inequality writes it.
fn quoted(id: &str) -> String {
    let plain = id.chars().all(in_identifier) && !id.starts_with(|c: char| c.is_ascii_digit());
    if plain { id.to_owned() } else { format!("\"{id}\"") }
}

/// Returns whether an identifier with this character needs no quotes.
fn in_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

#[cfg(test)]
mod tests;
