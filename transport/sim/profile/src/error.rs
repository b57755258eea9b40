//! Why there is no profile, or no model.

use core::error::Error;
use core::fmt;

use crate::Quantity;

/// There is no quantity of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownQuantity(pub String);

impl fmt::Display for UnknownQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = crate::QUANTITIES.iter().map(|quantity| quantity.name);
        let names: Vec<_> = names.collect();
        write!(f, "there is no quantity {:?}; give one of {}", self.0, names.join(", "))
    }
}

impl Error for UnknownQuantity {}

/// No network has a quantity of this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The quantity's name.
    pub name: &'static str,
    /// What it was to be.
    pub value: u64,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
    pub most: u64,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, least, most } = self;
        write!(f, "{name} is {value}: make it a whole number from {least} to {most}")?;
        if *value == 0 && name.ends_with("_per_s") {
            write!(f, ", or leave it out where there is no such limit")?;
        }
        Ok(())
    }
}

impl Error for ValueError {}

/// Quantities that are needed and that the profile does not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingQuantity {
    /// The profile's name.
    pub profile: String,
    /// Each that is missing; of those in one group any one would do.
    pub missing: Vec<&'static [&'static str]>,
}

impl fmt::Display for MissingQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no source gives what is needed of the profile {}: ", self.profile)?;
        for (at, group) in self.missing.iter().enumerate() {
            let about = group.first().and_then(|name| Quantity::named(name));
            let between = if at == 0 { "" } else { "; " };
            let about = about.map_or("", |quantity| quantity.about);
            write!(f, "{between}{} ({about})", group.join(" or "))?;
        }
        write!(f, ". Measure them and write them in a file of your own, or assume values")
    }
}

impl Error for MissingQuantity {}
