//! A profile: its text, and what it gives.

use core::fmt;
use core::fmt::Write as _;
use core::ops::Range;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::quantity::{QUANTITIES, Quantity};
use crate::{LoadError, ParseError, UnknownQuantity, ValueError};

/// How a number was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fitted to figures that others have published.
    Fitted,
    /// Measured by a command of this repository.
    Measured,
    /// Published as it stands, or the same in another unit.
    Published,
    /// Assumed by whoever runs a command, who answers for it.
    Assumed,
}

const KINDS: [Kind; 4] = [Kind::Fitted, Kind::Measured, Kind::Published, Kind::Assumed];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fitted => "fitted",
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Assumed => "assumed",
        })
    }
}

/// A quantity's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// In the unit that the quantity's name ends with.
    pub value: u64,
    /// How it was got.
    pub kind: Kind,
    /// Where it is from.
    pub source: String,
}

/// What is known of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: String,
    about: String,
    given: BTreeMap<&'static str, Given>,
}

/// Names and texts of the profiles that are built in.
const BUILT_IN: [(&str, &str); 4] = [
    ("das5-fdr", include_str!("../profiles/das5-fdr.toml")),
    ("connectx6-200g", include_str!("../profiles/connectx6-200g.toml")),
    ("soft-roce", include_str!("../profiles/soft-roce.toml")),
    ("shm", include_str!("../profiles/shm.toml")),
];

/// Above every rate and time of a network, and far below any overflow of the model.
const MOST: u64 = 1 << 48;
/// A hundred times a file with every quantity.
const MOST_BYTES: u64 = 1 << 20;
/// Besides rates, what 0 is no value of: no roundtrip takes no time.
const NEVER_ZERO: [&str; 4] =
    ["local.read_base_ns", "local.atomic_ns", "remote.read_base_ns", "remote.atomic_ns"];

impl Quantity {
    /// Whether it may have this value, from a file or from whoever assumes one.
    ///
    /// # Errors
    /// It is above all that networks have, or 0 where that would be none.
    pub fn check(&self, value: u64) -> Result<(), ValueError> {
        let is_rate = self.name.ends_with("_per_s");
        let least = u64::from(is_rate || NEVER_ZERO.contains(&self.name));
        if (least..=MOST).contains(&value) {
            return Ok(());
        }
        Err(ValueError { name: self.name, value, least, most: MOST })
    }
}

impl Profile {
    /// A profile that gives nothing yet.
    #[must_use]
    pub fn new(name: &str, about: &str) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), given: BTreeMap::new() }
    }

    /// The profile of this name that is built in.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Self::parse(text).ok()
    }

    /// The names of those that are built in.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no profile.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text = text(path);
        let text = text.map_err(|error| LoadError::Read(path.to_owned(), error))?;
        Self::parse(&text).map_err(|error| LoadError::Parse(path.to_owned(), error))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// It is not TOML, has a key that no profile has or a value that is none, or a number comes
    /// without its kind and source.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Parser { text }.profile()
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is of.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// What it gives of a quantity, by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Given> {
        self.given.get(name)
    }

    /// What it gives of a quantity, by name: only the value.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.get(name).map(|given| given.value)
    }

    /// Everything that it gives, in the order of [`QUANTITIES`].
    pub fn given(&self) -> impl Iterator<Item = (&'static Quantity, &Given)> {
        QUANTITIES.iter().filter_map(|quantity| Some((quantity, self.get(quantity.name)?)))
    }

    /// Gives a quantity, or another value of it; one that [`Quantity::check`] refuses no file has.
    ///
    /// # Errors
    /// There is no quantity of this name.
    pub fn set(&mut self, name: &str, given: Given) -> Result<(), UnknownQuantity> {
        let quantity = Quantity::named(name).ok_or_else(|| UnknownQuantity(name.to_owned()))?;
        self.given.insert(quantity.name, given);
        Ok(())
    }

    /// The text that [`parse`](Self::parse) reads the same profile from.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!("name = {}\nabout = {}\n", quoted(&self.name), quoted(&self.about));
        let mut section = "";
        for (quantity, Given { value, kind, source }) in self.given() {
            let (of, key) = quantity.parts();
            if of != section {
                // A String takes whatever is written to it.
                let _ = write!(text, "\n[{of}]\n");
                section = of;
            }
            let source = quoted(source);
            let _ = writeln!(
                text,
                "{key} = {{ value = {value}, kind = \"{kind}\", source = {source} }}"
            );
        }
        text
    }
}

