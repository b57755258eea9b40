//! What other machines call this one: its name and its addresses, as the kernel lists them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fs;

/// Scope of an address in `/proc/net/if_inet6` that other networks reach.
const GLOBAL: &str = "00";

pub(crate) fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// All but those that only this machine, or only one link, knows.
pub(crate) fn of_this_machine() -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let v4 = v4(&read("/proc/net/fib_trie")).into_iter().map(IpAddr::from);
    v4.chain(v6(&read("/proc/net/if_inet6")).into_iter().map(IpAddr::from)).collect()
}

/// From `/proc/net/fib_trie`: a leaf with an address, and below it what it is.
fn v4(trie: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut leaf = None;
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        }
        if line == "/32 host LOCAL" {
            found.extend(leaf.filter(|address: &Ipv4Addr| !address.is_loopback()));
        }
    }
    // Once in each routing table.
    found.sort_unstable();
    found.dedup();
    found
}

/// From `/proc/net/if_inet6`: 32 digits, interface, prefix, scope, flags, name.
fn v6(list: &str) -> Vec<Ipv6Addr> {
    let global = |line: &str| {
        let mut fields = line.split_whitespace();
        let digits = fields.next()?;
        let scope = fields.nth(2)?;
        let address = u128::from_str_radix(digits, 16).ok()?;
        (scope == GLOBAL).then_some(Ipv6Addr::from(address))
    };
    list.lines().filter_map(global).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.1.2.0/24 2 0 2
        |-- 10.1.2.0
           /24 link UNICAST
        |-- 10.1.2.3
           /32 host LOCAL
        |-- 10.1.2.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
Local:
        |-- 10.1.2.3
           /32 host LOCAL
";

    #[test]
    fn addresses_are_those_that_others_reach() {
        assert_eq!(v4(TRIE), [Ipv4Addr::new(10, 1, 2, 3)]);
        let list = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe80000000000000505400fffe123456 02 40 20 80     eth0\n\
                    fd000000000000000000000000000007 02 40 00 80     eth0\n";
        assert_eq!(v6(list), ["fd00::7".parse::<Ipv6Addr>().unwrap()]);
        assert!(v4("").is_empty() && v6("").is_empty());
    }
}
