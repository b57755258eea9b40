//! A profile, its file format, and the built-in profiles.

use core::fmt;
use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use probeline_table::tuning::settings::{self, Spanned, error_at, quoted};
use serde::Deserialize;

use crate::error::ProfileError;
use crate::quantity::{QUANTITIES, Quantity};

/// The kind of the source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Fitted to published figures.
    Fitted,
    /// Measured by a command of this repository.
    Measured,
    /// Published, or converted from a published unit.
    Published,
    /// Assumed by the user of a command.
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

/// A value of a quantity, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The value, in the unit at the end of the quantity's name.
    pub value: u64,
    /// The kind of its source.
    pub kind: Kind,
    /// Publication, or command, date and machine.
    pub source: String,
}

/// The known quantities of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: String,
    about: String,
    given: BTreeMap<&'static str, Given>,
}

/// Names and texts of the built-in profiles.
const BUILT_IN: [(&str, &str); 5] = [
    ("das5-fdr", include_str!("../profiles/das5-fdr.toml")),
    ("connectx6-200g", include_str!("../profiles/connectx6-200g.toml")),
    ("pik-ndr", include_str!("../profiles/pik-ndr.toml")),
    ("soft-roce", include_str!("../profiles/soft-roce.toml")),
    ("shm", include_str!("../profiles/shm.toml")),
];

impl Profile {
    /// Creates a profile without quantities.
    #[must_use]
    pub fn new(name: &str, about: &str) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), given: BTreeMap::new() }
    }

    /// Returns the built-in profile of this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Self::parse(text).ok()
    }

    /// Returns the names of the built-in profiles.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or [`parse`](Self::parse) fails.
    pub fn load(path: &Path) -> io::Result<Self> {
        settings::load(path, Self::parse)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`], whose text names the line: the text is not TOML, has an unknown
    /// key or a value out of range, or a quantity lacks its kind or source.
    pub fn parse(text: &str) -> io::Result<Self> {
        checked(text, settings::parse(text)?)
    }

    /// Returns the profile's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a description of the network, in one line.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the value of a quantity with its source.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Given> {
        self.given.get(name)
    }

    /// Returns the value of a quantity.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u64> {
        self.get(name).map(|given| given.value)
    }

    /// Returns all known quantities, in the order of [`QUANTITIES`].
    pub fn given(&self) -> impl Iterator<Item = (&'static Quantity, &Given)> {
        QUANTITIES.iter().filter_map(|quantity| Some((quantity, self.get(quantity.name)?)))
    }

    /// Sets a quantity.
    ///
    /// # Errors
    /// As for [`Quantity::checked`].
    pub fn set(&mut self, name: &str, given: Given) -> Result<(), ProfileError> {
        self.given.insert(Quantity::checked(name, given.value)?.name, given);
        Ok(())
    }

    /// Returns the text from which [`parse`](Self::parse) reads the same profile.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!("name = {}\nabout = {}\n", quoted(&self.name), quoted(&self.about));
        let mut section = "";
        for (quantity, Given { value, kind, source }) in self.given() {
            let (of, key) = quantity.parts();
            if of != section {
                // Writing to a String cannot fail.
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

/// A file: its name, its description, and its tables of quantities.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    about: String,
    #[serde(default)]
    cpu: Table,
    #[serde(default)]
    local: Table,
    #[serde(default)]
    remote: Table,
    #[serde(default)]
    owner: Table,
    #[serde(default)]
    machine: Table,
    #[serde(default)]
    switch: Table,
    #[serde(default)]
    rank: Table,
    #[serde(default)]
    nic: Table,
    #[serde(default)]
    word: Table,
}

type Table = BTreeMap<String, Spanned<Entry>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: Spanned<u64>,
    kind: Kind,
    source: String,
}

/// Checks that each key is a quantity and that its value is in range, which serde cannot.
fn checked(text: &str, file: File) -> io::Result<Profile> {
    let File { name, about, cpu, local, remote, owner, machine, switch, rank, nic, word } = file;
    let mut profile = Profile::new(&name, &about);
    let sections = ["cpu", "local", "remote", "owner", "machine", "switch", "rank", "nic", "word"];
    let tables = [cpu, local, remote, owner, machine, switch, rank, nic, word];
    for (section, entries) in sections.into_iter().zip(tables) {
        for (key, entry) in entries {
            let (name, span) = (format!("{section}.{key}"), entry.span());
            let Entry { value, kind, source } = entry.into_inner();
            if source.is_empty() {
                return Err(error_at(text, &span, &format!("{name} has an empty source")));
            }
            let (span, value) = (value.span(), value.into_inner());
            profile
                .set(&name, Given { value, kind, source })
                .map_err(|error| error_at(text, &span, &error.to_string()))?;
        }
    }
    Ok(profile)
}
