//! Parses inequalities by recursive descent.

use super::{Invariant, InvariantError, InvariantFault as Fault, MAX_NUMBER, RELATIONS};
use crate::petri::{Net, Place};

/// Maximum number of names that are suggested.
const MAX_SUGGESTED: usize = 3;

pub(super) struct Parser<'a> {
    text: &'a str,
    net: &'a Net,
    /// Byte offset of the next character.
    at: usize,
    terms: Vec<(usize, i64)>,
    /// The sum of the numbers so far, with the signs of the right side.
    right: i128,
}

type Result<T> = core::result::Result<T, InvariantError>;

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, net: &'a Net) -> Self {
        Self { text, net, at: 0, terms: Vec::new(), right: 0 }
    }

    pub(super) fn inequality(mut self) -> Result<Invariant> {
        self.sum(1)?;
        let relation = self.relation()?;
        self.sum(-1)?;
        if !self.rest().is_empty() {
            let found = self.found();
            return self.fail(Fault::NoEnd { found });
        }
        if self.terms.is_empty() {
            self.at = 0;
            return self.fail(Fault::NoPlace);
        }
        let text = self.text.trim().to_owned();
        Ok(Invariant { text, terms: self.terms, relation, right: self.right })
    }

    /// Parses the left side, with a sign of 1, or the right side, with one of -1.
    fn sum(&mut self, side: i64) -> Result<()> {
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

    fn term(&mut self, sign: i64) -> Result<()> {
        let number = self.number()?;
        let times = number.is_some() && self.take("*");
        let place = self.place()?;
        if place.is_none() && (number.is_none() || times) {
            let found = self.found();
            return self.fail(Fault::NoTerm { found });
        }
        // At most MAX_NUMBER, which is an i64.
        let signed = sign * number.unwrap_or(1).cast_signed();
        match place {
            Some(place) => self.terms.push((place, signed)),
            None => self.right -= i128::from(signed),
        }
        Ok(())
    }

    /// Parses the comparison, and returns its place in [`RELATIONS`].
    fn relation(&mut self) -> Result<usize> {
        if let Some(relation) = RELATIONS.iter().position(|(text, _)| self.take(text)) {
            return Ok(relation);
        }
        if self.rest().starts_with('=') {
            return self.fail(Fault::SingleEquals);
        }
        let found = self.found();
        self.fail(Fault::NoOperator { found })
    }

    /// Parses a number if one is next.
    fn number(&mut self) -> Result<Option<u64>> {
        let rest = self.rest();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits == 0 {
            return Ok(None);
        }
        let number = rest[..digits].parse().ok().filter(|&number| number <= MAX_NUMBER);
        if number.is_none() {
            return self.fail(Fault::LargeNumber);
        }
        self.at += digits;
        Ok(number)
    }

    /// Parses a place if an identifier is next. Returns its index.
    fn place(&mut self) -> Result<Option<usize>> {
        let rest = self.rest();
        let (name, length) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let Some(end) = quoted.find('"') else { return self.fail(Fault::OpenQuote) };
                (&quoted[..end], end + 2)
            }
            None => {
                let end = rest.find(|c: char| !in_identifier(c)).unwrap_or(rest.len());
                (&rest[..end], end)
            }
        };
        if length == 0 {
            return Ok(None);
        }
        let place = match self.find(name) {
            Ok(place) => place,
            Err(fault) => return self.fail(fault),
        };
        self.at += length;
        Ok(Some(place))
    }

    fn find(&self, name: &str) -> core::result::Result<usize, Fault> {
        let places = self.net.places();
        if let Some(place) = places.iter().position(|place| place.id == name) {
            return Ok(place);
        }
        let named: Vec<usize> = (0..places.len()).filter(|&at| places[at].name == name).collect();
        let name = name.to_owned();
        match named[..] {
            [] if ["and", "or"].contains(&name.as_str()) => {
                Err(Fault::NoEnd { found: format!("'{name}'") })
            }
            [] => {
                let some = places.iter().take(MAX_SUGGESTED).map(|place| quoted(&place.id));
                Err(Fault::UnknownPlace { near: near(&name, places), some: some.collect(), name })
            }
            [place] => Ok(place),
            _ => {
                let ids = named.iter().take(3).map(|&at| quoted(&places[at].id)).collect();
                Err(Fault::AmbiguousPlace { name, ids })
            }
        }
    }

    /// Returns the text from the next character on that is not white space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// Describes the next token.
    fn found(&mut self) -> String {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return "the end".to_owned() };
        let word = rest.find(|c: char| !in_identifier(c)).unwrap_or(rest.len());
        format!("'{}'", &rest[..word.max(first.len_utf8())])
    }

    fn fail<T>(&self, fault: Fault) -> Result<T> {
        let position = 1 + self.text[..self.at].chars().count();
        Err(InvariantError { text: self.text.to_owned(), position, fault })
    }
}

/// Returns the identifiers of the places that resemble `unknown` most, quoted where an inequality
/// needs it.
fn near(unknown: &str, places: &[Place]) -> Vec<String> {
    let limit = (unknown.chars().count() / 3).max(1);
    let distance = |place: &Place| {
        let texts = [&place.id, &place.name].map(|text| distance(unknown, text, limit));
        // An identifier that goes on where the text ends is near, however long it is.
        let begins = !unknown.is_empty() && place.id.starts_with(unknown);
        texts.into_iter().flatten().min().or(begins.then_some(limit))
    };
    let mut near: Vec<_> =
        places.iter().filter_map(|place| Some((distance(place)?, &place.id))).collect();
    near.sort();
    near.into_iter().take(MAX_SUGGESTED).map(|(_, id)| quoted(id)).collect()
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

/// Returns the least number of characters to insert, delete or replace that turns `a` into `b`,
/// regardless of case; `None` beyond `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let distance = strsim::levenshtein(&a.to_lowercase(), &b.to_lowercase());
    Some(distance).filter(|&distance| distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "abd", 1), ("abc", "ABC", 0), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b, 3), Some(edits), "{a} {b}");
            assert_eq!(distance(b, a, 3), Some(edits), "{b} {a}");
        }
        assert_eq!(distance("kitten", "sitting", 2), None);
        assert_eq!(distance("", "abcd", 3), None);
    }
}
