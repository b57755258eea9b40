//! The name, the addresses and the identity of this machine.

use core::net::IpAddr;
use std::fs;
use std::io;

use sha2::{Digest, Sha256};

const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// A number that changes with each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns the name of this machine, if it has one.
#[must_use]
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string(HOST_NAME).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the addresses of this machine's running interfaces that other machines can use: neither
/// loopback nor IPv6 link-local addresses.
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

/// Returns a text that is equal for all processes of a machine and differs between machines: the ID
/// of its boot, or its name if a container hides the ID.
///
/// # Errors
/// If neither can be read.
pub fn machine_id() -> io::Result<String> {
    machine_id_from(|file| fs::read_to_string(file))
}

fn machine_id_from(read: impl Fn(&str) -> io::Result<String>) -> io::Result<String> {
    let text = |file| read(file).ok().filter(|text| !text.trim().is_empty());
    [BOOT_ID, HOST_NAME].into_iter().find_map(text).ok_or_else(|| {
        io::Error::other(format!(
            "neither {BOOT_ID} nor {HOST_NAME} can be read, which identify this machine: mount \
             /proc where ranks run"
        ))
    })
}

/// Returns a text that is equal in processes that share a loopback interface: a digest of the
/// machine's identity and name, and of the network namespace. The name distinguishes machines that
/// were cloned while they ran.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn loopback_id() -> io::Result<String> {
    let mut digest = Sha256::new();
    digest.update(machine_id()?);
    digest.update(fs::read(HOST_NAME)?);
    digest.update(fs::read_link("/proc/self/ns/net")?.as_os_str().as_encoded_bytes());
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn lists_own_addresses() {
        // Only addresses of this machine can be bound.
        for address in addresses().unwrap() {
            UdpSocket::bind((address, 0)).unwrap();
            assert!(is_for_others(&address), "{address}");
        }
    }

    #[test]
    fn skips_loopback_and_link_local() {
        let others = ["127.0.0.1", "127.3.2.1", "::1", "fe80::1"].map(|address| (address, false));
        for (address, good) in others.into_iter().chain([("10.0.0.1", true), ("2001:db8::1", true)])
        {
            assert_eq!(is_for_others(&address.parse().unwrap()), good, "{address}");
        }
    }

    #[test]
    fn identifies_by_boot_or_name() {
        let id = |files: &[(&str, &str)]| {
            machine_id_from(|file| {
                let read = files.iter().find(|(name, _)| *name == file);
                read.map(|(_, text)| (*text).to_owned()).ok_or(io::ErrorKind::NotFound.into())
            })
        };
        assert_eq!(id(&[(BOOT_ID, "7"), (HOST_NAME, "a")]).unwrap(), "7");
        assert_eq!(id(&[(HOST_NAME, "a")]).unwrap(), "a");
        assert_eq!(id(&[(BOOT_ID, "\n"), (HOST_NAME, "b")]).unwrap(), "b");
        for files in [&[][..], &[(BOOT_ID, ""), (HOST_NAME, "\n")]] {
            assert!(id(files).unwrap_err().to_string().contains("mount /proc"));
        }
        assert_eq!(loopback_id().unwrap(), loopback_id().unwrap());
    }
}
