//! The addresses at which other machines may reach this one.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr;
use std::io;

/// The addresses of this machine's interfaces that are up, in the system's order, without those of
/// loopback and without IPv6 addresses of one link, which mean nothing on another machine.
///
/// # Errors
/// The system's; see getifaddrs(3).
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut found = all()?;
    found.retain(is_for_others);
    Ok(found)
}

/// The addresses of all interfaces that are up.
fn all() -> io::Result<Vec<IpAddr>> {
    let mut first = ptr::null_mut();
    // SAFETY: `first` can be written.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(first);
    let mut found = Vec::new();
    let mut next = list.0;
    // SAFETY: the list is whole until `list` is dropped, and its last `ifa_next` is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP.cast_unsigned() != 0 {
            // SAFETY: the address of an entry of the list, which is whole.
            found.extend(unsafe { address(entry.ifa_addr) });
        }
    }
    Ok(found)
}

fn is_for_others(address: &IpAddr) -> bool {
    let of_one_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    !address.is_loopback() && !of_one_link
}

/// The IP address there; `None` for null and other families.
///
/// # Safety
/// `at` is null, or a socket address as long as its family says.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family; nobody promises its alignment.
    let family = unsafe { (&raw const (*at).sa_family).read_unaligned() };
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: as long as its family says, by the contract of this function.
            let of = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(of.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let of = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(of.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// What getifaddrs(3) gave: a list, or null.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: from getifaddrs(3), and freed once.
            unsafe { libc::freeifaddrs(self.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem;
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn every_address_is_one_of_this_machine_that_others_may_use() {
        // Loopback may be a machine's only interface, and these tests need it.
        let all = all().unwrap();
        assert!(all.contains(&Ipv4Addr::LOCALHOST.into()), "{all:?}");
        for address in &all {
            // Only addresses of this machine can be bound. Link-local addresses also need their
            // link.
            let of_one_link = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
            if !of_one_link {
                UdpSocket::bind((*address, 0)).unwrap();
            }
        }
        let for_others: Vec<_> = all.into_iter().filter(is_for_others).collect();
        assert_eq!(addresses().unwrap(), for_others);
    }

    #[test]
    fn loopback_and_addresses_of_one_link_are_for_nobody_else() {
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
    fn both_families_are_read_and_others_left_out() {
        // SAFETY: integers and arrays of them, for which 0 is a value.
        let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        v4.sin_family = libc::AF_INET.try_into().unwrap();
        v4.sin_addr.s_addr = u32::from_ne_bytes([10, 0, 0, 7]);
        v6.sin6_family = libc::AF_INET6.try_into().unwrap();
        v6.sin6_addr.s6_addr[15] = 9;
        // SAFETY: null, and whole socket addresses of their families.
        let read = unsafe {
            [ptr::null(), (&raw const v4).cast(), (&raw const v6).cast()].map(|at| address(at))
        };
        let parsed = ["10.0.0.7", "::9"].map(|text| Some(text.parse().unwrap()));
        assert_eq!(read, [None, parsed[0], parsed[1]]);
        v4.sin_family = libc::AF_UNIX.try_into().unwrap();
        // SAFETY: of a family that is not looked into.
        assert_eq!(unsafe { address((&raw const v4).cast()) }, None);
    }
}
