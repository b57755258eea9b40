//! Which use of chance draws from which stream of the seed, so that one more draw here does not
//! change what happens there.

pub(crate) const NETWORK: u64 = 1;
pub(crate) const FAULTS: u64 = 2;
pub(crate) const ORDER: u64 = 3;
pub(crate) const SWARM: u64 = 4;
