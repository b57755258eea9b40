//! UCX and MPI RMA as transports, so that a structure can be compared over them.
mod error;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod ucx;

pub use error::OpenError;
pub use probeline_transport::SetupError;

use probeline_transport::{Call, Exchange, Term};

/// The operations on an owner's words that need that owner's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeedsOwner {
    /// Whether READs and WRITEs need the owner's CPU.
    pub reads: bool,
    /// Whether atomics need the owner's CPU.
    pub atomics: bool,
}

impl NeedsOwner {
    /// Returns whether any operation needs the owner's CPU.
    #[must_use]
    pub fn any(self) -> bool {
        self.reads || self.atomics
    }

    /// Combines two measurements: an operation needs the owner if either has found that.
    #[cfg(feature = "mpi")]
    pub(crate) fn or(self, other: Self) -> Self {
        Self { reads: self.reads || other.reads, atomics: self.atomics || other.atomics }
    }

    /// Combines the measurements of all owners.
    pub(crate) fn combine_all<E>(self, exchange: &mut E) -> Result<Self, SetupError>
    where
        E: Exchange + ?Sized,
    {
        let mut terms = [self.reads, self.atomics].map(|needs| Term::Max(needs.into()));
        exchange.reduce(const { Call::new("needs_owner") }, &mut terms)?;
        let [reads, atomics] = terms.map(|needs| needs.value() != 0);
        Ok(Self { reads, atomics })
    }
}
