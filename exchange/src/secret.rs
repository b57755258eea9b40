//! The secret that the ranks of a job share, from a file or the environment. It is never printed.

use core::fmt;
use std::env;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zeroize::Zeroizing;

use crate::JoinError;

/// The environment variable that carries the secret.
pub const SECRET_VARIABLE: &str = "PROBELINE_SECRET";

/// The minimum length of a secret: 128 bits if they are random.
pub(crate) const MIN_BYTES: usize = 16;
/// The maximum length of a secret; a longer file is the wrong file.
pub(crate) const MAX_BYTES: usize = 4096;

/// A secret shared by the ranks of one job. Erased from memory when dropped; `Debug` hides it.
///
/// It should be random, because a peer that receives a rank's first message can test guesses of the
/// secret on it: `openssl rand -hex 32 > FILE`, with `umask 077`.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret of these bytes.
    ///
    /// # Errors
    /// [`JoinError::SecretLength`] below 16 or above 4096 bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, JoinError> {
        let bytes = Zeroizing::new(bytes);
        if !(MIN_BYTES..=MAX_BYTES).contains(&bytes.len()) {
            return Err(JoinError::SecretLength { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// Reads the file at `path`, without one newline at its end.
    ///
    /// # Errors
    /// [`JoinError::SecretExposed`] if other users than the file's owner may read it,
    /// [`JoinError::SecretFile`] if it cannot be read, [`JoinError::SecretLength`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, JoinError> {
        let path = path.as_ref();
        let unreadable = |error| JoinError::SecretFile { path: path.to_owned(), error };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(JoinError::SecretExposed { path: path.to_owned(), mode });
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
    /// [`JoinError::NoSecret`], or [`JoinError::SecretLength`].
    pub fn from_env() -> Result<Self, JoinError> {
        use std::os::unix::ffi::OsStringExt;
        let value = env::var_os(SECRET_VARIABLE).ok_or(JoinError::NoSecret)?;
        Self::new(value.into_vec())
    }

    /// Creates a new random secret of 64 hexadecimal digits, which fits into an environment
    /// variable.
    ///
    /// # Errors
    /// [`JoinError::NoRandom`] if the system has no random bytes.
    pub fn random() -> Result<Self, JoinError> {
        let mut random = Zeroizing::new([0_u8; 32]);
        getrandom::fill(&mut *random).map_err(|_| JoinError::NoRandom)?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process;

    use super::*;

    fn file(name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = env::temp_dir().join(format!("probeline-secret-{}-{name}", process::id()));
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn read(name: &str, content: &[u8], mode: u32) -> Result<Secret, JoinError> {
        let path = file(name, content, mode);
        let secret = Secret::from_file(&path);
        fs::remove_file(path).unwrap();
        secret
    }

    #[test]
    fn refuses_exposed_and_missing_files() {
        for mode in [0o640, 0o604, 0o620, 0o666] {
            let error = read("exposed", b"0123456789abcdef", mode).unwrap_err();
            assert!(matches!(error, JoinError::SecretExposed { mode: found, .. } if found == mode));
            assert!(error.to_string().contains("chmod 600 "), "{error}");
        }
        assert!(read("owner", b"0123456789abcdef", 0o400).is_ok());
        let error = Secret::from_file("/nowhere/secret").unwrap_err();
        assert!(error.to_string().contains("/nowhere/secret"), "{error}");
    }

    #[test]
    fn trims_newline_and_bounds_length() {
        let secret = read("newline", b"0123456789abcdef\n\n", 0o600).unwrap();
        assert_eq!(secret.bytes(), b"0123456789abcdef\n");
        for (bytes, good) in [(0, false), (15, false), (16, true), (4096, true), (4097, false)] {
            assert_eq!(read("length", &vec![b'x'; bytes], 0o600).is_ok(), good, "{bytes}");
            assert_eq!(Secret::new(vec![b'x'; bytes]).is_ok(), good, "{bytes}");
        }
        assert!(read("longest", &[&[b'x'; 4096][..], b"\n"].concat(), 0o600).is_ok());
        assert!(matches!(
            read("huge", &vec![b'x'; 1 << 20], 0o600),
            Err(JoinError::SecretLength { .. })
        ));
    }

    #[test]
    fn randomizes_and_hides_secret() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.bytes(), two.bytes());
        assert_eq!(one.bytes().len(), 64);
        assert!(one.bytes().iter().all(u8::is_ascii_hexdigit));
        assert_eq!(format!("{one:?}"), "Secret(hidden)");
    }
}
