//! Errors of mapping memory, with advice.

use core::error::Error;
use core::fmt;

use super::NoHuge;
use crate::errno::Errno;
use crate::numa::NodeId;

/// The reason why memory could not be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingError {
    /// The size is 0, or larger than an address space.
    Size {
        /// The requested bytes.
        bytes: usize,
    },
    /// A system call failed.
    Call {
        /// The call.
        call: &'static str,
        /// The requested bytes.
        bytes: usize,
        /// Its error.
        errno: i32,
    },
    /// The memory could not be bound to a NUMA node.
    Bind {
        /// The node.
        node: NodeId,
        /// The error of mbind(2).
        errno: i32,
    },
    /// Huge pages were required, and not all of the memory has them.
    NoHugePages {
        /// The requested bytes.
        bytes: usize,
        /// The error of mapping hugetlb pages, or 0.
        hugetlb_errno: i32,
        /// The reason why there are no transparent huge pages.
        reason: NoHuge,
    },
    /// A peer's file is shorter than expected.
    Short {
        /// The expected bytes.
        needed_bytes: usize,
        /// The bytes of the file.
        found_bytes: usize,
    },
    /// A peer's file could shrink under the mapping.
    NotSealed,
}

impl MappingError {
    /// Adds the error of mapping hugetlb pages, if huge pages were required.
    pub(super) fn after(self, hugetlb: Self) -> Self {
        match (self, hugetlb) {
            (Self::NoHugePages { bytes, reason, .. }, Self::Call { errno, .. }) => {
                Self::NoHugePages { bytes, hugetlb_errno: errno, reason }
            }
            _ => self,
        }
    }
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Size { bytes } => write!(f, "cannot map {bytes} bytes: choose another size"),
            Self::Call { call, bytes, errno } => {
                write!(f, "cannot map {bytes} bytes: {call}: {}", Errno(errno))?;
                match errno {
                    libc::ENOMEM | libc::ENOSPC | libc::EFAULT => f.write_str(
                        "; memory is short: request less, or raise the limit of the container or \
                         control group",
                    ),
                    libc::EMFILE | libc::ENFILE => f.write_str("; raise `ulimit -n`"),
                    libc::EPERM | libc::ENOSYS => f.write_str(
                        "; the kernel or the container's seccomp filter refuses the call: allow it",
                    ),
                    _ => Ok(()),
                }
            }
            Self::Bind { node, errno } => write!(
                f,
                "cannot bind memory to {node}: {}; choose a node with memory, or none",
                Errno(errno)
            ),
            Self::NoHugePages { bytes, hugetlb_errno, reason } => {
                write!(f, "no huge pages for {bytes} bytes: {reason}")?;
                if hugetlb_errno != 0 {
                    write!(f, " (hugetlb: {})", Errno(hugetlb_errno))?;
                }
                // The number of pages of the usual size, 2 MiB.
                let pages = bytes.div_ceil(2 << 20);
                write!(f, "; as root, add {pages} to `sysctl vm.nr_hugepages`")?;
                f.write_str(match reason {
                    NoHuge::SharedOff => {
                        ", or `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`"
                    }
                    NoHuge::PrivateOff => {
                        ", or `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`"
                    }
                    NoHuge::NotGiven => ", or `sysctl vm.compact_memory=1` and try again",
                    NoHuge::NotAsked | NoHuge::Small | NoHuge::Absent => "",
                })
            }
            Self::Short { needed_bytes, found_bytes } => write!(
                f,
                "the peer's memory has {found_bytes} bytes instead of {needed_bytes}: open every owner \
                 with the same sizes"
            ),
            Self::NotSealed => f.write_str(
                "the peer's memory is not a sealed memfd, so it could shrink while it is used: share \
                 memory of `Mapping::shared`",
            ),
        }
    }
}

impl Error for MappingError {}
