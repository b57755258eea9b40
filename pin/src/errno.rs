//! Formats the error of a system call.

use core::fmt;
use std::io;

/// An `errno`, formatted as "Operation not permitted (EPERM)".
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    /// Returns the `errno` of this thread's last system call.
    pub(crate) fn last() -> i32 {
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    /// Returns whether a container's seccomp filter, or a kernel without the call, returns this
    /// error without trying the call.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.0, libc::EPERM | libc::ENOSYS)
    }

    fn name(&self) -> Option<&'static str> {
        Some(match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOSYS => "ENOSYS",
            libc::EACCES => "EACCES",
            libc::EINVAL => "EINVAL",
            libc::ENOENT => "ENOENT",
            libc::ENOMEM => "ENOMEM",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        match (self.name(), text.rsplit_once(" (os error")) {
            (Some(name), Some((text, _))) => write!(f, "{text} ({name})"),
            _ => f.write_str(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_known_errors() {
        assert_eq!(Errno(libc::EPERM).to_string(), "Operation not permitted (EPERM)");
        assert_eq!(Errno(libc::ENOSYS).to_string(), "Function not implemented (ENOSYS)");
        assert_eq!(Errno(libc::EXDEV).to_string(), "Invalid cross-device link (os error 18)");
    }
}
