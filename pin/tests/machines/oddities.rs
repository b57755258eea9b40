//! Unusual sysfs trees, as some kernels, containers and broken firmware tables produce them; and the
//! nodes of network devices.

use probeline_pin::{Error, HugePagePool, NodeId, Topology, device_node};

use crate::tree::Tree;
use crate::{core_of, node_cpus, node_numbers, placed, topology};

#[test]
fn assumes_one_node_without_numa() {
    let tree = Tree::of(
        "devices/system/cpu/online: 0-1
         devices/system/cpu/cpu{0-1}/topology/thread_siblings_list: 0-1
         kernel/mm/hugepages/hugepages-2048kB/nr_hugepages: 8
         kernel/mm/hugepages/hugepages-2048kB/free_hugepages: 5",
    );
    let topology = topology(&tree);
    assert!(!topology.reports_numa());
    assert_eq!(node_numbers(topology.nodes()), [0]);
    assert_eq!(topology.cores().len(), 1);
    assert_eq!(topology.nodes()[0].memory_bytes, None);
    let pool = HugePagePool { page_bytes: 2 << 20, total: 8, free: 5 };
    assert_eq!(topology.nodes()[0].huge_pages, [pool]);
    // The assumed node is used to place ranks, not to bind memory.
    assert_eq!(topology.memory_near(NodeId(0)), None);
    assert_eq!(memory_nodes(&topology), [None, None]);
}

/// Returns the memory nodes of two ranks.
fn memory_nodes(topology: &Topology) -> Vec<Option<NodeId>> {
    let places = probeline_pin::place(topology, &topology.cpus(), 2, None).unwrap();
    places.iter().map(|place| place.memory).collect()
}

#[test]
fn from_cpus_reports_no_numa() {
    let topology = Topology::from_cpus(&"2-3,8".parse().unwrap());
    assert!(!topology.reports_numa());
    assert_eq!((topology.cores().len(), topology.cpus().to_string()), (3, "2-3,8".to_owned()));
    assert_eq!(placed(&topology, 3, None), [(2, 0), (3, 0), (8, 0)]);
    assert_eq!(memory_nodes(&topology), [None, None]);
}

#[test]
fn ignores_empty_node_directory() {
    let tree = Tree::of(
        "devices/system/node/online: 0
         devices/system/cpu/online: 0",
    );
    assert!(!topology(&tree).reports_numa());
}

#[test]
fn lists_nodes_by_number() {
    let tree = Tree::of(
        "devices/system/node/node2/cpulist: 2
         devices/system/node/node10/cpulist: 1
         devices/system/node/node0/cpulist: 0
         devices/system/node/node3/cpulist: 3
         devices/system/node/nodes/cpulist: 4
         devices/system/node/node10/distance: 40 30 20 10",
    );
    let topology = topology(&tree);
    assert_eq!(node_numbers(topology.nodes()), [0, 2, 3, 10]);
    assert_eq!(topology.node(NodeId(10)).unwrap().distance_to(NodeId(2)), Some(30));
    assert_eq!(placed(&topology, 4, Some(10)), [(1, 10), (3, 3), (2, 2), (0, 0)]);
}

#[test]
fn lists_huge_pages_by_size() {
    let node = "devices/system/node/node0";
    let tree = Tree::of(&format!(
        "{node}/cpulist: 0
         {node}/hugepages/hugepages-1048576kB/nr_hugepages: 2
         {node}/hugepages/hugepages-1048576kB/free_hugepages: 1
         {node}/hugepages/hugepages-2048kB/nr_hugepages: 512
         {node}/hugepages/hugepages-2048kB/free_hugepages: 512
         {node}/hugepages/something: 1"
    ));
    let topology = topology(&tree);
    let pools: Vec<_> =
        topology.nodes()[0].huge_pages.iter().map(|p| (p.page_bytes, p.free)).collect();
    assert_eq!(pools, [(2 << 20, 512), (1 << 30, 1)]);
    assert!(topology.to_string().ends_with("2 MiB pages 512 of 512 free, 1 GiB pages 1 of 2 free"));
}

