//! This machine as other machines see it: its name, its addresses and its identity.

use core::net::IpAddr;
use std::fs;
use std::io;

use sha2::{Digest, Sha256};

const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// A number that changes with each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The name of this machine, if it has one.
#[must_use]
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string(HOST_NAME).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The addresses of this machine's running interfaces that other machines can use: neither loopback
/// nor IPv6 link-local addresses.
///
/// # Errors
/// The error of getifaddrs(3).
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs()?.into_iter();
    let running = interfaces.filter(if_addrs::Interface::is_oper_up);
    Ok(running.map(|interface| interface.ip()).filter(is_for_others).collect())
}

fn is_for_others(address: &IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    !address.is_loopback() && !link_local
}

/// Equal in processes that share a loopback interface: a digest of the machine's name and boot, and
/// the network namespace. Machines that were cloned while they ran differ in their names only.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn machine_id() -> io::Result<String> {
    let mut digest = Sha256::new();
    for file in [HOST_NAME, BOOT_ID] {
        digest.update(fs::read(file)?);
    }
    digest.update(fs::read_link("/proc/self/ns/net")?.as_os_str().as_encoded_bytes());
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn every_address_is_one_of_this_machine() {
        // Only addresses of this machine can be bound.
        for address in addresses().unwrap() {
            UdpSocket::bind((address, 0)).unwrap();
            assert!(is_for_others(&address), "{address}");
        }
    }

    #[test]
    fn loopback_and_link_local_addresses_are_left_out() {
        for (address, good) in [
            ("127.0.0.1", false),
            ("127.3.2.1", false),
            ("::1", false),
            ("fe80::1", false),
            ("10.0.0.1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_for_others(&address.parse().unwrap()), good, "{address}");
        }
    }

    #[test]
    fn a_machine_has_one_identity() {
        assert_eq!(machine_id().unwrap(), machine_id().unwrap());
    }
}
