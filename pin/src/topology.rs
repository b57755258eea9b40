//! The nodes, cores and distances of a machine.

use core::fmt;

use crate::cpuset::{CpuId, CpuSet};
use crate::numa::NodeId;

/// The NUMA nodes and physical cores of a machine, without offline CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) cores: Vec<Core>,
    pub(crate) l3_groups: Vec<CpuSet>,
    pub(crate) reports_numa: bool,
}

/// One NUMA node. It may have no CPUs (HBM, CXL memory) or no memory (empty DIMM slots).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number.
    pub id: NodeId,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// Its memory in bytes, if known.
    pub memory_bytes: Option<u64>,
    /// Its pools of huge pages, by page size.
    pub huge_pages: Vec<HugePagePool>,
    /// The distance of each node, itself included, if known: 10 is local, 20 twice as far (ACPI
    /// SLIT). Firmware often guesses.
    pub distances: Vec<(NodeId, u32)>,
}

/// A node's huge pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePagePool {
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Reserved pages.
    pub total: u64,
    /// Reserved pages that are not in use.
    pub free: u64,
}

/// One physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its online hardware threads (SMT siblings), at least one.
    pub cpus: CpuSet,
    /// The NUMA node to which it belongs.
    pub node: NodeId,
    /// Its package (socket), if known.
    pub package: Option<u32>,
}

impl Node {
    /// Returns the distance of `other`, if known; 10 is local.
    #[must_use]
    pub fn distance_to(&self, other: NodeId) -> Option<u32> {
        self.distances.iter().find(|(id, _)| *id == other).map(|(_, distance)| *distance)
    }

    /// Returns whether the node has memory. True if that is unknown.
    #[must_use]
    pub fn has_memory(&self) -> bool {
        self.memory_bytes != Some(0)
    }
}

impl Topology {
    /// Returns the topology of a machine of which only the CPUs are known, as in a container that
    /// hides `/sys`: each CPU is its own core, and the kernel reports no nodes.
    #[must_use]
    pub fn from_cpus(cpus: &CpuSet) -> Self {
        let id = NodeId(0);
        let core = |cpu| Core { cpus: CpuSet::from_iter([cpu]), node: id, package: None };
        let node = Node {
            id,
            cpus: cpus.clone(),
            memory_bytes: None,
            huge_pages: Vec::new(),
            distances: Vec::new(),
        };
        Self {
            nodes: vec![node],
            cores: cpus.iter().map(core).collect(),
            l3_groups: Vec::new(),
            reports_numa: false,
        }
    }

    /// Returns the bytes of free huge pages of all nodes.
    #[must_use]
    pub fn huge_bytes_free(&self) -> u64 {
        let pools = self.nodes().iter().flat_map(|node| &node.huge_pages);
        pools.map(|pool| pool.free * pool.page_bytes).sum()
    }

    /// Returns the nodes, by ascending number.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node with the number `id`.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns the physical cores, by ascending node and lowest CPU.
    #[must_use]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Returns the online CPUs.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.nodes.iter().flat_map(|node| node.cpus.iter()).collect()
    }

    /// Returns the sets of CPUs that share a level 3 cache, if known.
    #[must_use]
    pub fn l3_groups(&self) -> &[CpuSet] {
        &self.l3_groups
    }

    /// Returns whether the kernel reports nodes. Otherwise node 0 is assumed.
    #[must_use]
    pub fn reports_numa(&self) -> bool {
        self.reports_numa
    }

    /// Returns the node that `cpu` belongs to.
    #[must_use]
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        self.nodes.iter().find(|node| node.cpus.contains(cpu)).map(|node| node.id)
    }

    /// Returns the nodes by distance from `from`, itself first. Nodes at equal or unknown distances
    /// are in order of their numbers.
    #[must_use]
    pub fn nodes_by_distance(&self, from: NodeId) -> Vec<&Node> {
        let origin = self.node(from);
        let distance = |to| origin.and_then(|node| node.distance_to(to)).unwrap_or(u32::MAX);
        let mut nodes: Vec<&Node> = self.nodes.iter().collect();
        nodes.sort_by_key(|node| (node.id != from, distance(node.id), node.id));
        nodes
    }

    /// Returns the node of memory for a CPU of `node`: `node` itself, or if it has no memory, the
    /// nearest node with memory, one with CPUs before one without (DRAM before CXL memory). `None`
    /// if the kernel reports no nodes, so that memory cannot be bound.
    #[must_use]
    pub fn memory_near(&self, node: NodeId) -> Option<NodeId> {
        let origin = self.node(node).filter(|_| self.reports_numa)?;
        let cost = |to: &Node| {
            let distance = origin.distance_to(to.id).unwrap_or(u32::MAX);
            (to.id != node, distance, to.cpus.is_empty(), to.id)
        };
        let with_memory = self.nodes.iter().filter(|to| to.has_memory());
        with_memory.min_by_key(|to| cost(to)).map(|to| to.id)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, cores) = (self.nodes.len(), self.cores.len());
        let count = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            _ => format!("{number} {what}s"),
        };
        let cpus = self.cpus().len();
        write!(f, "{}, {}, {}", count(nodes, "node"), count(cores, "core"), count(cpus, "cpu"))?;
        if !self.reports_numa {
            write!(f, " (the kernel reports no NUMA; one node is assumed)")?;
        }
        for node in &self.nodes {
            let cores = self.cores.iter().filter(|core| core.node == node.id).count();
            write!(f, "\n{}: {cores} cores, cpus {}", node.id, Listed(&node.cpus))?;
            if let Some(bytes) = node.memory_bytes {
                write!(f, ", memory {}", Bytes(bytes))?;
            }
            for pool in &node.huge_pages {
                let page = Bytes(pool.page_bytes);
                write!(f, ", {page} pages {} of {} free", pool.free, pool.total)?;
            }
            for (i, (to, distance)) in node.distances.iter().enumerate() {
                let lead = if i == 0 { "\n  distance" } else { "," };
                write!(f, "{lead} {distance} to {to}")?;
            }
        }
        Ok(())
    }
}

/// A CPU list; "none" if it is empty.
struct Listed<'a>(&'a CpuSet);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { write!(f, "{}", self.0) }
    }
}

/// A size in its largest binary unit, to one decimal.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let (unit, shift) =
            UNITS.into_iter().find(|(_, shift)| self.0 >> shift > 0).unwrap_or(("B", 0));
        let tenths = (u128::from(self.0) * 10) >> shift;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole} {unit}"),
            (whole, tenth) => write!(f, "{whole}.{tenth} {unit}"),
        }
    }
}
