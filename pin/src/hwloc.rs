//! The caches and devices of a machine, as hwloc reports them. Its nodes and cores are those of sysfs.

use std::collections::BTreeSet;

use hwlocality::Topology as Hwloc;
use hwlocality::errors::{HybridError, RawHwlocError};
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::depth::NormalDepth;
use hwlocality::object::types::{CacheType, OSDeviceType, ObjectType};
use hwlocality::topology::builder::{BuildFlags, TypeFilter};

use crate::{CpuId, CpuSet, Error, NodeId};

/// The caches and devices of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The CPU caches, from the first level up.
    pub caches: Vec<Cache>,
    /// The important devices: network, RDMA, storage, GPU.
    pub devices: Vec<Device>,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The level; 1 is nearest to the core.
    pub level: usize,
    /// Whether it holds data, instructions, or both.
    pub kind: CacheKind,
    /// Its size in bytes, if known.
    pub bytes: Option<u64>,
    /// The CPUs that share it.
    pub cpus: CpuSet,
}

/// The content of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Data and instructions.
    Unified,
    /// Data.
    Data,
    /// Instructions.
    Instruction,
}

/// One device of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, such as `mlx5_0` or `eth0`.
    pub name: String,
    /// Whether it is a network interface, an RDMA device, or another kind.
    pub kind: DeviceKind,
    /// Its PCI address, such as `0000:81:00.0`.
    pub pci: Option<String>,
    /// The node whose CPUs are nearest, if that is one node.
    pub node: Option<NodeId>,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A network interface.
    Network,
    /// An RDMA device.
    Rdma,
    /// A disk or a memory device.
    Storage,
    /// A GPU or another co-processor.
    Gpu,
    /// Any other device.
    Other,
}

/// Describes this machine, including CPUs that this process may not use.
///
/// # Errors
/// [`Error::Hwloc`](crate::Error::Hwloc): a call of the library failed.
pub fn survey() -> Result<Survey, Error> {
    let hwloc = Hwloc::builder()
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)?
        .with_cpu_icache_type_filter(TypeFilter::KeepAll)?
        .with_io_type_filter(TypeFilter::KeepImportant)?
        .build()?;
    Ok(survey_of(&hwloc))
}

fn survey_of(hwloc: &Hwloc) -> Survey {
    let devices = hwloc.os_devices().filter_map(|object| device(hwloc, object)).collect();
    Survey { caches: caches(hwloc), devices }
}

