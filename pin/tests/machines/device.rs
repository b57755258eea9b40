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
fn finds_node_of_rdma_card() {
    let card = format!("{ROOT}/0000:81:00.0");
    let tree = class("infiniband", "mlx5_0", &card) + &class("net", "eth2", &card);
    for (numa_node, node) in [("1", Some(NodeId(1))), ("0", Some(NodeId(0))), ("-1", None)] {
        let tree = format!("{tree}{card}/numa_node: {numa_node}");
        assert_eq!(node_of(&tree, "mlx5_0"), Ok(node));
        assert_eq!(node_of(&tree, "eth2"), Ok(node));
    }
}

#[test]
fn finds_node_of_software_rdma() {
    let card = format!("{ROOT}/0000:81:00.0");
    let soft_roce = "devices/virtual/infiniband/rxe0/parent: eth2
        class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0\n";
    let tree = class("net", "eth2", &card) + soft_roce + &format!("{card}/numa_node: 3");
    assert_eq!(node_of(&tree, "rxe0"), Ok(Some(NodeId(3))));
}

#[test]
fn finds_node_of_virtio_card() {
    let pci = format!("{ROOT}/0000:81:00.0");
    let tree = class("net", "eth0", &format!("{pci}/virtio1")) + &format!("{pci}/numa_node: 2");
    assert_eq!(node_of(&tree, "eth0"), Ok(Some(NodeId(2))));
    let tree = tree
        + "\ndevices/virtual/infiniband/rxe0/parent: eth0
           class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0";
    assert_eq!(node_of(&tree, "rxe0"), Ok(Some(NodeId(2))));
}

#[test]
fn no_node_without_hardware() {
    let tree = "devices/virtual/net/lo/mtu: 65536
        class/net/lo -> ../../devices/virtual/net/lo
        devices/virtual/infiniband/siw0/parent: lo
        class/infiniband/siw0 -> ../../devices/virtual/infiniband/siw0";
    assert_eq!(node_of(tree, "lo"), Ok(None));
    assert_eq!(node_of(tree, "siw0"), Ok(None));
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
