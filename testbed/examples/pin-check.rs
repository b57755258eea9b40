//! Checks, on a machine with two NUMA nodes and huge pages in both, that `pin` puts memory where it
//! is asked to. The device is on node 1.

use core::ptr::NonNull;
use std::path::Path;

use probeline_pin::{
    Affinity, HugePages, Mapping, MemoryPolicy, NodeId, Pages, Topology, device_node, node_of,
    place,
};
use probeline_testbed::{Failure, ensure};

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
const BASE_PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

fn main() -> Result<(), Failure> {
    let sysfs = Path::new("/sys");
    let affinity = Affinity::take()?;
    let topology = Topology::from_sysfs(sysfs)?;
    let found: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
    ensure(found == NODES, || format!("the nodes are {found:?}"))?;
    ensure(topology.nodes()[0].distance_to(NODES[1]) == Some(21), || topology.to_string())?;

    for device in ["rxe0", "eth0"] {
        let node = device_node(sysfs, device)?;
        ensure(node == Some(NODES[1]), || format!("{device} is on {node:?}"))?;
    }
    for node in NODES {
        base_pages(node)?;
        huge_pages(sysfs, node)?;
    }
    for placement in place(&topology, affinity.allowed(), 2, Some(NODES[1]))? {
        affinity.pin(placement.cpu)?;
        first_touch(placement.node)?;
    }
    println!("all of it holds");
    Ok(())
}

fn base_pages(node: NodeId) -> Result<(), Failure> {
    let policy = MemoryPolicy { node: Some(node), huge: HugePages::Never };
    lies_on(&Mapping::anonymous(4 << 20, &policy)?, BASE_PAGE, node)?;
    let (shared, file) = Mapping::shared(4 << 20, &policy)?;
    lies_on(&shared, BASE_PAGE, node)?;
    use std::os::fd::AsFd;
    lies_on(&Mapping::from_fd(file.as_fd(), 4 << 20)?, BASE_PAGE, node)
}

fn huge_pages(sysfs: &Path, node: NodeId) -> Result<(), Failure> {
    const PAGES: usize = 4;
    let before = free_pages(sysfs)?;
    let policy = MemoryPolicy { node: Some(node), huge: HugePages::Require };
    let (mapping, _file) = Mapping::shared(PAGES * HUGE_PAGE, &policy)?;
    let pages = mapping.pages();
    ensure(pages == Pages::HugeTlb { page_bytes: HUGE_PAGE }, || format!("{pages:?}"))?;
    lies_on(&mapping, HUGE_PAGE, node)?;
    let after = free_pages(sysfs)?;
    for (id, (before, after)) in NODES.into_iter().zip(before.into_iter().zip(after)) {
        let expected = if id == node { PAGES as u64 } else { 0 };
        ensure(before - after == expected, || format!("{id}: {before}, then {after} free"))?;
    }
    Ok(())
}

/// Huge pages that each node has free.
fn free_pages(sysfs: &Path) -> Result<Vec<u64>, Failure> {
    let free = |pool: &probeline_pin::HugePagePool| {
        (pool.page_bytes == HUGE_PAGE as u64).then_some(pool.free)
    };
    let topology = Topology::from_sysfs(sysfs)?;
    let pools = topology.nodes().iter().map(|node| node.huge_pages.iter().find_map(free));
    let pools: Option<Vec<u64>> = pools.collect();
    pools.ok_or_else(|| Failure("a node has no pool of huge pages".to_owned()))
}

fn first_touch(node: NodeId) -> Result<(), Failure> {
    let policy = MemoryPolicy { node: None, huge: HugePages::Never };
    lies_on(&Mapping::anonymous(1 << 20, &policy)?, BASE_PAGE, node)
}

/// Fails unless the kernel says of each page that it is on `node`.
fn lies_on(mapping: &Mapping, page_bytes: usize, node: NodeId) -> Result<(), Failure> {
    for (index, words) in mapping.words().chunks(page_bytes / 8).enumerate() {
        let found = node_of(NonNull::from(&words[0]).cast())?;
        ensure(found == node, || format!("page {index} is on {found}, not on {node}"))?;
    }
    Ok(())
}
