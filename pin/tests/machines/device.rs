//! The nodes of network devices, in directory trees with the links of sysfs.

use probeline_pin::{Error, NodeId, device_node};

use crate::tree::Tree;

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
