//! Which core and which NUMA node each process of a machine gets, and the memory that goes with
//! it: topology, placement, pinning, page placement.
//!
//! Take the process's [`Affinity`] before anything pins, read the machine's [`Topology`], let
//! [`place`] choose, then [`Affinity::pin`] and map memory on [`Placement::memory`]. Everything
//! here is set-up; nothing belongs on a data path.
//!
//! Containers often forbid memory policies and hide parts of `/sys` and `/proc`. Memory is mapped
//! nevertheless: [`Mapping::policy_refused`] and [`Mapping::pages`] say what is missing. For a
//! machine whose `/sys` cannot be read use [`Topology::of_cpus`]. The caller decides whether to
//! continue unpinned.
//!
//! The default build needs no system library: it reads sysfs and makes system calls. The feature
//! `hwloc` adds `hwloc::survey`, the same topology as hwloc sees it with caches and devices; it
//! needs libhwloc and libudev with their headers, and pkg-config. It uses `hwlocality`: the better
//! known `hwloc2` (2.2.0) cannot list NUMA nodes or bind memory, and safe calls of it corrupt memory.

mod affinity;
mod cpuset;
mod device;
mod errno;
#[cfg(feature = "hwloc")]
pub mod hwloc;
mod mapping;
mod numa;
mod placement;
mod sysfs;
mod topology;

pub use affinity::{Affinity, AffinityError};
pub use cpuset::{CpuId, CpuListError, CpuSet};
pub use device::device_node;
pub use mapping::{HugePages, Mapping, MappingError, MemoryPolicy, NoHuge, Pages};
pub use numa::{NodeId, NumaError, PolicyRefused, may_bind, node_of};
pub use placement::{MAX_RANKS, Placement, PlacementError, Sharing, place};
pub use sysfs::TopologyError;
pub use topology::{Core, HugePagePool, Node, Topology};