/// What a file holds, which is to be no pipe and no device: to open the one, or to read the other,
/// may take for ever.
fn text(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is longer than any profile"));
    }
    Ok(text)
}

/// As a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Turns a text into a profile, and offsets into lines.
struct Parser<'t> {
    text: &'t str,
}

type Value<'t> = Spanned<DeValue<'t>>;

impl<'t> Parser<'t> {
    fn error(&self, at: &Range<usize>, what: impl Into<String>) -> ParseError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        ParseError { line: 1 + before.matches('\n').count(), what: what.into() }
    }

    fn profile(&self) -> Result<Profile, ParseError> {
        let table = DeTable::parse(self.text).map_err(|error| {
            self.error(&error.span().unwrap_or(0..0), format!("no TOML: {}", error.message()))
        })?;
        let mut profile = Profile::new("", "");
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("name", _) => self.string(value)?.clone_into(&mut profile.name),
                ("about", _) => self.string(value)?.clone_into(&mut profile.about),
                (section, DeValue::Table(table)) => {
                    self.section(section, &key.span(), table, &mut profile)?;
                }
                (other, _) => return Err(self.unknown(&key.span(), other)),
            }
        }
        for (key, text) in [("name", &profile.name), ("about", &profile.about)] {
            if text.is_empty() {
                return Err(self.error(
                    &(0..0),
                    format!("there is no {key}; begin with {key} = \"\u{2026}\""),
                ));
            }
        }
        Ok(profile)
    }

    fn section(
        &self,
        section: &str,
        at: &Range<usize>,
        table: &DeTable<'t>,
        profile: &mut Profile,
    ) -> Result<(), ParseError> {
        if !QUANTITIES.iter().any(|quantity| quantity.parts().0 == section) {
            return Err(self.unknown(at, section));
        }
        for (key, value) in table {
            let name = format!("{section}.{}", key.get_ref());
            let Some(quantity) = Quantity::named(&name) else {
                return Err(self.unknown(&key.span(), &name));
            };
            let given = self.given(quantity, value)?;
            profile.given.insert(quantity.name, given);
        }
        Ok(())
    }

    fn given(&self, quantity: &Quantity, value: &Value<'t>) -> Result<Given, ParseError> {
        let name = quantity.name;
        let DeValue::Table(table) = value.get_ref() else {
            let what = format!(
                "{name} is to be {{ value = \u{2026}, kind = \u{2026}, source = \u{2026} }}"
            );
            return Err(self.error(&value.span(), what));
        };
        let (mut number, mut kind, mut source) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "value" => number = Some(self.number(quantity, value)?),
                "kind" => kind = Some(self.kind(value)?),
                "source" => source = Some(self.string(value)?.to_owned()),
                other => return Err(self.unknown(&key.span(), &format!("{name}.{other}"))),
            }
        }
        let source = source.filter(|source| !source.is_empty());
        let (Some(value), Some(kind), Some(source)) = (number, kind, source) else {
            return Err(
                self.error(&value.span(), format!("{name} wants a value, a kind and a source"))
            );
        };
        Ok(Given { value, kind, source })
    }

    fn string<'v>(&self, value: &'v Value<'t>) -> Result<&'v str, ParseError> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| self.error(&value.span(), "this is to be a string"))
    }

    fn kind(&self, value: &Value<'t>) -> Result<Kind, ParseError> {
        let text = self.string(value)?;
        let kind = KINDS.into_iter().find(|kind| kind.to_string() == text);
        kind.ok_or_else(|| {
            let what = format!("kind {text:?} is none of fitted, measured, published, assumed");
            self.error(&value.span(), what)
        })
    }

    fn number(&self, quantity: &Quantity, value: &Value<'t>) -> Result<u64, ParseError> {
        let digits = value.get_ref().as_integer().filter(|integer| integer.radix() == 10);
        let number = digits.and_then(|integer| integer.as_str().parse().ok());
        let number = number.ok_or_else(|| {
            self.error(&value.span(), format!("a value is to be a whole number from 0 to {MOST}"))
        })?;
        quantity.check(number).map_err(|error| self.error(&value.span(), error.to_string()))?;
        Ok(number)
    }

    fn unknown(&self, at: &Range<usize>, key: &str) -> ParseError {
        self.error(
            at,
            format!("no profile has the key {key:?}; see the built-in ones for all keys"),
        )
    }
}
