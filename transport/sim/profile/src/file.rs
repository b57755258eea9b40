//! A profile: its text, and what it gives.

use core::fmt;
use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::Path;

use probeline_settings::{LoadError, ParseError, Spanned, quoted};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::quantity::{QUANTITIES, Quantity};
use crate::{UnknownQuantity, ValueError};

/// How a number was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
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
        probeline_settings::load(path, Self::parse)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// It is not TOML, has a key that no profile has or a value that is none, or a number comes
    /// without its kind and source.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        checked(text, probeline_settings::parse(text)?)
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

/// A file: its name, its description, and its tables of quantities in the order of the text.
struct File {
    name: String,
    about: String,
    tables: Vec<(Spanned<String>, Table)>,
}

type Table = BTreeMap<Spanned<String>, Spanned<Entry>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: Spanned<u64>,
    kind: Kind,
    source: String,
}

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = File;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("name, about and tables of quantities")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
        let (mut name, mut about, mut tables) = (None, None, Vec::new());
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            match key.get_ref().as_str() {
                "name" => name = Some(map.next_value()?),
                "about" => about = Some(map.next_value()?),
                _ => tables.push((key, map.next_value()?)),
            }
        }
        let name = name.ok_or_else(|| A::Error::missing_field("name"))?;
        let about = about.ok_or_else(|| A::Error::missing_field("about"))?;
        Ok(File { name, about, tables })
    }
}

/// What serde cannot check: that each key is a quantity, and its value in range.
fn checked(text: &str, file: File) -> Result<Profile, ParseError> {
    let mut profile = Profile::new(&file.name, &file.about);
    for (table, entries) in file.tables {
        let unknown = |span, key: &str| {
            ParseError::at(text, &span, format!("unknown key {key:?}; see the built-in profiles"))
        };
        if !QUANTITIES.iter().any(|quantity| quantity.parts().0 == table.get_ref()) {
            return Err(unknown(table.span(), table.get_ref()));
        }
        for (key, entry) in entries {
            let name = format!("{}.{}", table.get_ref(), key.get_ref());
            let quantity = Quantity::named(&name).ok_or_else(|| unknown(key.span(), &name))?;
            let span = entry.span();
            let Entry { value, kind, source } = entry.into_inner();
            quantity
                .check(*value.get_ref())
                .map_err(|error| ParseError::at(text, &value.span(), error.to_string()))?;
            if source.is_empty() {
                return Err(ParseError::at(text, &span, format!("{name} has an empty source")));
            }
            let given = Given { value: value.into_inner(), kind, source };
            profile.given.insert(quantity.name, given);
        }
    }
    Ok(profile)
}
