//! Which operations need an owner's CPU, as opening measures it.

use probeline_engine::SetupError;
use probeline_engine::setup::gather;
use probeline_transport::Exchange;

/// Which operations on an owner's words need that owner's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeedsOwner {
    /// READs and WRITEs do.
    pub reads: bool,
    /// Atomics do.
    pub atomics: bool,
}

impl NeedsOwner {
    /// Whether any operation needs the owner's CPU.
    #[must_use]
    pub fn any(self) -> bool {
        self.reads || self.atomics
    }

    /// Adds what another measurement has found.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { reads: self.reads || other.reads, atomics: self.atomics || other.atomics }
    }

    /// What any owner has found.
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
