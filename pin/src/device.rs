//! Which NUMA node a network card hangs on.

use std::path::Path;

use crate::sysfs::{number, text};
use crate::{NodeId, TopologyError};

/// The node of the RDMA device or network interface `name`, from the tree mounted at `root`
/// (`/sys` but for tests); `None` if the machine does not say, as one-node and virtual machines do.
///
/// A device's own node comes first, then that of the device it sits on (virtio), and a software
/// RDMA device (Soft-RoCE, siw) takes that of the interface it runs over.
///
/// # Errors
/// [`TopologyError::NoSuchDevice`], or the file that could not be read or understood.
pub fn device_node(root: &Path, name: &str) -> Result<Option<NodeId>, TopologyError> {
    let no_such_device = || TopologyError::NoSuchDevice { name: name.into() };
    // Such a name would lead out of the directory of devices.
    if name.contains('/') || ["", ".", ".."].contains(&name) {
        return Err(no_such_device());
    }
    let rdma = root.join("class/infiniband").join(name);
    let interface = root.join("class/net").join(name);
    let node = if rdma.exists() {
        rdma_node(root, &rdma)?
    } else if interface.exists() {
        bus_node(&interface)?
    } else {
        return Err(no_such_device());
    };
    // -1 is the kernel's NUMA_NO_NODE.
    Ok(node.and_then(|node| u32::try_from(node).ok()).map(NodeId))
}

fn rdma_node(root: &Path, rdma: &Path) -> Result<Option<i64>, TopologyError> {
    if let Some(node) = bus_node(rdma)? {
        return Ok(Some(node));
    }
    match text(&rdma.join("parent"))? {
        Some(interface) => bus_node(&root.join("class/net").join(interface.trim())),
        None => Ok(None),
    }
}

/// The node of the device behind a class entry, or where its bus has no nodes, of the device that
/// one sits on.
fn bus_node(class_entry: &Path) -> Result<Option<i64>, TopologyError> {
    match number(&class_entry.join("device/numa_node"))? {
        Some(node) => Ok(Some(node)),
        // `device` is a link, and the kernel takes the `..` behind it.
        None => number(&class_entry.join("device/../numa_node")),
    }
}
