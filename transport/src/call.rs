//! The names of collective calls, and the words that one reduces.

use core::fmt;

/// The bytes of a call's name; longer names are cut.
const NAME_BYTES: usize = 32;

/// A collective call, by which an exchange detects that owners have made different ones.
///
/// Owners make the same call if all three parts are equal: the name, the structure that it is of,
/// and the number of collective calls that the owner has begun.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    name: [u8; NAME_BYTES],
    /// The number of the call that opened the structure; 0 for a call of the job.
    structure: u64,
    /// The number of calls that the owner has begun, this one included.
    number: u64,
}

impl Call {
    /// The length of an encoded call.
    pub const BYTES: usize = NAME_BYTES + 16;

    /// Creates a call of this name, such as `Table::len`. The first 32 bytes of the name count.
    #[must_use]
    pub const fn new(name: &str) -> Self {
        Self::from_parts(&[name])
    }

    /// Returns the call of a method of a kind of structure, such as `Table::len`.
    #[must_use]
    pub const fn method(kind: &str, method: &str) -> Self {
        Self::from_parts(&[kind, "::", method])
    }

    const fn from_parts(parts: &[&str]) -> Self {
        let (mut bytes, mut end, mut nth) = ([0; NAME_BYTES], 0, 0);
        while nth < parts.len() {
            let from = parts[nth].as_bytes();
            let mut at = 0;
            while at < from.len() && end < NAME_BYTES {
                bytes[end] = from[at];
                (at, end) = (at + 1, end + 1);
            }
            nth += 1;
        }
        Self { name: bytes, structure: 0, number: 0 }
    }

    /// Returns the call as one of the structure that the job's call `opened` has opened.
    #[must_use]
    pub const fn with_structure(self, opened: u64) -> Self {
        Self { structure: opened, ..self }
    }

    /// Returns the call with the number that the exchange counts.
    #[must_use]
    pub const fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Returns the bytes that owners compare.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (name, numbers) = bytes.split_at_mut(NAME_BYTES);
        name.copy_from_slice(&self.name);
        let words = [self.structure, self.number].map(u64::to_le_bytes);
        numbers.copy_from_slice(words.as_flattened());
        bytes
    }

    /// Returns the call of these bytes.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let mut call = Self::new("");
        let (name, numbers) = bytes.split_at(NAME_BYTES);
        call.name.copy_from_slice(name);
        if let ([structure, number], _) = numbers.as_chunks() {
            call.structure = u64::from_le_bytes(*structure);
            call.number = u64::from_le_bytes(*number);
        }
        call
    }

    /// Returns a word that differs for most pairs of different calls (FNV-1a).
    pub(crate) fn digest(&self) -> u64 {
        let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        self.encode().iter().fold(0xcbf2_9ce4_8422_2325, add)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = match core::str::from_utf8(name) {
            Ok("") | Err(_) => "another function",
            Ok(name) => name,
        };
        write!(f, "{name} (call {}", self.number)?;
        match self.structure {
            0 => f.write_str(")"),
            opened => write!(f, ", of the structure opened by call {opened})"),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One word of a reduction: this owner's value before the call, the result after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The sum over all owners, at most `u64::MAX`.
    Sum(u64),
    /// The smallest value.
    Min(u64),
    /// The largest value.
    Max(u64),
}

impl Term {
    /// Returns the word.
    #[must_use]
    pub fn value(self) -> u64 {
        let (Self::Sum(value) | Self::Min(value) | Self::Max(value)) = self;
        value
    }

    /// Returns the word in the bytes in which it travels.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.value().to_le_bytes()
    }

    /// Combines each term with another owner's word at its place, from the bytes in which they
    /// travel.
    pub fn add_all(terms: &mut [Self], theirs: &[u8]) {
        let (words, _) = theirs.as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        terms.iter_mut().zip(words).for_each(|(term, word)| term.add(word));
    }

    /// Combines the word with that of another owner.
    pub fn add(&mut self, theirs: u64) {
        match self {
            Self::Sum(value) => *value = value.saturating_add(theirs),
            Self::Min(value) => *value = theirs.min(*value),
            Self::Max(value) => *value = theirs.max(*value),
        }
    }

    /// Replaces the word.
    pub fn set(&mut self, value: u64) {
        *self = match self {
            Self::Sum(_) => Self::Sum(value),
            Self::Min(_) => Self::Min(value),
            Self::Max(_) => Self::Max(value),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_then_decode() {
        let call = Call::new("Table::len").with_structure(3).numbered(1 << 40);
        assert_eq!(Call::decode(&call.encode()), call);
        assert_ne!(call.digest(), call.numbered(4).digest());
        assert_eq!(Call::method("Table", "len").to_string(), "Table::len (call 0)");
        let long = Call::new("a name that is longer than the 32 bytes of a call");
        assert_eq!(long.to_string(), "a name that is longer than the 3 (call 0)");
    }

    #[test]
    fn display_names_structure() {
        let call = Call::new("Map::clear").numbered(7);
        assert_eq!(call.to_string(), "Map::clear (call 7)");
        let text = "Map::clear (call 7, of the structure opened by call 2)";
        assert_eq!(call.with_structure(2).to_string(), text);
        assert_eq!(Call::new("").to_string(), "another function (call 0)");
    }
}
