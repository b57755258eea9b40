//! A verb that failed, with the errno it gave.

use core::error::Error;
use core::ffi::c_int;
use core::fmt;

/// A control verb failed. `errno` is the system's, as errno(3) names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbFailed {
    /// The verb, as its man page is called.
    pub verb: &'static str,
    /// What it gave.
    pub errno: i32,
}

impl VerbFailed {
    /// For a verb that returns a pointer, or -1, and leaves the reason in errno.
    pub(crate) fn last(verb: &'static str) -> Self {
        // SAFETY: the C library gives every thread an errno of its own, always readable.
        Self { verb, errno: unsafe { *libc::__errno_location() } }
    }

    /// For a verb that returns 0 or the errno itself.
    pub(crate) fn check(verb: &'static str, returned: c_int) -> Result<(), Self> {
        match returned {
            0 => Ok(()),
            errno if errno > 0 => Err(Self { verb, errno }),
            _ => Err(Self::last(verb)),
        }
    }
}

impl fmt::Display for VerbFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with ", self.verb)?;
        match self.errno {
            libc::EPERM => f.write_str("EPERM: this process may not; see the device's permissions"),
            libc::EACCES => f.write_str("EACCES: no right to open /dev/infiniband/uverbs*"),
            libc::ENOMEM => f.write_str(
                "ENOMEM: no memory, or the locked-memory limit is reached; raise `ulimit -l`",
            ),
            libc::EIO => f.write_str("EIO: the device, or the completion queue, is broken"),
            libc::ENODEV => f.write_str("ENODEV: the device is gone"),
            libc::EINVAL => f.write_str("EINVAL: the device does not take these values"),
            libc::ENOSYS => f.write_str("ENOSYS: the kernel has no RDMA support; load ib_uverbs"),
            libc::EOPNOTSUPP => f.write_str("EOPNOTSUPP: the device cannot do this"),
            libc::ETIMEDOUT => {
                f.write_str("ETIMEDOUT: the peer cannot be resolved; is its address reachable?")
            }
            errno => write!(f, "errno {errno}"),
        }
    }
}

impl Error for VerbFailed {}
