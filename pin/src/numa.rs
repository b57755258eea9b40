//! NUMA memory policy by system call: binds pages to a node, and reads the node of a page.

use core::ffi::{c_int, c_long, c_uint, c_ulong};
use core::fmt;
use core::ptr::NonNull;
use std::fs;

use crate::cpuset::{CpuId, CpuSet};
use crate::errno::Errno;
use crate::error::Error;

/// A NUMA node, by the kernel's number. Numbers may have gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The number of nodes of a mask: the maximum of any architecture (`CONFIG_NODES_SHIFT` is at most
/// 10).
const MAX_NODES: usize = 1024;
const WORD_BITS: usize = c_ulong::BITS as usize;

// mbind(2); libc has the modes but not these flags.
const MPOL_MF_STRICT: c_uint = 1;
const MPOL_MF_MOVE: c_uint = 2;
// get_mempolicy(2).
const MPOL_F_NODE: c_uint = 1;
const MPOL_F_ADDR: c_uint = 2;

/// Makes `node` the preferred node of the pages of a range, and moves pages of other nodes there.
/// `start` is page-aligned; the last page is bound as a whole.
///
/// The policy is `MPOL_PREFERRED`: if the node lacks memory or huge pages, the kernel uses another
/// node, which costs latency. Under `MPOL_BIND` the first access would raise SIGBUS or invoke the
/// OOM killer, long after this call. [`node_of`] reads the node of a page.
///
/// # Errors
/// The errno of mbind(2): `ENOSYS` and `EPERM` from a kernel without NUMA or a container's seccomp
/// filter, `EINVAL` for a node that is absent, without memory or outside the cpuset, `EIO` if some
/// pages could not be moved; the policy may be in force after `EIO`.
pub(crate) fn bind_range(start: NonNull<u8>, bytes: usize, node: NodeId) -> Result<(), i32> {
    let bit = node.0 as usize;
    let mut mask: [c_ulong; MAX_NODES / WORD_BITS] = [0; MAX_NODES / WORD_BITS];
    let Some(word) = mask.get_mut(bit / WORD_BITS) else { return Err(libc::EINVAL) };
    *word = 1 << (bit % WORD_BITS);
    // SAFETY: the kernel reads MAX_NODES bits of `mask`, which outlives the call. It changes
    // neither contents nor access rights of the range.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start.as_ptr(),
            bytes,
            c_long::from(libc::MPOL_PREFERRED),
            mask.as_ptr(),
            // The kernel uses one bit less than this number.
            MAX_NODES + 1,
            MPOL_MF_STRICT | MPOL_MF_MOVE,
        )
    };
    if done == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// Returns whether the cpuset of this process contains `node` (`Mems_allowed_list` in
/// proc_pid_status(5)); mbind(2) to another node is an error. True if the file cannot be read.
#[must_use]
pub fn may_bind(node: NodeId) -> bool {
    fs::read_to_string("/proc/self/status").map_or(true, |status| is_allowed(&status, node))
}

fn is_allowed(status: &str, node: NodeId) -> bool {
    let list = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    // Nodes are listed in the format of CPU lists.
    let nodes: Option<CpuSet> = list.and_then(|list| list.trim().parse().ok());
    nodes.is_none_or(|nodes| nodes.contains(CpuId(node.0)))
}

/// Returns the node of the page at `address`.
///
/// The page must have been written: otherwise an anonymous page is the kernel's shared zero page.
/// See get_mempolicy(2).
///
/// # Errors
/// [`Error::PageNode`]: `ENOSYS` or `EPERM` from a kernel without NUMA or in a container, `EFAULT`
/// without a page.
pub fn node_of(address: NonNull<u8>) -> Result<NodeId, Error> {
    let mut node: c_int = -1;
    // SAFETY: the kernel writes one int to `node`; with no mask and `MPOL_F_ADDR` it touches the
    // page at `address` as a read would, and reports EFAULT where nothing is mapped.
    let done = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            core::ptr::null_mut::<c_ulong>(),
            0 as c_ulong,
            address.as_ptr(),
            c_ulong::from(MPOL_F_NODE | MPOL_F_ADDR),
        )
    };
    if done != 0 {
        return Err(Error::PageNode { errno: Errno::last() });
    }
    u32::try_from(node).map(NodeId).map_err(|_| Error::PageNode { errno: libc::EFAULT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::refusing;

    #[test]
    fn recognizes_disallowed_nodes() {
        let status = "Name:\tx\nMems_allowed:\t00000000,00000005\nMems_allowed_list:\t0,2\n";
        let allowed = [0, 1, 2, 1023].map(|node| is_allowed(status, NodeId(node)));
        assert_eq!(allowed, [true, false, true, false]);
        assert!(is_allowed("Name:\tx\n", NodeId(1)), "without the list, mbind decides");
        assert!(!may_bind(NodeId(1023)));
    }

    /// Leaves binding to the tests of mappings, which bind to nodes that exist and to others.
    #[test]
    fn refuses_wrong_nodes_and_addresses() {
        // The mask has no bit for this node, so there is no system call.
        let beyond = NodeId(u32::try_from(MAX_NODES).unwrap());
        assert_eq!(bind_range(NonNull::dangling(), 4096, beyond), Err(libc::EINVAL));
        assert!(matches!(node_of(NonNull::dangling()), Err(Error::PageNode { .. })));
        for errno in [libc::ENOSYS, libc::EPERM] {
            let asked = refusing(libc::SYS_get_mempolicy, errno, || node_of(NonNull::dangling()));
            assert_eq!(asked, Err(Error::PageNode { errno }));
        }
    }
}
