//! Memory of `pin` on a machine with two NUMA nodes, huge pages on both, and the device on node 1.

use core::ptr::NonNull;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use probeline_pin::{
    Affinity, HugePagePool, HugePages, Mapping, MemoryPolicy, NodeId, Pages, Topology, node_of,
    place,
};

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
const BASE_PAGE_BYTES: usize = 4096;
const HUGE_PAGE_BYTES: usize = 2 << 20;

pub(crate) fn run() -> Result<()> {
    let sysfs = Path::new("/sys");
    let affinity = Affinity::take()?;
    let topology = Topology::from_sysfs(sysfs)?;
    let found: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
    ensure!(found == NODES, "the nodes are {found:?}");
    ensure!(topology.nodes()[0].distance_to(NODES[1]) == Some(21), "{topology}");

    for node in NODES {
        base_pages(node)?;
        huge_pages(sysfs, node)?;
    }
    for placement in place(&topology, affinity.allowed(), 2, Some(NODES[1]))? {
        affinity.pin(placement.cpu)?;
        first_touch(placement.node)?;
    }
    println!("all memory is on the requested nodes");
    Ok(())
}

fn base_pages(node: NodeId) -> Result<()> {
    let policy = MemoryPolicy { node: Some(node), huge: HugePages::Never };
    check_node(&Mapping::anonymous(4 << 20, &policy)?, BASE_PAGE_BYTES, node)?;
    let (shared, file) = Mapping::shared(4 << 20, &policy)?;
    check_node(&shared, BASE_PAGE_BYTES, node)?;
    check_node(&Mapping::from_fd(file.as_fd(), 4 << 20)?, BASE_PAGE_BYTES, node)
}

fn huge_pages(sysfs: &Path, node: NodeId) -> Result<()> {
    const PAGES: usize = 4;
    let before = free_huge_pages(sysfs)?;
    let policy = MemoryPolicy { node: Some(node), huge: HugePages::Require };
    let (mapping, _file) = Mapping::shared(PAGES * HUGE_PAGE_BYTES, &policy)?;
    let pages = mapping.pages();
    ensure!(pages == Pages::HugeTlb { page_bytes: HUGE_PAGE_BYTES }, "the pages are {pages:?}");
    check_node(&mapping, HUGE_PAGE_BYTES, node)?;
    let after = free_huge_pages(sysfs)?;
    for (id, (before, after)) in NODES.into_iter().zip(before.into_iter().zip(after)) {
        let expected = if id == node { PAGES as u64 } else { 0 };
        ensure!(before - after == expected, "{id}: {before} free huge pages, then {after}");
    }
    Ok(())
}

/// Returns the free huge pages of each node.
fn free_huge_pages(sysfs: &Path) -> Result<Vec<u64>> {
    let free =
        |pool: &HugePagePool| (pool.page_bytes == HUGE_PAGE_BYTES as u64).then_some(pool.free);
    let topology = Topology::from_sysfs(sysfs)?;
    let pools = topology.nodes().iter().map(|node| node.huge_pages.iter().find_map(free));
    pools.collect::<Option<_>>().context("a node has no pool of huge pages")
}

fn first_touch(node: NodeId) -> Result<()> {
    let policy = MemoryPolicy { node: None, huge: HugePages::Never };
    check_node(&Mapping::anonymous(1 << 20, &policy)?, BASE_PAGE_BYTES, node)
}

/// Fails unless the kernel reports every page of the mapping on `node`.
fn check_node(mapping: &Mapping, page_bytes: usize, node: NodeId) -> Result<()> {
    for (index, words) in mapping.words().chunks(page_bytes / 8).enumerate() {
        let found = node_of(NonNull::from(&words[0]).cast())?;
        ensure!(found == node, "page {index} is on {found}, not on {node}");
    }
    Ok(())
}
