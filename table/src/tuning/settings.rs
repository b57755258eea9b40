//! Settings files in TOML.
//!
//! A caller describes a file by types that derive `serde::Deserialize` with `deny_unknown_fields`;
//! [`load`] reads a file of limited size, [`parse`] a text. Errors name the line. What serde cannot
//! check is checked afterwards, on [`Spanned`] values, with [`error_at`].

use core::ops::Range;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;
pub use toml::Spanned;

/// Bytes of the largest file that is read: far above any that a person or a command writes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the error of a text that does not have the expected content at the byte range `span`:
/// [`ErrorKind::InvalidData`] with the number of the line, from 1.
#[must_use]
pub fn error_at(text: &str, span: &Range<usize>, message: &str) -> io::Error {
    let line = 1 + text.get(..span.start).unwrap_or(text).matches('\n').count();
    io::Error::new(ErrorKind::InvalidData, format!("line {line}: {message}"))
}

/// Parses a text.
///
/// # Errors
/// [`ErrorKind::InvalidData`]: the text is not TOML, or does not have the fields of `T`.
pub fn parse<T: DeserializeOwned>(text: &str) -> io::Result<T> {
    toml::from_str(text).map_err(|error| {
        error_at(text, &error.span().unwrap_or_default(), &error.message().replace('\n', ", "))
    })
}

/// Reads the file at `path` and parses its text with `parse`.
///
/// # Errors
/// The file cannot be read, is not a regular file or is larger than 1 MiB; or `parse` fails, which is
/// [`ErrorKind::InvalidData`]. The text names the file and the line.
pub fn load<T>(path: &Path, parse: impl FnOnce(&str) -> io::Result<T>) -> io::Result<T> {
    let name = path.display();
    let advised = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read {name}: {error}; give another file"))
    };
    let text = read(path).map_err(advised)?;
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}, {error}"));
    parse(&text).map_err(named)
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

/// Returns a string as a TOML value, with quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_irregular_and_large_files() {
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
    fn errors_name_line() {
        let text = "a = 1\nb = x\n";
        assert!(parse::<toml::Table>(text).unwrap_err().to_string().starts_with("line 2: "));
        assert_eq!(error_at(text, &(6..7), "wrong").to_string(), "line 2: wrong");
    }
}