#[test]
fn skips_listed_offline_cpus() {
    let tree = Tree::of(
        "devices/system/node/node0/cpulist: 0-3
         devices/system/cpu/cpu{1,2}/online: 1
         devices/system/cpu/cpu3/online: 0",
    );
    assert_eq!(node_cpus(&topology(&tree), 0), "0-2");
}

#[test]
fn ignores_renumbered_online_file() {
    let tree = Tree::of(
        "devices/system/cpu/online: 0-1
         devices/system/node/node0/cpulist: 0-3
         devices/system/node/node1/cpulist: 4-7",
    );
    assert_eq!(topology(&tree).cpus().to_string(), "0-7");
}

#[test]
fn accepts_cpu_numbers_beyond_1024() {
    let tree = Tree::of(
        "devices/system/node/node0/cpulist: 0-895
         devices/system/node/node1/cpulist: 896-1791
         devices/system/cpu/cpu{895,1791}/topology/core_cpus_list: 895,1791
         devices/system/cpu/cpu{1000-1001}/topology/core_cpus_list: 1000-1001",
    );
    let topology = topology(&tree);
    assert_eq!(topology.cpus().len(), 1792);
    assert_eq!(core_of(&topology, 1001), "1000-1001");
    // Siblings on different nodes are a firmware error; each CPU keeps its node.
    assert_eq!((core_of(&topology, 895), core_of(&topology, 1791)), ("895".into(), "1791".into()));
    let ranks: Vec<(u32, u32)> = placed(&topology, 1790, Some(1));
    assert_eq!((ranks[0], ranks[894], ranks[895]), ((896, 1), (1791, 1), (0, 0)));
}

#[test]
fn resolves_overlapping_siblings() {
    let tree = Tree::of(
        "devices/system/node/node0/cpulist: 0-3
         devices/system/cpu/cpu0/topology/core_cpus_list: 0-1
         devices/system/cpu/cpu1/topology/core_cpus_list: 1-2
         devices/system/cpu/cpu2/topology/core_cpus_list: 1-3
         devices/system/cpu/cpu3/topology/physical_package_id: -1",
    );
    let topology = topology(&tree);
    let cores: Vec<String> = topology.cores().iter().map(|core| core.cpus.to_string()).collect();
    assert_eq!(cores, ["0-1", "2-3"]);
    assert_eq!(topology.cores()[1].package, None);
}

#[test]
fn prefers_memory_of_cpu_nodes() {
    let tree = Tree::of(
        "devices/system/node/node{0,2}/cpulist: 0
         devices/system/node/node1/cpulist:
         devices/system/node/node0/meminfo: Node 0 MemTotal: 0 kB
         devices/system/node/node1/meminfo: Node 1 MemTotal: 1024 kB
         devices/system/node/node2/meminfo: Node 2 MemTotal: 1024 kB
         devices/system/node/node0/distance: 10 20 20
         devices/system/node/node1/distance: 20 10 40
         devices/system/node/node2/distance: 20 40 10",
    );
    let topology = topology(&tree);
    assert_eq!(topology.memory_near(NodeId(0)), Some(NodeId(2)));
    assert_eq!(topology.memory_near(NodeId(1)), Some(NodeId(1)));
    assert_eq!(topology.memory_near(NodeId(9)), None);
}

#[test]
fn errors_name_file() {
    let system = "devices/system";
    let cases = [
        ("node/node0/cpulist: all", "node/node0/cpulist", "a cpu list such as 0-3,8"),
        ("node/node0/meminfo: Node 0 MemTotal: much", "node/node0/meminfo", "a line such as"),
        ("node/node0/distance: 10 20", "node/node0/distance", "one number for each online node"),
        ("cpu/cpu0/online: x", "cpu/cpu0/online", "a number"),
        ("cpu/cpu0/topology/core_cpus_list: 3-1", "cpu/cpu0/topology/core_cpus_list", "a cpu list"),
        ("cpu/cpu0/cache/index0/level:", "cpu/cpu0/cache/index0/level", "a number"),
    ];
    for (line, file, what) in cases {
        let tree = Tree::of(&format!("{system}/node/node0/cpulist: 0\n{system}/{line}"));
        let error = Topology::from_sysfs(tree.root()).unwrap_err();
        let Error::Malformed { path, expected } = &error else {
            panic!("{line}: {error:?}");
        };
        assert_eq!(*path, tree.root().join(system).join(file));
        assert!(expected.contains(what), "{line}: {error}");
        assert!(error.to_string().contains(file));
    }
}

