//! Chooses the CPU and the node of each rank of this machine.

use crate::cpuset::{CpuId, CpuSet};
use crate::error::Error;
use crate::numa::NodeId;
use crate::topology::{Node, Topology};

/// The maximum number of ranks of one machine, the kernel's default `pid_max`. The bound prevents a
/// mistyped number from exhausting memory.
pub const MAX_RANKS: u32 = 1 << 15;

/// The place of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The CPU to pin to.
    pub cpu: CpuId,
    /// The node of that CPU.
    pub node: NodeId,
    /// The node of its memory: `node`, or the nearest node with memory if `node` has none.
    /// `None` if the kernel reports no nodes.
    pub memory: Option<NodeId>,
    /// Whether it shares its core.
    pub sharing: Sharing,
}

/// Whether a rank shares its core with other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// No other rank runs on the core.
    Alone,
    /// Another rank runs on another hardware thread of the core: both are slower.
    Core,
    /// Another rank runs on the same CPU: while one polls, the other does not run.
    Cpu,
}

/// Chooses a CPU for each of `ranks` processes, in the order of ranks.
///
/// Only CPUs in `allowed` are used. Every physical core gets a rank before a second hardware thread
/// of any core does, and every hardware thread before a CPU gets a second rank. Each node gets a
/// contiguous block of ranks (the first node the first ranks), and the blocks are as even as the
/// nodes allow. With `near`, such as the node of the network card, its cores are filled first, then
/// those of the node nearest to it, and so on.
///
/// # Errors
/// [`Error::TooManyRanks`], [`Error::UnknownNode`] for `near`, [`Error::NoCpu`] if no CPU is allowed.
pub fn place(
    topology: &Topology,
    allowed: &CpuSet,
    ranks: u32,
    near: Option<NodeId>,
) -> Result<Vec<Placement>, Error> {
    if ranks > MAX_RANKS {
        return Err(Error::TooManyRanks { ranks });
    }
    let nodes: Vec<&Node> = match near {
        None => topology.nodes().iter().collect(),
        Some(id) if topology.node(id).is_some() => topology.nodes_by_distance(id),
        Some(node) => return Err(Error::UnknownNode { node }),
    };
    let nodes: Vec<NodeCpus> =
        nodes.iter().map(|node| NodeCpus::new(topology, node.id, allowed)).collect();
    let blocks = block_sizes(&nodes, ranks as usize, near.is_none())?;
    let mut placements = Vec::with_capacity(ranks as usize);
    for (NodeCpus { node, cpus }, block) in nodes.iter().zip(blocks) {
        let memory = topology.memory_near(*node);
        placements.extend((0..block).map(|rank| Placement {
            cpu: cpus[rank % cpus.len()].cpu,
            node: *node,
            memory,
            sharing: sharing(cpus, rank, block),
        }));
    }
    Ok(placements)
}

/// The allowed CPUs of one node in the order in which ranks get them: the first thread of each
/// core, then the second of each, and so on. After the last CPU the order starts again.
struct NodeCpus {
    node: NodeId,
    cpus: Vec<NodeCpu>,
}

#[derive(Clone, Copy)]
struct NodeCpu {
    /// The index of the CPU among the allowed CPUs of its core.
    thread: usize,
    /// The index of the core in the topology.
    core: usize,
    cpu: CpuId,
}

impl NodeCpus {
    fn new(topology: &Topology, node: NodeId, allowed: &CpuSet) -> Self {
        let cores = topology.cores().iter().enumerate().filter(|(_, core)| core.node == node);
        let mut cpus = Vec::new();
        for (core, threads) in cores {
            let threads = threads.cpus.intersection(allowed);
            let threads = threads.iter().enumerate();
            cpus.extend(threads.map(|(thread, cpu)| NodeCpu { thread, core, cpu }));
        }
        cpus.sort_by_key(|one| (one.thread, one.cpu));
        Self { node, cpus }
    }
}

/// Returns whether the rank of index `rank` shares its core, if the node of these CPUs has `block`
/// ranks.
fn sharing(cpus: &[NodeCpu], rank: usize, block: usize) -> Sharing {
    if rank >= cpus.len() || rank + cpus.len() < block {
        return Sharing::Cpu;
    }
    let on_core = cpus.iter().take(block).filter(|one| one.core == cpus[rank].core).count();
    if on_core > 1 { Sharing::Core } else { Sharing::Alone }
}

