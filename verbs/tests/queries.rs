//! Queries of a device and its ports.

use crate::stand_in::{Fabric, Setup};
use probeline_verbs::{Context, LinkLayer, Mtu, PciAtomics, PortState};

fn context(setup: Setup) -> (Fabric, Context) {
    let fabric = Fabric::new();
    let context = fabric.machine(setup).open_device();
    (fabric, context)
}

#[test]
fn device_identity() {
    let (fabric, context) = context(Setup::default());
    let identity = context.identity().unwrap();
    assert_eq!(identity.firmware, "20.31.1014");
    assert_eq!((identity.vendor, identity.part, identity.revision), (0x2c9, 4123, 0));
    // A provider with only the plain attributes reports no PCI atomics.
    assert_eq!(context.pci_atomics().unwrap(), PciAtomics::default());
    drop(context);
    fabric.judge_empty();
}

#[test]
fn firmware_without_nul_is_empty() {
    let endless: &'static str = "x".repeat(64).leak();
    let (_fabric, context) = context(Setup::with(|device| device.firmware = endless));
    assert_eq!(context.identity().unwrap().firmware, "");
}

#[test]
fn failed_query_returns_error() {
    let fabric = Fabric::new();
    let machine = fabric.machine(Setup::default());
    let context = machine.open_device();
    machine.break_it(|faults| faults.call = Some(("ibv_query_device", 0, libc::EIO)));
    for failed in [context.identity().unwrap_err(), context.pci_atomics().unwrap_err()] {
        assert_eq!(failed.errno, libc::EIO);
    }
}

#[test]
fn port_rate_and_state() {
    let (_fabric, up) = context(Setup::default());
    let port = up.port(1).unwrap();
    assert_eq!((port.active, port.state), (true, PortState::Active));
    assert_eq!((port.lanes, port.gbit_s()), (Some(4), Some(100.0)));
    assert_eq!((port.mtu, port.max_mtu), (Mtu::from_code(3), Mtu::MAX));
    assert_eq!(port.link_layer, LinkLayer::Ethernet);

    let (_fabric, down) = context(Setup::with(|device| {
        (device.active, device.link) = (false, (0, 0));
    }));
    let port = down.port(1).unwrap();
    assert_eq!((port.active, port.state, port.gbit_s()), (false, PortState::Down, None));
}
