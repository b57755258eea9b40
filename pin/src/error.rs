//! The error of this crate, with advice.

use std::path::PathBuf;

use crate::errno::Errno;
use crate::{CpuId, CpuSet, MAX_RANKS, NoHuge, NodeId};

/// The reason why a thread could not be pinned, memory not be mapped, or a machine not be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// A text that is not a CPU list.
    #[error(
        "cannot parse the cpu list {list:?}: write it as 0-3,8, with ascending ranges of numbers \
         up to {}",
        CpuSet::MAX_CPUS - 1
    )]
    CpuList { list: String },
    /// The affinity mask could not be read.
    #[error("cannot read the affinity mask: {}", Errno(*.errno))]
    Affinity { errno: i32 },
    /// This process may not use the CPU.
    #[error("cannot pin to {cpu}: this process may not use it; check taskset and the job's cpuset")]
    NotAllowed { cpu: CpuId },
    /// The kernel refused the CPU: it went offline, or left the process's cpuset.
    #[error("cannot pin to {cpu}: {}", Errno(*.errno))]
    Pin { cpu: CpuId, errno: i32 },
    /// The kernel accepted the CPU, but the mask is another one.
    #[error("pinned to {cpu}, but the thread may run on {now}; another program changed its mask")]
    Elsewhere { cpu: CpuId, now: CpuSet },
    /// None of the allowed CPUs is in the topology.
    #[error(
        "none of the cpus that this process may use is online: compare taskset -p with the \
         topology"
    )]
    NoCpu,
    /// The topology has no such node.
    #[error("this machine has no {node}: choose one of the topology")]
    UnknownNode { node: NodeId },
    /// More ranks than [`MAX_RANKS`].
    #[error("{ranks} ranks on one machine are more than {MAX_RANKS}: start fewer")]
    TooManyRanks { ranks: u32 },
    /// A file of sysfs could not be read.
    #[error("cannot read {}: {}", .path.display(), Errno(*.errno))]
    Read { path: PathBuf, errno: i32 },
    /// The content of a file of sysfs is malformed.
    #[error("{} does not contain {expected}", .path.display())]
    Malformed { path: PathBuf, expected: &'static str },
    /// No RDMA device or network interface has this name.
    #[error(
        "no RDMA device or network interface has the name {name}: list them with rdma link and ip \
         link"
    )]
    NoSuchDevice { name: String },
    /// A call of hwloc failed.
    #[cfg(feature = "hwloc")]
    #[error("hwloc failed in {call}{}", .errno.map_or(String::new(), |e| format!(": {}", Errno(e))))]
    Hwloc {
        call: &'static str,
        /// The error of the system, if there is one.
        errno: Option<i32>,
    },
    /// The node of a page could not be determined.
    #[error("cannot determine the node of a page: {}{}", Errno(*.errno), page_advice(*.errno))]
    PageNode { errno: i32 },
    /// Memory could not be bound to a NUMA node.
    #[error("cannot bind memory to {node}: {}; {}", Errno(*.errno), bind_advice(*.errno))]
    Bind { node: NodeId, errno: i32 },
    /// The size of a mapping is 0, or larger than an address space.
    #[error("cannot map {bytes} bytes: choose another size")]
    Size { bytes: usize },
    /// The machine has less memory. Providing the pages would end in the OOM killer.
    #[error(
        "cannot provide {bytes} bytes: this machine has {installed_bytes} bytes of memory and \
         swap; request less"
    )]
    TooLarge { bytes: usize, installed_bytes: u64 },
    /// A system call failed that maps memory.
    #[error("cannot map {bytes} bytes: {call}: {}{}", Errno(*.errno), map_advice(*.errno))]
    Map { call: &'static str, bytes: usize, errno: i32 },
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

fn page_advice(errno: i32) -> &'static str {
    match errno {
        _ if Errno(errno).is_refusal() => {
            "; in a container, allow get_mempolicy or grant CAP_SYS_NICE"
        }
        libc::EFAULT => "; no page is mapped at the address",
        _ => "",
    }
}

fn bind_advice(errno: i32) -> &'static str {
    if Errno(errno).is_refusal() {
        // Memory is mapped nevertheless: `Mapping::policy_refused`.
        return "containers often forbid this. Continuing without a NUMA policy.";
    }
    "choose a node with memory, or none"
}

fn map_advice(errno: i32) -> &'static str {
    match errno {
        libc::ENOMEM | libc::ENOSPC | libc::EFAULT => {
            "; memory is short: request less, or raise the limit of the container or control group"
        }
        libc::EMFILE | libc::ENFILE => "; raise `ulimit -n`",
        _ if Errno(errno).is_refusal() => {
            "; the kernel or the container's seccomp filter refuses the call: allow it"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_advice() {
        let text = |error: Error| error.to_string();
        let map = |errno| Error::Map { call: "mmap", bytes: 8, errno };
        assert!(text(map(libc::ENOMEM)).contains("request less"));
        assert!(text(map(libc::EMFILE)).contains("ulimit -n"));
        let no_huge =
            |reason| Error::NoHugePages { bytes: 3 << 20, hugetlb_errno: Some(12), reason };
        assert!(text(no_huge(NoHuge::SharedOff)).contains("add 2 to `sysctl vm.nr_hugepages`"));
        assert!(text(no_huge(NoHuge::SharedOff)).contains("advise >"));
        assert!(text(no_huge(NoHuge::PrivateOff)).contains("madvise >"));
        assert!(text(no_huge(NoHuge::Small)).contains("Cannot allocate memory"));
        assert!(text(Error::PageNode { errno: libc::ENOSYS }).contains("allow get_mempolicy"));
        assert!(text(Error::PageNode { errno: libc::EFAULT }).contains("no page is mapped"));
        let bind = |errno| text(Error::Bind { node: NodeId(0), errno });
        assert!(bind(libc::EINVAL).contains("choose a node with memory"));
        assert_eq!(
            bind(libc::EPERM),
            "cannot bind memory to node 0: Operation not permitted (EPERM); containers often forbid \
             this. Continuing without a NUMA policy."
        );
    }
}
