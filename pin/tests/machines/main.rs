//! Topology and placement on recorded machines and on unusual ones.

mod oddities;
mod recorded;
mod tree;

use std::path::Path;

use probeline_pin::{Affinity, CpuId, CpuSet, NodeId, Sharing, Topology};
use tree::Tree;

fn topology(tree: &Tree) -> Topology {
    Topology::from_sysfs(tree.root()).unwrap()
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn node_cpus(topology: &Topology, id: u32) -> String {
    topology.node(NodeId(id)).unwrap().cpus.to_string()
}

fn node_numbers<'a>(nodes: impl IntoIterator<Item = &'a probeline_pin::Node>) -> Vec<u32> {
    nodes.into_iter().map(|node| node.id.0).collect()
}

/// Places `ranks` ranks, and returns their CPUs and nodes.
fn placed(topology: &Topology, ranks: u32, near: Option<u32>) -> Vec<(u32, u32)> {
    let all = topology.cpus();
    let placements = probeline_pin::place(topology, &all, ranks, near.map(NodeId)).unwrap();
    placements.iter().map(|p| (p.cpu.0, p.node.0)).collect()
}

/// Returns the core of a CPU, as a list of its hardware threads.
fn core_of(topology: &Topology, cpu: u32) -> String {
    let cores = topology.cores().iter();
    let mut of_cpu = cores.filter(|core| core.cpus.contains(CpuId(cpu)));
    let core = of_cpu.next().unwrap();
    assert_eq!(of_cpu.next(), None);
    core.cpus.to_string()
}

#[test]
fn topology_has_allowed_cpus() {
    let topology = Topology::from_sysfs(Path::new("/sys")).unwrap();
    let affinity = Affinity::take().unwrap();
    assert_eq!(affinity.allowed().difference(&topology.cpus()), CpuSet::default());
    let placements = probeline_pin::place(&topology, affinity.allowed(), 1, None).unwrap();
    assert!(affinity.allowed().contains(placements[0].cpu));
    assert_eq!(placements[0].sharing, Sharing::Alone);
}
