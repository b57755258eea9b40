//! UCX and MPI RMA as transports, so that a structure can be compared over them.
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod ucx;

pub use probeline_transport::engine::SetupError;

use probeline_transport::Exchange;
use probeline_transport::engine::setup::gather;

/// The operations on an owner's words that need that owner's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeedsOwner {
    /// Whether READs and WRITEs need the owner's CPU.
    pub reads: bool,
    /// Whether atomics need the owner's CPU.
    pub atomics: bool,
}

impl NeedsOwner {
    /// Whether any operation needs the owner's CPU.
    #[must_use]
    pub fn any(self) -> bool {
        self.reads || self.atomics
    }

    /// Combines two measurements: an operation needs the owner if either has found that.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { reads: self.reads || other.reads, atomics: self.atomics || other.atomics }
    }

    /// Combines the measurements of all owners.
    pub(crate) fn of_all<E>(self, exchange: &mut E) -> Result<Self, SetupError>
    where
        E: Exchange + ?Sized,
    {
        let all = gather(exchange, &[self.reads, self.atomics].map(u8::from))?;
        let (all, _) = all.as_chunks();
        let theirs =
            |[reads, atomics]: &[u8; 2]| Self { reads: *reads != 0, atomics: *atomics != 0 };
        Ok(all.iter().map(theirs).fold(self, Self::or))
    }
}
