//! Where the ranks of a job meet, and the meeting: rank 0 listens, the others come to it.

use core::net::SocketAddr;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};

use crate::error::JoinError;
use crate::hub::host;
use crate::member;
use crate::tcp::Tcp;
use crate::terms::Terms;

/// Where rank 0 listens and the other ranks come to.
///
/// Traffic is authenticated by the secret, in both directions and frame by frame, so that nobody
/// without it can join, add or change anything. It is not encrypted: who can see the packets can
/// read the job's parameters and what is exchanged. Where that matters, meet through a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    /// `HOST:PORT`, a name or an address of rank 0's machine.
    pub address: String,
    /// Whether an address that other machines may reach is meant. Loopback alone is allowed
    /// without it.
    pub allow_remote: bool,
}

impl Rendezvous {
    /// Meets the other ranks of the job.
    ///
    /// Rank 0 is not disturbed by strangers, who are refused and counted; a rank that knows the
    /// secret and has another size or other parameters ends the job on both sides.
    ///
    /// # Errors
    /// Why the job cannot start, within the limit in `terms` on rank 0. A rank that was let in
    /// waits as long as rank 0 does, to hear who is missing.
    pub fn meet(&self, terms: &Terms) -> Result<Tcp, JoinError> {
        terms.check()?;
        let addresses = self.resolve()?;
        if terms.size == 1 {
            return Ok(Tcp::new(terms, vec![]));
        }
        if terms.rank > 0 {
            return Ok(Tcp::new(terms, vec![member::meet(&self.address, &addresses, terms)?]));
        }
        let listener = TcpListener::bind(&addresses[..])
            .map_err(|error| JoinError::Listen { address: self.address.clone(), error })?;
        Ok(Tcp::new(terms, host(&listener, terms, &mut || Ok(()))?))
    }

    /// The addresses meant, all of them allowed.
    fn resolve(&self) -> Result<Vec<SocketAddr>, JoinError> {
        let bad = |error| JoinError::Address { address: self.address.clone(), error };
        let addresses: Vec<_> = self.address.to_socket_addrs().map_err(bad)?.collect();
        if addresses.is_empty() {
            return Err(bad(io::ErrorKind::NotFound.into()));
        }
        match addresses.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
            Some(resolved) if !self.allow_remote => {
                Err(JoinError::Remote { address: self.address.clone(), resolved: *resolved })
            }
            _ => Ok(addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(address: &str, allow_remote: bool) -> Result<Vec<SocketAddr>, JoinError> {
        Rendezvous { address: address.to_owned(), allow_remote }.resolve()
    }

    #[test]
    fn an_address_others_can_reach_has_to_be_allowed() {
        for address in
            ["0.0.0.0:7", "[::]:7", "10.0.0.1:7", "[2001:db8::1]:7", "[::ffff:10.0.0.1]:7"]
        {
            let error = resolve(address, false).unwrap_err();
            assert!(matches!(error, JoinError::Remote { .. }), "{address}: {error}");
            assert!(error.to_string().contains("--allow-remote"), "{error}");
            assert!(resolve(address, true).is_ok(), "{address}");
        }
        for address in
            ["127.0.0.1:7", "127.3.2.1:7", "[::1]:7", "[::ffff:127.0.0.1]:7", "localhost:7"]
        {
            assert!(resolve(address, false).is_ok(), "{address}");
        }
    }

    #[test]
    fn what_is_no_address_is_an_error() {
        for address in ["", "7000", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:70000"] {
            let error = resolve(address, true).unwrap_err();
            assert!(matches!(error, JoinError::Address { .. }), "{address}: {error}");
        }
    }
}
