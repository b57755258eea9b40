//! Failed verbs, and ports that cannot be used.

use core::error::Error;
use core::ffi::c_int;
use core::fmt;

use crate::{PostFailed, Status};

/// A control verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbFailed {
    /// The verb, by the name of its manual page.
    pub verb: &'static str,
    /// The error number (errno(3)).
    pub errno: i32,
}

impl VerbFailed {
    /// Returns the error of a verb that returns a pointer or -1 and sets errno.
    pub(crate) fn last(verb: &'static str) -> Self {
        // SAFETY: the C library gives every thread an errno of its own, always readable.
        Self { verb, errno: unsafe { *libc::__errno_location() } }
    }

    /// Returns the result of a verb that returns 0 or an errno.
    pub(crate) fn check(verb: &'static str, returned: c_int) -> Result<(), Self> {
        match returned {
            0 => Ok(()),
            returned => Err(Self::from_returned(verb, returned)),
        }
    }

    /// Returns the error of a verb that returned a value other than 0: an errno, with some
    /// providers a negated errno, or -1 with errno set.
    pub(crate) fn from_returned(verb: &'static str, returned: c_int) -> Self {
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

/// The reason why a port cannot be used: none of its GIDs can be, or its atomics do not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The GID table is empty.
    #[error("its GID table is empty: give the network interface below it an IP address")]
    NoGid,
    /// No GID is of RoCE v2.
    #[error("none of its GIDs is RoCE v2: enable it in the driver, or choose a GID by its index")]
    NoRoceV2,
    /// All GIDs of RoCE v2 are link-local, which do not come from an IP address.
    #[error(
        "all of its RoCE v2 GIDs are link-local: give the network interface below it an IP \
         address, or choose a GID by its index"
    )]
    OnlyLinkLocal,
    /// There is no GID with the requested index.
    #[error("its GID table has no entry {0}: `ibv_devinfo -v` lists them")]
    NoSuchIndex(u8),
    /// The GID table could not be read, or polling failed in the self-test.
    #[error("{0}")]
    Verb(#[from] VerbFailed),
    /// A request of the self-test was not posted.
    #[error("{0}")]
    Post(PostFailed),
    /// A request of the self-test failed.
    #[error("a request to this port itself failed: {0}")]
    Status(Status),
    /// A request of the self-test did not complete in time.
    #[error("a request to this port itself never completed")]
    TimedOut,
    /// Values have the wrong byte order, as with old firmware.
    #[error("{operation}: values are in big-endian order, not the host's")]
    ByteOrder {
        /// The name of the operation.
        operation: &'static str,
    },
    /// The self-test could not run: the engine cannot access its own words.
    #[error("the engine cannot access its own words")]
    NotRun,
    /// A failed compare-and-swap has overwritten a store of the CPU with the old value.
    #[error(
        "a compare-and-swap that failed wrote the old value back: {found:#x} where the CPU had \
         stored {stored:#x} meanwhile"
    )]
    StoreUndone {
        /// The last value that the CPU stored.
        stored: u64,
        /// The value of the word afterwards.
        found: u64,
    },
    /// The operation completed without changing the word.
    #[error("{operation} completes without changing the word")]
    NoEffect {
        /// The name of the operation.
        operation: &'static str,
    },
    /// An operation left or returned a wrong value.
    #[error("{operation}: {found:#018x} instead of {expected:#018x}")]
    Wrong {
        /// The name of the operation, or of its result.
        operation: &'static str,
        /// The expected value.
        expected: u64,
        /// The value found.
        found: u64,
    },
}
