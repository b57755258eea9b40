//! Errors of mapping memory, with advice.

use super::NoHuge;
use crate::errno::Errno;
use crate::numa::NodeId;

/// The reason why memory could not be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum MappingError {
    /// The size is 0, or larger than an address space.
    #[error("cannot map {bytes} bytes: choose another size")]
    Size { bytes: usize },
    /// The machine has less memory. Providing the pages would end in the OOM killer.
    #[error(
        "cannot provide {bytes} bytes: this machine has {installed_bytes} bytes of memory and \
         swap; request less"
    )]
    TooLarge { bytes: usize, installed_bytes: u64 },
    /// A system call failed.
    #[error("cannot map {bytes} bytes: {call}: {}{}", Errno(*.errno), advice(*.errno))]
    Call { call: &'static str, bytes: usize, errno: i32 },
    /// The memory could not be bound to a NUMA node.
    #[error("cannot bind memory to {node}: {}; choose a node with memory, or none", Errno(*.errno))]
    Bind { node: NodeId, errno: i32 },
    /// Huge pages were required, and not all of the memory has them.
    #[error(
        "no huge pages for {bytes} bytes: {reason}{}; as root, add {} to `sysctl \
         vm.nr_hugepages`{}",
        .hugetlb_errno.map_or(String::new(), |errno| format!(" (hugetlb: {})", Errno(errno))),
        // The number of pages of the usual size, 2 MiB.
        .bytes.div_ceil(2 << 20),
        .reason.alternative()
    )]
    NoHugePages {
        bytes: usize,
        /// The error of mapping hugetlb pages, if that failed.
        hugetlb_errno: Option<i32>,
        reason: NoHuge,
    },
    /// A peer's file is shorter than expected.
    #[error(
        "the peer's memory has {found_bytes} bytes instead of {needed_bytes}: open every owner \
         with the same sizes"
    )]
    Short { needed_bytes: usize, found_bytes: usize },
    /// A peer's file could shrink under the mapping.
    #[error(
        "the peer's memory is not a sealed memfd, so it could shrink while it is used: share \
         memory of `Mapping::shared`"
    )]
    NotSealed,
}

impl MappingError {
    pub(super) fn no_huge(bytes: usize, reason: NoHuge) -> Self {
        Self::NoHugePages { bytes, hugetlb_errno: None, reason }
    }

    /// Adds the error of mapping hugetlb pages, if huge pages were required.
    pub(super) fn after(self, hugetlb: Self) -> Self {
        match (self, hugetlb) {
            (Self::NoHugePages { bytes, reason, .. }, Self::Call { errno, .. }) => {
                Self::NoHugePages { bytes, hugetlb_errno: Some(errno), reason }
            }
            _ => self,
        }
    }
}

fn advice(errno: i32) -> &'static str {
    match errno {
        libc::ENOMEM | libc::ENOSPC | libc::EFAULT => {
            "; memory is short: request less, or raise the limit of the container or control group"
        }
        libc::EMFILE | libc::ENFILE => "; raise `ulimit -n`",
        libc::EPERM | libc::ENOSYS => {
            "; the kernel or the container's seccomp filter refuses the call: allow it"
        }
        _ => "",
    }
}
