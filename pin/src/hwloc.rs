//! The caches and devices of a machine, as hwloc reports them. Its nodes and cores are those of sysfs.

use std::collections::BTreeSet;

use hwlocality::Topology as Hwloc;
use hwlocality::errors::{HybridError, RawHwlocError};
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::depth::NormalDepth;
use hwlocality::object::types::{OSDeviceType, ObjectType};
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
    /// Whether it holds `Data`, `Instruction`, or both (`Unified`).
    pub kind: String,
    /// Its size in bytes, if known.
    pub bytes: Option<u64>,
    /// The CPUs that share it.
    pub cpus: CpuSet,
}

/// One device of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, such as `mlx5_0` or `eth0`.
    pub name: String,
    /// Its kind: `Network`, `Rdma`, `Storage`, `Gpu` or `Other`.
    pub kind: &'static str,
    /// Its PCI address, such as `0000:81:00.0`.
    pub pci: Option<String>,
    /// The node whose CPUs are nearest, if that is one node.
    pub node: Option<NodeId>,
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
        let kind = format!("{:?}", cache.cache_type());
        let bytes = cache.size().map(u64::from);
        caches.push(Cache { level: cache.depth(), kind, bytes, cpus: cpus(object) });
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn device(hwloc: &Hwloc, object: &TopologyObject) -> Option<Device> {
    let Some(ObjectAttributes::OSDevice(device)) = object.attributes() else { return None };
    let kind = match device.device_type() {
        OSDeviceType::Network => "Network",
        OSDeviceType::OpenFabrics => "Rdma",
        OSDeviceType::Storage => "Storage",
        OSDeviceType::GPU | OSDeviceType::CoProcessor => "Gpu",
        _ => "Other",
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
    use crate::{Topology, device_node};
    use std::path::Path;

    /// Compares caches and devices only: the tests of recorded machines cover the nodes and cores of sysfs.
    #[test]
    fn agrees_with_sysfs() {
        let sys = Path::new("/sys");
        let groups = Topology::from_sysfs(sys).unwrap().l3_groups;
        let Survey { caches, devices } = survey().unwrap();
        let level_3 = caches.into_iter().filter(|cache| cache.level == 3).map(|cache| cache.cpus);
        assert!(groups.into_iter().eq(level_3));
        for device in devices.iter().filter(|device| device.kind == "Network") {
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
            let mut cpus = vec![CpuSet::default(); expected.len()];
            for unit in hwloc.objects_with_type(ObjectType::PU) {
                cpus[home(unit).unwrap().0 as usize].extend(super::cpus(unit).iter());
            }
            let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            assert_eq!(cpus, expected, "{description}");
        }
    }
}
