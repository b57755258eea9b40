//! Real machines, as their users recorded them; each fixture names its source.

use probeline_pin::{NodeId, Sharing, Topology, place};

use crate::tree::Tree;
use crate::{core_of, cpus, node_cpus, node_numbers, placed, topology};

const ALL: [&str; 10] = [
    "c5n-18xlarge",
    "epyc-7413-nps4",
    "epyc-7451",
    "knl-flat",
    "opteron-4s-sparse",
    "power9-gpu-nodes",
    "threadripper-3960x",
    "xeon-4s-offline",
    "xeon-cxl",
    "xeon-e7-4870-8s",
];

fn recorded(name: &str) -> Topology {
    topology(&Tree::recorded(name))
}

fn package_of(topology: &Topology, cpu: u32) -> Option<u32> {
    let cpu = cpus(&cpu.to_string());
    let core = topology.cores().iter().find(|core| !core.cpus.intersection(&cpu).is_empty());
    core.unwrap().package
}

#[test]
fn fills_cores_before_sharing() {
    for name in ALL {
        let topology = recorded(name);
        let cores = topology.cores().len();
        let all = topology.cpus();
        for near in core::iter::once(None).chain(topology.nodes().iter().map(|n| Some(n.id))) {
            let ranks = u32::try_from(cores).unwrap();
            let placements = place(&topology, &all, ranks, near).unwrap();
            assert!(placements.iter().all(|p| p.sharing == Sharing::Alone), "{name} {near:?}");
            for p in &placements {
                assert_eq!(topology.node_of_cpu(p.cpu), Some(p.node), "{name}");
                let has_memory = |id| topology.node(id).unwrap().has_memory();
                assert_eq!(
                    p.memory.map(has_memory),
                    topology.reports_numa().then_some(true),
                    "{name}"
                );
            }
            let more = place(&topology, &all, ranks + 1, near).unwrap();
            assert_eq!(more.iter().filter(|p| p.sharing != Sharing::Alone).count(), 2, "{name}");
        }
    }
}

#[test]
fn two_sockets_with_smt() {
    let topology = recorded("c5n-18xlarge");
    assert!(topology.reports_numa());
    assert_eq!((topology.nodes().len(), topology.cores().len()), (2, 36));
    assert_eq!(node_cpus(&topology, 0), "0-17,36-53");
    assert_eq!(core_of(&topology, 53), "17,53");
    assert_eq!((package_of(&topology, 53), package_of(&topology, 18)), (Some(0), Some(1)));
    let node = topology.node(NodeId(1)).unwrap();
    assert_eq!(node.memory_bytes, Some(94_710 << 20));
    assert_eq!(node.distances, [(NodeId(0), 21), (NodeId(1), 10)]);
    assert_eq!(placed(&topology, 4, None), [(0, 0), (1, 0), (18, 1), (19, 1)]);
    assert_eq!(placed(&topology, 3, Some(1)), [(18, 1), (19, 1), (20, 1)]);

    // No core of node 1 is shared while node 0 has free cores.
    let near = placed(&topology, 37, Some(1));
    assert_eq!(near.iter().filter(|(_, node)| *node == 1).count(), 19);
}

#[test]
fn displays_two_sockets() {
    let printed = recorded("c5n-18xlarge").to_string();
    let expected = "2 nodes, 36 cores, 72 cpus\n\
        node 0: 18 cores, cpus 0-17,36-53, memory 92.3 GiB\n  \
          distance 10 to node 0, 21 to node 1\n\
        node 1: 18 cores, cpus 18-35,54-71, memory 92.4 GiB\n  \
          distance 21 to node 0, 10 to node 1";
    assert_eq!(printed, expected);
}

#[test]
fn four_nodes_per_socket() {
    let topology = recorded("epyc-7413-nps4");
    assert_eq!((topology.nodes().len(), topology.cores().len()), (8, 48));
    let one_each = placed(&topology, 8, None);
    let expected = [(0, 0), (6, 1), (12, 2), (18, 3), (24, 4), (30, 5), (36, 6), (42, 7)];
    assert_eq!(one_each, expected);
    // The card's node first, then its socket (12), then the other (32).
    assert_eq!(node_numbers(topology.nodes_by_distance(NodeId(5))), [5, 4, 6, 7, 0, 1, 2, 3]);
    let near: Vec<u32> = placed(&topology, 13, Some(5)).iter().map(|(_, node)| *node).collect();
    assert_eq!(near, [5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 6]);
}

#[test]
fn distinguishes_level_3_caches() {
    let topology = recorded("epyc-7451");
    let groups: Vec<String> = topology.l3_groups().iter().map(ToString::to_string).collect();
    assert_eq!(groups.len(), 16);
    assert_eq!(groups[..3], ["0-2,48-50", "3-5,51-53", "6-8,54-56"]);
    // The fixture has neither memory nor distances.
    assert_eq!(topology.nodes()[0].memory_bytes, None);
    assert_eq!(topology.nodes()[0].distances, []);
    assert_eq!(topology.memory_near(NodeId(3)), Some(NodeId(3)));
    assert_eq!(node_numbers(topology.nodes_by_distance(NodeId(3)))[..3], [3, 0, 1]);
}

