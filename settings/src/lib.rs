//! Settings files in TOML.
//!
//! A caller describes a file by types that derive `serde::Deserialize` with `deny_unknown_fields`;
//! [`load`] reads a file of limited size, [`parse`] a text. Errors name the line. What serde cannot
//! check is checked afterwards, on [`Spanned`] values, with [`ParseError::at`].
#![forbid(unsafe_code)]

use core::ops::Range;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
pub use toml::Spanned;

/// Bytes of the largest file that is read: far above any that a person or a command writes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A text does not have the expected content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// The line of the error, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl ParseError {
    /// An error at the byte range `span` of `text`.
    pub fn at(text: &str, span: &Range<usize>, message: impl Into<String>) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        Self { line: 1 + before.matches('\n').count(), message: message.into() }
    }
}

/// A file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {1}; give another file", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Its text does not have the expected content.
    #[error("{path}, {1}", path = .0.display())]
    Parse(PathBuf, #[source] ParseError),
}

/// Parses a text.
///
/// # Errors
/// The text is not TOML, or does not have the fields of `T`.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ParseError> {
    toml::from_str(text).map_err(|error| {
        ParseError::at(text, &error.span().unwrap_or_default(), error.message().replace('\n', ", "))
    })
}

/// Reads the file at `path` and parses its text with `parse`.
///
/// # Errors
/// The file cannot be read, is not a regular file or is larger than 1 MiB; or `parse` fails.
pub fn load<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<T, LoadError> {
    let text = read(path).map_err(|error| LoadError::Read(path.to_owned(), error))?;
    parse(&text).map_err(|error| LoadError::Parse(path.to_owned(), error))
}

/// Reads a regular file: opening a pipe or reading a device may block without end.
fn read(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(text)
}

/// A string as a TOML value, with quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_large_files_are_refused() {
        let refused = |path: &Path| load(path, |_| Ok(())).unwrap_err().to_string();
        assert!(refused("/dev/zero".as_ref()).contains("not a regular file"));
        assert!(refused("/no/such/file".as_ref()).contains("cannot read /no/such/file"));
        let path = std::env::temp_dir().join(format!("large-{}.toml", std::process::id()));
        fs::write(&path, vec![b' '; usize::try_from(MAX_FILE_BYTES).unwrap() + 1]).unwrap();
        let error = refused(&path);
        fs::remove_file(&path).unwrap();
        assert!(error.contains("larger than 1 MiB"), "{error}");
    }

    #[test]
    fn an_error_names_the_line() {
        let text = "a = 1\nb = x\n";
        assert_eq!(parse::<toml::Table>(text).unwrap_err().line, 2);
        assert_eq!(ParseError::at(text, &(6..7), "wrong").to_string(), "line 2: wrong");
    }
}
