//! Loads the profile of a network that is simulated, by name or from a file.

use std::path::Path;

use probeline_profile::Profile;

use crate::failure::{Failure, Result};

/// Returns the built-in profile of this name, or the profile in the file of this name.
pub(crate) fn profile(name: &str) -> Result<Profile> {
    if let Some(profile) = Profile::built_in(name) {
        return Ok(profile);
    }
    if Path::new(name).exists() {
        return Ok(Profile::load(Path::new(name))?);
    }
    let names: Vec<_> = Profile::built_in_names().collect();
    let names = names.join(", ");
    Err(Failure::new(format!("there is no profile and no file {name:?}; give {names} or a file")))
}
