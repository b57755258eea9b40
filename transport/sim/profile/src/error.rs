//! Errors of profiles.

use thiserror::Error;

use crate::quantity::{QUANTITIES, Quantity};

/// The reason why a quantity or a model was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// There is no quantity of this name.
    #[error("there is no quantity {0:?}; give one of {names}", names = names())]
    Unknown(String),
    /// A value is out of a quantity's range.
    #[error("{name} is {value}: give an integer from {min} to {max}{}", advice(name, *value))]
    Range {
        /// The quantity's name.
        name: &'static str,
        /// The value that was given.
        value: u64,
        /// The smallest value of the quantity.
        min: u64,
        /// The largest value of the quantity.
        max: u64,
    },
    /// A profile lacks required quantities.
    #[error(
        "the profile {profile} lacks required quantities: {}. Measure them and add them to a copy of \
         the profile, or assume values",
        listed(missing)
    )]
    Missing {
        /// The profile's name.
        profile: String,
        /// The missing quantities; of each group one suffices.
        missing: Vec<&'static [&'static str]>,
    },
}

fn names() -> String {
    QUANTITIES.iter().map(|quantity| quantity.name).collect::<Vec<_>>().join(", ")
}

fn advice(name: &str, value: u64) -> &'static str {
    let is_rate = value == 0 && name.ends_with("_per_s");
    if is_rate { ", or leave it out if there is no such limit" } else { "" }
}

fn listed(missing: &[&[&str]]) -> String {
    let groups = missing.iter().map(|group| {
        let about = group.first().and_then(|name| Quantity::named(name));
        let about = about.map_or("", |quantity| quantity.about);
        format!("{} ({about})", group.join(" or "))
    });
    groups.collect::<Vec<_>>().join("; ")
}
