//! Where rank 0 listens, and the secret, as it leaves them with the launcher for the others.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fs;
use std::io;
use std::net::TcpListener;

use sha2::{Digest, Sha256};

use crate::error::JoinError;
use crate::secret::Secret;
use crate::spawn::listen;

/// The most addresses told: each is tried in turn, and all fit the shortest value that launchers
/// take, 900 bytes of PMI-1.
const MAX_ADDRESSES: usize = 8;

/// Where to meet, and what to prove there.
#[derive(Debug)]
pub(crate) struct Notice {
    /// `None` if the ranks were given one.
    pub(crate) secret: Option<Secret>,
    /// Of rank 0, at least one; others may have some of them too.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Notice {
    /// Listens at a free port: on loopback if all ranks share it, else at all addresses.
    pub(crate) fn open(
        one_machine: bool,
        secret: Option<Secret>,
    ) -> Result<(TcpListener, Self), JoinError> {
        let (listener, addresses) = if one_machine {
            let (listener, address) = listen()?;
            (listener, vec![address])
        } else {
            listen_to_all()?
        };
        Ok((listener, Self { secret, addresses }))
    }

    /// In words that every launcher's server takes.
    pub(crate) fn to_text(&self) -> String {
        let secret = self.secret.iter().map(|secret| String::from_utf8_lossy(secret.bytes()));
        let secret = secret.collect();
        let addresses = self.addresses.iter().map(SocketAddr::to_string);
        [secret].into_iter().chain(addresses).collect::<Vec<_>>().join(",")
    }

    /// What [`to_text`](Self::to_text) has given.
    pub(crate) fn from_text(text: &str) -> Result<Self, JoinError> {
        let (secret, addresses) = text.split_once(',').ok_or(JoinError::BadNotice)?;
        let addresses: Result<_, _> = addresses.split(',').map(str::parse).collect();
        let addresses = addresses.map_err(|_| JoinError::BadNotice)?;
        let secret = (!secret.is_empty()).then(|| Secret::new(secret.into()));
        Ok(Self { secret: secret.transpose()?, addresses })
    }
}

fn listen_to_all() -> Result<(TcpListener, Vec<SocketAddr>), JoinError> {
    // A socket of IPv6 takes callers of both, where the machine has IPv6.
    let all = [(Ipv6Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::UNSPECIFIED, 0).into()];
    let listener = TcpListener::bind(&all[..])
        .map_err(|error| JoinError::Listen { address: "all addresses".to_owned(), error })?;
    let system = |error| JoinError::System { doing: "looking for addresses to meet at", error };
    let here = listener.local_addr().map_err(system)?;
    let addresses = probeline_pmi::addresses().map_err(system)?;
    let reached = addresses.into_iter().filter(|address| address.is_ipv4() || here.is_ipv6());
    let told = reached.map(|address| (address, here.port()).into()).take(MAX_ADDRESSES);
    match told.collect::<Vec<_>>() {
        none if none.is_empty() => Err(JoinError::NoAddress),
        addresses => Ok((listener, addresses)),
    }
}

/// The same for processes that share a loopback interface: the machine's name and boot, and the
/// network namespace. Machines that were cloned while they ran differ in their names only.
pub(crate) fn machine() -> Result<String, JoinError> {
    let read = || -> io::Result<_> {
        let mut digest = Sha256::new();
        for file in ["/proc/sys/kernel/hostname", "/proc/sys/kernel/random/boot_id"] {
            digest.update(fs::read(file)?);
        }
        digest.update(fs::read_link("/proc/self/ns/net")?.as_os_str().as_encoded_bytes());
        Ok(digest.finalize())
    };
    let digest =
        read().map_err(|error| JoinError::System { doing: "naming this machine", error })?;
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_arrives_as_it_was_and_fits_every_launcher() {
        let longest = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535";
        let addresses = vec![longest.parse().unwrap(); MAX_ADDRESSES];
        for secret in [Some(Secret::random().unwrap()), None] {
            let notice = Notice { secret, addresses: addresses.clone() };
            let text = notice.to_text();
            assert!(text.len() <= 900 && text.chars().all(|c| c.is_ascii_graphic() && c != '='));
            let read = Notice::from_text(&text).unwrap();
            let [read_secret, secret] =
                [&read, &notice].map(|notice| notice.secret.as_ref().map(Secret::bytes));
            assert_eq!(read_secret, secret);
            assert_eq!(read.addresses, addresses);
        }
    }

    #[test]
    fn what_is_no_notice_is_an_error() {
        let secret = "0".repeat(64);
        let texts = ["", &secret, ",", &format!("{secret},"), &format!("{secret},a:b")];
        for text in texts {
            assert!(matches!(Notice::from_text(text), Err(JoinError::BadNotice)), "{text}");
        }
        let short = Notice::from_text("00,127.0.0.1:7");
        assert!(matches!(short, Err(JoinError::Secret(_))), "{short:?}");
    }

    #[test]
    fn one_machine_listens_to_itself_alone() {
        let (listener, notice) = Notice::open(true, None).unwrap();
        assert_eq!(notice.addresses, [listener.local_addr().unwrap()]);
        assert!(notice.addresses[0].ip().is_loopback());
        assert_eq!(machine().unwrap(), machine().unwrap());
    }
}
