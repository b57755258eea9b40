//! Pins ranks to CPUs, and memory to NUMA nodes and huge pages.
//!
//! Read the process's [`Affinity`] before any thread is pinned, read the machine's [`Topology`], let
//! [`place`] choose a CPU for each rank, then call [`Affinity::pin`] and map memory on
//! [`Placement::memory`]. All of this is set-up; nothing is on a data path.
//!
//! Containers often forbid memory policies and hide parts of `/sys` and `/proc`. Memory is mapped
//! nevertheless: [`Mapping::policy_refused`] and [`Mapping::pages`] report what was refused. For a
//! machine whose `/sys` cannot be read use [`Topology::from_cpus`]. The caller decides whether to
//! continue unpinned.
//!
//! The default build needs no system library: it reads sysfs and makes system calls. The feature
//! `hwloc` adds `hwloc::survey`, which lists caches and devices. It needs libhwloc and libudev with
//! their headers, and pkg-config. It uses `hwlocality`, because the better known `hwloc2` (2.2.0)
//! cannot list NUMA nodes, and safe calls of it corrupt memory.

mod affinity;
mod cpuset;
mod errno;
mod error;
#[cfg(feature = "hwloc")]
pub mod hwloc;
mod mapping;
mod numa;
mod placement;
mod sysfs;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod topology;

pub use affinity::Affinity;
pub use cpuset::{CpuId, CpuSet};
pub use error::Error;
pub use mapping::{HugePages, Mapping, MemoryPolicy, NoHuge, Pages, memory_available};
pub use numa::{NodeId, may_bind, node_of};
pub use placement::{MAX_RANKS, Placement, Sharing, place};
pub use sysfs::device_node;
pub use topology::{Core, HugePagePool, Node, Topology};
