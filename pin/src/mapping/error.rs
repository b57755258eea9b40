//! Why memory could not be obtained, and what to do about it.

use core::error::Error;
use core::fmt;

use super::NoHuge;
use crate::errno::Errno;
use crate::numa::NodeId;

/// Why there is no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingError {
    /// No bytes, or more than an address space holds.
    Size {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A system call failed.
    Call {
        /// Which.
        call: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// Its error.
        errno: i32,
    },
    /// The memory could not be put on a NUMA node.
    Bind {
        /// Which.
        node: NodeId,
        /// The error of mbind(2).
        errno: i32,
    },
    /// Huge pages were required, and not all of the memory got them.
    NoHugePages {
        /// Bytes asked for.
        bytes: usize,
        /// Why there are no hugetlb pages, or 0.
        hugetlb_errno: i32,
        /// Why there are no transparent ones.
        reason: NoHuge,
    },
    /// A peer's file is shorter than agreed.
    Short {
        /// Bytes agreed.
        needed_bytes: usize,
        /// Bytes found.
        found_bytes: usize,
    },
    /// A peer's file could shrink under the mapping.
    NotSealed,
}

impl MappingError {
    /// `call` has just failed.
    pub(super) fn last(call: &'static str, bytes: usize) -> Self {
        Self::Call { call, bytes, errno: Errno::last() }
    }

    /// Tells, where huge pages were required, why the hugetlb pool had none either.
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
                write!(f, "{call} for {bytes} bytes: {}", Errno(errno))?;
                match errno {
                    libc::ENOMEM | libc::ENOSPC | libc::EFAULT => f.write_str(
                        "; the memory is not there: ask for less, or raise the limits of the \
                         container or control group",
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
                "mbind to {node}: {}; choose a node that has memory, or none",
                Errno(errno)
            ),
            Self::NoHugePages { bytes, hugetlb_errno, reason } => {
                write!(f, "no huge pages for {bytes} bytes: {reason}")?;
                if hugetlb_errno != 0 {
                    write!(f, " (hugetlb: {})", Errno(hugetlb_errno))?;
                }
                // The count for the usual 2 MiB pages.
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
                "the peer's memory has {found_bytes} bytes of {needed_bytes}: \
                 open every owner with the same sizes"
            ),
            Self::NotSealed => f.write_str(
                "the peer's memory is not a sealed memfd and could vanish: \
                 share what `Mapping::shared` made",
            ),
        }
    }
}

impl Error for MappingError {}