#[test]
fn reports_unreadable_required_file() {
    let empty = Tree::of("devices/system/cpu/kernel_max: 7");
    let online = empty.root().join("devices/system/cpu/online");
    let missing = Err(Error::Read { path: online, errno: libc::ENOENT });
    assert_eq!(Topology::from_sysfs(empty.root()), missing);

    let no_list = Tree::of("devices/system/node/node0/distance: 10");
    let path = no_list.root().join("devices/system/node/node0/cpulist");
    let missing = Err(Error::Read { path, errno: libc::ENOENT });
    assert_eq!(Topology::from_sysfs(no_list.root()), missing);

    // A directory cannot be read as a file.
    let directory = Tree::of("devices/system/node/node0/cpulist/x: 0");
    let path = directory.root().join("devices/system/node/node0/cpulist");
    let unreadable = Err(Error::Read { path, errno: libc::EISDIR });
    assert_eq!(Topology::from_sysfs(directory.root()), unreadable);
}

#[test]
fn reports_invalid_utf8() {
    let tree = Tree::of("devices/system/node/node0/cpulist: 0");
    let path = tree.root().join("devices/system/node/node0/distance");
    std::fs::write(&path, [0xFF, 0xFE]).unwrap();
    let error = Topology::from_sysfs(tree.root()).unwrap_err();
    assert_eq!(error, Error::Malformed { path, expected: "text" });
}

const ROOT: &str = "devices/pci0000:80";

fn node_of(tree: &str, name: &str) -> Result<Option<NodeId>, Error> {
    device_node(Tree::of(tree).root(), name)
}

/// Returns the lines for a class entry and its link to the device.
fn class(class: &str, name: &str, device: &str) -> String {
    format!(
        "{device}/{class}/{name}/dev_id: 0x0
         {device}/{class}/{name}/device -> ../..
         class/{class}/{name} -> ../../{device}/{class}/{name}\n"
    )
}

#[test]
fn finds_nodes_of_devices() {
    let card = format!("{ROOT}/0000:81:00.0");
    let cards = class("infiniband", "mlx5_0", &card)
        + &class("net", "eth2", &card)
        + &class("net", "eth0", &format!("{card}/virtio1"))
        + "devices/virtual/net/lo/mtu: 65536
           class/net/lo -> ../../devices/virtual/net/lo\n";
    let soft = |name, parent| {
        format!(
            "devices/virtual/infiniband/{name}/parent: {parent}
             class/infiniband/{name} -> ../../devices/virtual/infiniband/{name}\n"
        )
    };
    let tree = cards + &soft("rxe0", "eth2") + &soft("rxe1", "eth0") + &soft("siw0", "lo");
    for (numa_node, node) in [("1", Some(NodeId(1))), ("0", Some(NodeId(0))), ("-1", None)] {
        let tree = Tree::of(&format!("{tree}{card}/numa_node: {numa_node}"));
        for (name, expected) in [
            ("mlx5_0", node),
            ("eth2", node),
            // A virtio card has the node of its parent; Soft-RoCE that of its interface.
            ("eth0", node),
            ("rxe0", node),
            ("rxe1", node),
            ("lo", None),
            ("siw0", None),
        ] {
            assert_eq!(device_node(tree.root(), name), Ok(expected), "{name}");
        }
    }
}

#[test]
fn refuses_other_names() {
    let tree = "class/net/lo/mtu: 65536";
    for name in ["eth7", "", ".", "..", "../net/lo", "lo/", "lo/../lo", "/proc"] {
        let refused = Error::NoSuchDevice { name: name.into() };
        assert_eq!(node_of(tree, name), Err(refused), "{name:?}");
    }
}

#[test]
fn refuses_malformed_node() {
    let card = format!("{ROOT}/0000:81:00.0");
    let tree = class("net", "eth2", &card) + &format!("{card}/numa_node: none");
    assert!(matches!(node_of(&tree, "eth2"), Err(Error::Malformed { .. })));
}
