//! The secret that the ranks of a job share, from a file or the environment. It is never printed.

use core::fmt;
use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// The environment variable that carries the secret.
pub const SECRET_VARIABLE: &str = "PROBELINE_SECRET";

/// The minimum length of a secret: 128 bits if they are random.
const MIN_BYTES: usize = 16;
/// The maximum length of a secret; a longer file is the wrong file.
const MAX_BYTES: usize = 4096;

/// A secret shared by the ranks of one job. Erased from memory when dropped; `Debug` hides it.
///
/// It should be random, because a peer that receives a rank's first message can test guesses of the
/// secret on it: `openssl rand -hex 32 > FILE`, with `umask 077`.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// A secret of these bytes.
    ///
    /// # Errors
    /// [`SecretError::Length`] below 16 or above 4096 bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, SecretError> {
        let bytes = Zeroizing::new(bytes);
        if !(MIN_BYTES..=MAX_BYTES).contains(&bytes.len()) {
            return Err(SecretError::Length { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// Reads the file at `path`, without one newline at its end.
    ///
    /// # Errors
    /// [`SecretError::Exposed`] if other users than the file's owner may read it,
    /// [`SecretError::File`] if it cannot be read, [`SecretError::Length`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SecretError> {
        let path = path.as_ref();
        let unreadable = |error| SecretError::File { path: path.to_owned(), error };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretError::Exposed { path: path.to_owned(), mode });
        }
        // Reserved before reading, because growing would leave a copy in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 2));
        file.take(MAX_BYTES as u64 + 2).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Self::new(core::mem::take(&mut *bytes))
    }

    /// Reads [`SECRET_VARIABLE`].
    ///
    /// # Errors
    /// [`SecretError::Unset`], or [`SecretError::Length`].
    pub fn from_env() -> Result<Self, SecretError> {
        use std::os::unix::ffi::OsStringExt;
        let value = env::var_os(SECRET_VARIABLE).ok_or(SecretError::Unset)?;
        Self::new(value.into_vec())
    }

    /// A new random secret of 64 hexadecimal digits, which fits into an environment variable.
    ///
    /// # Errors
    /// [`SecretError::NoRandom`] if the system has no random bytes.
    pub fn random() -> Result<Self, SecretError> {
        let mut random = Zeroizing::new([0_u8; 32]);
        getrandom::fill(&mut *random).map_err(|_| SecretError::NoRandom)?;
        let digit = |value: u8| char::from_digit(value.into(), 16).map_or(0, |c| c as u8);
        Self::new(random.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The reason why there is no usable secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum SecretError {
    /// The environment has no [`SECRET_VARIABLE`].
    #[error("no secret is given: set {SECRET_VARIABLE} for all ranks, or give a secret file")]
    Unset,
    /// The file cannot be read.
    #[error("cannot read the secret file {}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    /// Other users may read or write the file.
    #[error(
        "the secret file {0} has mode {mode:03o}, so other users may read it: chmod 600 {0}",
        .path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    /// The length is not between 16 and 4096 bytes.
    #[error(
        "the secret has {bytes} bytes instead of {MIN_BYTES} to {MAX_BYTES}: create one with \
         openssl rand -hex 32"
    )]
    Length { bytes: usize },
    /// The system has no random bytes.
    #[error("the system has no random bytes: check getrandom(2)")]
    NoRandom,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process;

    use super::*;

    fn file(name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = env::temp_dir().join(format!("probeline-secret-{}-{name}", process::id()));
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn read(name: &str, content: &[u8], mode: u32) -> Result<Secret, SecretError> {
        let path = file(name, content, mode);
        let secret = Secret::from_file(&path);
        fs::remove_file(path).unwrap();
        secret
    }

    #[test]
    fn one_newline_is_trimmed() {
        let secret = read("newline", b"0123456789abcdef\n\n", 0o600).unwrap();
        assert_eq!(secret.bytes(), b"0123456789abcdef\n");
    }

    #[test]
    fn a_file_that_other_users_may_read_is_refused_with_advice() {
        for mode in [0o640, 0o604, 0o620, 0o666] {
            let error = read("exposed", b"0123456789abcdef", mode).unwrap_err();
            assert!(matches!(error, SecretError::Exposed { mode: found, .. } if found == mode));
            assert!(error.to_string().contains("chmod 600 "), "{error}");
        }
        assert!(read("owner", b"0123456789abcdef", 0o400).is_ok());
    }

    #[test]
    fn lengths_are_bounded() {
        for (bytes, good) in [(0, false), (15, false), (16, true), (4096, true), (4097, false)] {
            assert_eq!(read("length", &vec![b'x'; bytes], 0o600).is_ok(), good, "{bytes}");
            assert_eq!(Secret::new(vec![b'x'; bytes]).is_ok(), good, "{bytes}");
        }
        assert!(read("longest", &[&[b'x'; 4096][..], b"\n"].concat(), 0o600).is_ok());
        assert!(matches!(
            read("huge", &vec![b'x'; 1 << 20], 0o600),
            Err(SecretError::Length { .. })
        ));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Secret::from_file("/nowhere/secret").unwrap_err();
        assert!(error.to_string().contains("/nowhere/secret"), "{error}");
    }

    #[test]
    fn debug_hides_the_secret_and_random_secrets_differ() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.bytes(), two.bytes());
        assert_eq!(one.bytes().len(), 64);
        assert!(one.bytes().iter().all(u8::is_ascii_hexdigit));
        assert_eq!(format!("{one:?}"), "Secret(hidden)");
    }
}
