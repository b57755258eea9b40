//! The address at which the ranks of a job meet: rank 0 listens there, and the others connect to
//! it.

use core::net::SocketAddr;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};

use crate::coordinator::admit_ranks;
use crate::error::JoinError;
use crate::member::join_rank_0;
use crate::spec::JobSpec;
use crate::tcp::Job;

/// The address at which rank 0 listens and to which the other ranks connect.
///
/// The secret authenticates and encrypts the traffic in both directions (Noise NNpsk0). Without the
/// secret, a process can neither join nor read or change the traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    /// `HOST:PORT`, a name or an address of rank 0's machine.
    pub address: String,
    /// Whether other machines may connect to the address. Otherwise only loopback is allowed.
    pub allow_remote: bool,
}

impl Rendezvous {
    /// Joins the other ranks of the job.
    ///
    /// Rank 0 refuses strangers. A rank that knows the secret and has another size or
    /// other parameters ends the job on both sides.
    ///
    /// # Errors
    /// An invalid specification or address, ranks that differ in size or parameters, or missing ones, within
    /// the time limit on rank 0. A rank that has joined
    /// waits as long as rank 0 does, to receive the numbers of the missing ranks.
    pub(crate) fn join(&self, spec: &JobSpec) -> Result<Job, JoinError> {
        spec.check()?;
        let addresses = self.resolve()?;
        if spec.size == 1 {
            return Ok(Job::new(spec, vec![]));
        }
        if spec.rank > 0 {
            return join_rank_0(&addresses, spec);
        }
        let listener = TcpListener::bind(&addresses[..])
            .map_err(|error| JoinError::Listen { address: self.address.clone(), error })?;
        admit_ranks(&listener, spec, &mut || Ok(()))
    }

    /// Returns the addresses of the host, all of them allowed.
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
    fn refuses_unallowed_remote_address() {
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
    fn refuses_malformed_address() {
        for address in ["", "7000", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:70000"] {
            let error = resolve(address, true).unwrap_err();
            assert!(matches!(error, JoinError::Address { .. }), "{address}: {error}");
        }
    }
}
