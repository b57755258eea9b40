//! Failed verbs.

use core::error::Error;
use core::ffi::c_int;
use core::fmt;

/// A control verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbFailed {
    /// The verb, by the name of its manual page.
    pub verb: &'static str,
    /// The error number (errno(3)).
    pub errno: i32,
}

impl VerbFailed {
    /// The error of a verb that returns a pointer or -1 and sets errno.
    pub(crate) fn last(verb: &'static str) -> Self {
        // SAFETY: the C library gives every thread an errno of its own, always readable.
        Self { verb, errno: unsafe { *libc::__errno_location() } }
    }

    /// The result of a verb that returns 0 or an errno.
    pub(crate) fn check(verb: &'static str, returned: c_int) -> Result<(), Self> {
        match returned {
            0 => Ok(()),
            returned => Err(Self::of(verb, returned)),
        }
    }

    /// The error of a verb that returned a value other than 0: an errno, with some providers a
    /// negated errno, or -1 with errno set.
    pub(crate) fn of(verb: &'static str, returned: c_int) -> Self {
        match returned {
            -1 => Self::last(verb),
            returned => Self { verb, errno: returned.saturating_abs() },
        }
    }
}

impl fmt::Display for VerbFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with ", self.verb)?;
        let (name, advice) = match self.errno {
            libc::EPERM => ("EPERM", "permission denied; see the device's permissions"),
            libc::EACCES => ("EACCES", "no right to open /dev/infiniband/uverbs*"),
            libc::ENOMEM => {
                ("ENOMEM", "no memory, or the limit of locked memory is reached; raise `ulimit -l`")
            }
            libc::EIO => ("EIO", "the device failed or is gone; see the kernel's log"),
            libc::ENODEV => ("ENODEV", "the device is gone; see the kernel's log"),
            libc::EINVAL => {
                ("EINVAL", "the device does not support these values; choose smaller ones")
            }
            libc::ENOSYS => ("ENOSYS", "the kernel has no RDMA support; load ib_uverbs"),
            libc::EOPNOTSUPP => ("EOPNOTSUPP", "the device cannot do this; choose another"),
            libc::ETIMEDOUT => ("ETIMEDOUT", "no answer; is the peer's address reachable?"),
            errno => return write!(f, "errno {errno}; see errno(3) and the kernel's log"),
        };
        write!(f, "{name}: {advice}")
    }
}

impl Error for VerbFailed {}