/// Returns the number of ranks of each node. Ranks fill the first thread of every core before the
/// second; the nodes get them in turn if `even`, one after the other otherwise.
fn block_sizes(nodes: &[NodeCpus], ranks: usize, even: bool) -> Result<Vec<usize>, Error> {
    let mut order = Vec::new();
    for (node, NodeCpus { cpus, .. }) in nodes.iter().enumerate() {
        for (index, one) in cpus.iter().enumerate() {
            let first = cpus.partition_point(|other| other.thread < one.thread);
            order.push((one.thread, if even { index - first } else { 0 }, node));
        }
    }
    order.sort_unstable();
    let (rounds, rest) = match order.len() {
        0 => return Err(Error::NoCpu),
        cpus => (ranks / cpus, ranks % cpus),
    };
    let mut blocks: Vec<usize> = nodes.iter().map(|node| rounds * node.cpus.len()).collect();
    order[..rest].iter().for_each(|(_, _, node)| blocks[*node] += 1);
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Core;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Returns a machine with these numbers of cores on its nodes, each with `threads` hardware
    /// threads. CPUs are numbered as on x86: the first threads of all cores, then the second ones.
    fn machine(cores_per_node: &[u32], threads: u32) -> Topology {
        let total: u32 = cores_per_node.iter().sum();
        let (mut nodes, mut cores, mut first) = (Vec::new(), Vec::new(), 0);
        for (id, &count) in (0..).map(NodeId).zip(cores_per_node) {
            let mut node_cpus = CpuSet::default();
            for core in first..first + count {
                let cpus: CpuSet = (0..threads).map(|t| CpuId(core + t * total)).collect();
                node_cpus.extend(cpus.iter());
                cores.push(Core { cpus, node: id, package: Some(id.0) });
            }
            first += count;
            nodes.push(Node {
                id,
                cpus: node_cpus,
                memory_bytes: Some(1 << 30),
                huge_pages: Vec::new(),
                distances: Vec::new(),
            });
        }
        Topology { nodes, cores, l3_groups: Vec::new(), reports_numa: true }
    }

    #[test]
    fn refuses_impossible_requests() {
        let machine = machine(&[2], 1);
        let cpus = machine.cpus();
        let elsewhere = CpuSet::from_iter([CpuId(7)]);
        assert_eq!(place(&machine, &cpus, 0, None), Ok(Vec::new()));
        assert_eq!(place(&machine, &elsewhere, 1, None), Err(Error::NoCpu));
        let node = NodeId(3);
        let unknown = Err(Error::UnknownNode { node });
        assert_eq!(place(&machine, &cpus, 1, Some(node)), unknown);
        let ranks = MAX_RANKS + 1;
        assert_eq!(place(&machine, &cpus, ranks, None), Err(Error::TooManyRanks { ranks }));
    }

    prop_compose! {
        /// Generates a machine and a mask with at least one of its CPUs.
        fn masked_machine()(
            cores in prop::collection::vec(0..9_u32, 1..6),
            threads in 1..5_u32,
            keep in prop::collection::vec(prop::bool::weighted(0.7), 256),
            one in any::<prop::sample::Index>(),
        ) -> (Topology, CpuSet) {
            let mut cores = cores;
            cores[0] += 1;
            let topology = machine(&cores, threads);
            let cpus: Vec<CpuId> = topology.cpus().iter().collect();
            let mut allowed: CpuSet =
                cpus.iter().zip(keep).filter(|(_, keep)| *keep).map(|(cpu, _)| *cpu).collect();
            allowed.insert(*one.get(&cpus));
            (topology, allowed)
        }
    }

    proptest! {
        #[test]
        fn placements_follow_policy(
            (topology, allowed) in masked_machine(),
            ranks in 0..150_u32,
            near in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let near = near.map(|index| index.get(topology.nodes()).id);
            let placements = place(&topology, &allowed, ranks, near).unwrap();
            prop_assert_eq!(placements.len(), ranks as usize);

            let core_of = |cpu| topology.cores().iter().position(|c| c.cpus.contains(cpu)).unwrap();
            let (mut on_cpu, mut on_core) = (BTreeMap::new(), BTreeMap::new());
            for p in &placements {
                prop_assert!(allowed.contains(p.cpu));
                prop_assert_eq!(topology.node_of_cpu(p.cpu), Some(p.node));
                *on_cpu.entry(p.cpu).or_insert(0_usize) += 1;
                *on_core.entry(core_of(p.cpu)).or_insert(0_usize) += 1;
            }

            // The reported sharing is correct.
            for p in &placements {
                let sharing = match (on_cpu[&p.cpu], on_core[&core_of(p.cpu)]) {
                    (1, 1) => Sharing::Alone,
                    (1, _) => Sharing::Core,
                    _ => Sharing::Cpu,
                };
                prop_assert_eq!(p.sharing, sharing);
            }

            // No core or CPU is shared while another one is free.
            let cores: BTreeSet<usize> = allowed.iter().map(core_of).collect();
            let ranks = ranks as usize;
            let on_cpu_max = on_cpu.values().max().copied().unwrap_or(0);
            prop_assert_eq!(on_core.len(), ranks.min(cores.len()));
            prop_assert_eq!(on_cpu_max, ranks.div_ceil(allowed.len()));

            // Each node has one contiguous block.
            let mut nodes: Vec<NodeId> = placements.iter().map(|p| p.node).collect();
            nodes.dedup();
            prop_assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());

            if ranks <= cores.len() {
                check_blocks(&topology, &cores, &placements, near)?;
            }
        }
    }

    /// Checks, if every rank has its own core, that blocks are even or the nearest nodes are full.
    fn check_blocks(
        topology: &Topology,
        cores: &BTreeSet<usize>,
        placements: &[Placement],
        near: Option<NodeId>,
    ) -> Result<(), TestCaseError> {
        let room = |id| cores.iter().filter(|core| topology.cores()[**core].node == id).count();
        let block = |id| placements.iter().filter(|p| p.node == id).count();
        let order: Vec<NodeId> = match near {
            Some(near) => topology.nodes_by_distance(near).iter().map(|node| node.id).collect(),
            None => topology.nodes().iter().map(|node| node.id).collect(),
        };
        for (i, &earlier) in order.iter().enumerate() {
            for &later in &order[i + 1..] {
                if near.is_some() {
                    prop_assert!(block(later) == 0 || block(earlier) == room(earlier));
                    continue;
                }
                let (a, b) = (block(earlier), block(later));
                prop_assert!(a <= b + 1 || b == room(later), "{a} {b}");
                prop_assert!(b <= a || a == room(earlier), "{a} {b}");
            }
        }
        Ok(())
    }
}
