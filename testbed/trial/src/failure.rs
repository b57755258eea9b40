//! What did not hold, in words.

use core::error::Error;
use core::fmt;

pub(crate) type Result<T> = core::result::Result<T, Failure>;

#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        Self(text)
    }
}

/// Fails unless `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Failure(what())) }
}