fn caches(hwloc: &Hwloc) -> Vec<Cache> {
    let mut caches = Vec::new();
    let depths = NormalDepth::iter_range(NormalDepth::MIN, hwloc.depth());
    for object in depths.flat_map(|depth| hwloc.objects_at_depth(depth)) {
        let Some(ObjectAttributes::Cache(cache)) = object.attributes() else { continue };
        let kind = match cache.cache_type() {
            CacheType::Data => CacheKind::Data,
            CacheType::Instruction => CacheKind::Instruction,
            _ => CacheKind::Unified,
        };
        let bytes = cache.size().map(u64::from);
        caches.push(Cache { level: cache.depth(), kind, bytes, cpus: cpus(object) });
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn device(hwloc: &Hwloc, object: &TopologyObject) -> Option<Device> {
    let Some(ObjectAttributes::OSDevice(device)) = object.attributes() else { return None };
    let kind = match device.device_type() {
        OSDeviceType::Network => DeviceKind::Network,
        OSDeviceType::OpenFabrics => DeviceKind::Rdma,
        OSDeviceType::Storage => DeviceKind::Storage,
        OSDeviceType::GPU | OSDeviceType::CoProcessor => DeviceKind::Gpu,
        _ => DeviceKind::Other,
    };
    // The CPUs nearest to the device; if they are of several nodes, its node is unknown.
    let nearby = object.first_non_io_ancestor().map(cpus).unwrap_or_default();
    let near = |unit: &&TopologyObject| cpus(unit).iter().all(|cpu| nearby.contains(cpu));
    let units = hwloc.objects_with_type(ObjectType::PU).filter(near);
    let nodes: BTreeSet<NodeId> = units.filter_map(home).collect();
    Some(Device {
        name: object.name()?.to_string_lossy().into_owned(),
        kind,
        pci: object.ancestors().find_map(pci_address),
        node: nodes.first().copied().filter(|_| nodes.len() == 1),
    })
}

fn pci_address(object: &TopologyObject) -> Option<String> {
    let Some(ObjectAttributes::PCIDevice(pci)) = object.attributes() else { return None };
    let (domain, bus) = (pci.domain(), pci.bus_id());
    Some(format!("{domain:04x}:{bus:02x}:{:02x}.{}", pci.bus_device(), pci.function()))
}

/// Returns the node of the CPUs of `object` in Linux. hwloc lists all memory near them; the kernel
/// numbers DRAM before HBM and CXL memory.
fn home(object: &TopologyObject) -> Option<NodeId> {
    let node = object.nodeset()?.first_set()?;
    u32::try_from(usize::from(node)).ok().map(NodeId)
}

fn cpus(object: &TopologyObject) -> CpuSet {
    let Some(set) = object.cpuset() else { return CpuSet::default() };
    set.iter_set().filter_map(|cpu| u32::try_from(usize::from(cpu)).ok()).map(CpuId).collect()
}

impl From<RawHwlocError> for Error {
    fn from(error: RawHwlocError) -> Self {
        Self::Hwloc { call: error.api, errno: error.errno.map(|errno| errno.0) }
    }
}

impl<E: core::error::Error> From<HybridError<E>> for Error {
    fn from(error: HybridError<E>) -> Self {
        match error {
            HybridError::Hwloc(error) => error.into(),
            // An invalid argument; all arguments are constants here.
            HybridError::Rust(_) => Self::Hwloc { call: "hwlocality", errno: Some(libc::EINVAL) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Core, Node, Topology, device_node};
    use std::path::Path;

    /// Returns the nodes and cores as hwloc reports them. It omits nodes without memory and their
    /// CPUs, and does not report free huge pages.
    fn topology(hwloc: &Hwloc) -> Topology {
        let l3_groups = hwloc.objects_with_type(ObjectType::L3Cache).map(cpus).collect();
        let nodes = nodes(hwloc).unwrap();
        Topology { nodes, cores: cores(hwloc), l3_groups, reports_numa: true }
    }

    fn nodes(hwloc: &Hwloc) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        for object in hwloc.objects_with_type(ObjectType::NUMANode) {
            let Some(id) = node_id(object) else { continue };
            let Some(ObjectAttributes::NUMANode(numa)) = object.attributes() else { continue };
            // hwloc reports a neighbour's CPUs for memory without CPUs; they have their own node.
            let own = hwloc.objects_with_type(ObjectType::PU).filter(|pu| home(pu) == Some(id));
            nodes.push(Node {
                id,
                cpus: own.filter_map(os_number).map(CpuId).collect(),
                memory_bytes: Some(numa.local_memory().map_or(0, u64::from)),
                huge_pages: Vec::new(),
                distances: distances(hwloc, id)?,
            });
        }
        nodes.sort_by_key(|node| node.id);
        Ok(nodes)
    }

    /// Returns the distances from one node, by the firmware's table.
    fn distances(hwloc: &Hwloc, from: NodeId) -> Result<Vec<(NodeId, u32)>, Error> {
        let matrices = hwloc.distances_with_name("NUMALatency")?;
        let Some(matrix) = matrices.first() else { return Ok(Vec::new()) };
        let ids: Vec<Option<NodeId>> =
            matrix.objects().map(|node| node.and_then(node_id)).collect();
        let mut row = Vec::new();
        for ((sender, receiver), distance) in matrix.enumerate_distances() {
            if ids[sender] == Some(from) {
                row.extend(ids[receiver].zip(u32::try_from(distance).ok()));
            }
        }
        row.sort_unstable();
        Ok(row)
    }

    fn cores(hwloc: &Hwloc) -> Vec<Core> {
        let core = |object: &TopologyObject| {
            let package = object.first_ancestor_with_type(ObjectType::Package);
            Some(Core {
                cpus: cpus(object),
                node: home(object)?,
                package: package.and_then(os_number),
            })
        };
        let mut cores: Vec<Core> =
            hwloc.objects_with_type(ObjectType::Core).filter_map(core).collect();
        cores.sort_by_key(|core| (core.node, core.cpus.first()));
        cores
    }

    fn node_id(object: &TopologyObject) -> Option<NodeId> {
        os_number(object).map(NodeId)
    }

    fn os_number(object: &TopologyObject) -> Option<u32> {
        u32::try_from(object.os_index()?).ok()
    }

    /// Removes what only one of the two reports: nodes without memory, huge pages, and the distance
    /// of a single node.
    fn common(mut topology: Topology) -> Topology {
        topology.nodes.retain(Node::has_memory);
        let alone = topology.nodes.len() == 1;
        for node in &mut topology.nodes {
            node.huge_pages.clear();
            node.distances.retain(|_| !alone);
        }
        let known: Vec<NodeId> = topology.nodes.iter().map(|node| node.id).collect();
        topology.cores.retain(|core| known.contains(&core.node));
        topology
    }

    #[test]
    fn agrees_with_sysfs() {
        let sys = Path::new("/sys");
        let hwloc = Hwloc::builder().with_flags(BuildFlags::INCLUDE_DISALLOWED).unwrap();
        let hwloc = topology(&hwloc.build().unwrap());
        assert_eq!(common(hwloc), common(Topology::from_sysfs(sys).unwrap()));
        for device in
            survey().unwrap().devices.iter().filter(|device| device.kind == DeviceKind::Network)
        {
            // On a machine with one node, hwloc reports that node also for a card without one.
            let node = device_node(sys, &device.name).unwrap();
            assert!(node.is_none() || node == device.node, "{device:?} {node:?}");
        }
    }

    #[test]
    fn lists_caches_per_package() {
        let description = "Package:2 [NUMANode(memory=1GB)] L3:2 Core:2 PU:2";
        let hwloc = Hwloc::builder().from_synthetic(description).unwrap().build().unwrap();
        let caches = survey_of(&hwloc).caches;
        let level_3 = caches.iter().filter(|cache| cache.level == 3);
        let cpus: Vec<String> = level_3.map(|cache| cache.cpus.to_string()).collect();
        assert_eq!(cpus, ["0-3", "4-7", "8-11", "12-15"]);
    }

    #[test]
    fn hbm_cpus_belong_to_dram() {
        // Firmware numbers the DRAM of all packages first, then the HBM.
        let hbm = "Package:2 [NUMANode(memory=4GB indexes=0,2,1,3)] [NUMANode(memory=1GB)] PU:2";
        let cxl = "[NUMANode(memory=4GB)] Package:2 [NUMANode(memory=1GB)] PU:2";
        for (description, expected) in
            [(hbm, ["0-1", "2-3", "", ""].as_slice()), (cxl, &["0-1", "2-3", ""])]
        {
            let hwloc = Hwloc::builder().from_synthetic(description).unwrap().build().unwrap();
            let nodes = nodes(&hwloc).unwrap();
            let cpus: Vec<String> = nodes.iter().map(|node| node.cpus.to_string()).collect();
            assert_eq!(cpus, expected, "{description}");
        }
    }
}