#[test]
fn hbm_node_gets_no_ranks() {
    let topology = recorded("knl-flat");
    assert_eq!((topology.nodes().len(), topology.cores().len()), (2, 68));
    assert_eq!(node_cpus(&topology, 1), "");
    assert_eq!(core_of(&topology, 271), "67,135,203,271");
    for near in [None, Some(0), Some(1)] {
        assert!(placed(&topology, 300, near).iter().all(|(_, node)| *node == 0));
    }
    assert_eq!(topology.memory_near(NodeId(1)), Some(NodeId(1)));
}

#[test]
fn cxl_memory_near_its_socket() {
    let topology = recorded("xeon-cxl");
    assert_eq!((topology.nodes().len(), topology.cores().len()), (4, 104));
    assert_eq!(node_numbers(topology.nodes_by_distance(NodeId(1))), [1, 3, 0, 2]);
    // Ranks near the expander's node are placed on the socket to which it is attached.
    assert!(placed(&topology, 52, Some(3)).iter().all(|(_, node)| *node == 1));
    assert!(placed(&topology, 52, Some(2)).iter().all(|(_, node)| *node == 0));
}

#[test]
fn sparse_and_empty_nodes() {
    let topology = recorded("power9-gpu-nodes");
    assert_eq!(node_numbers(topology.nodes()), [0, 8, 252, 253, 254, 255]);
    assert_eq!(topology.cores().len(), 32);
    assert_eq!(core_of(&topology, 66), "64-67");
    let gpu = topology.node(NodeId(254)).unwrap();
    assert!(gpu.cpus.is_empty() && !gpu.has_memory());
    assert_eq!(gpu.distance_to(NodeId(8)), Some(80));
    assert_eq!(topology.node(NodeId(8)).unwrap().distance_to(NodeId(0)), Some(40));
    assert_eq!(placed(&topology, 4, None), [(0, 0), (4, 0), (64, 8), (68, 8)]);
}

#[test]
fn memoryless_node_uses_nearest_memory() {
    let topology = recorded("threadripper-3960x");
    let memory = |ranks| {
        let placements = place(&topology, &topology.cpus(), ranks, None).unwrap();
        placements.iter().map(|p| (p.node.0, p.memory.unwrap().0)).collect::<Vec<_>>()
    };
    assert_eq!(memory(4), [(0, 1), (1, 1), (2, 2), (3, 1)]);
}

#[test]
fn offline_cpus_get_no_ranks() {
    let topology = recorded("xeon-4s-offline");
    assert!(!topology.reports_numa());
    assert_eq!(node_numbers(topology.nodes()), [0]);
    assert_eq!((topology.cores().len(), topology.cpus().len()), (7, 12));
    // CPUs 14 and 2, the siblings of these, are offline.
    assert_eq!((core_of(&topology, 6), core_of(&topology, 10)), ("6".into(), "10".into()));
    assert_eq!((package_of(&topology, 7), package_of(&topology, 10)), (Some(3), Some(2)));
    assert_eq!(topology.l3_groups().len(), 4);
    let first_threads = [0, 1, 3, 4, 6, 7, 10].map(|cpu| (cpu, 0));
    assert_eq!(placed(&topology, 7, None), first_threads);
    assert_eq!(placed(&topology, 8, None)[7], (8, 0));
    assert!(topology.to_string().contains("one node is assumed"));
}

#[test]
fn only_allowed_cpus_get_ranks() {
    let topology = recorded("opteron-4s-sparse");
    assert_eq!(node_numbers(topology.nodes()), [0, 1, 2, 33, 34, 45, 72, 73]);
    assert_eq!(topology.l3_groups().len(), 8);
    assert_eq!(topology.node(NodeId(72)).unwrap().distance_to(NodeId(45)), Some(22));
    // A cpuset with one CPU of node 33 and three of node 72.
    let allowed = cpus("23,36-38");
    let placements = place(&topology, &allowed, 4, None).unwrap();
    let seen: Vec<_> = placements.iter().map(|p| (p.cpu.0, p.node.0, p.sharing)).collect();
    let alone = Sharing::Alone;
    assert_eq!(seen, [(23, 33, alone), (36, 72, alone), (37, 72, alone), (38, 72, alone)]);

    // If only second threads are allowed, each is the first allowed thread of its core.
    let topology = recorded("c5n-18xlarge");
    let placements = place(&topology, &cpus("40-41,58"), 3, None).unwrap();
    let seen: Vec<_> = placements.iter().map(|p| (p.cpu.0, p.sharing)).collect();
    assert_eq!(seen, [(40, alone), (41, alone), (58, alone)]);
}
