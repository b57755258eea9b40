//! What a launcher's server is to ranks that have yet to meet: a board on which each leaves texts
//! that all others read.

use std::ffi::CString;
use std::time::Instant;

use probeline_pmi::{Pmi1, Pmix, PmixError};

use crate::error::JoinError;

/// A board of one job.
pub(crate) trait Board: Sized {
    /// Leaves a text in this rank's name, once for each `what`: printable, without space or `=`.
    fn put(&mut self, what: &str, text: &str) -> Result<(), JoinError>;

    /// Waits for everybody; what was put before can then be read.
    fn fence(&mut self) -> Result<(), JoinError>;

    /// What `rank` has left; `None` if it has not, because it came to its end instead.
    fn get(&mut self, rank: u32, what: &str) -> Result<Option<String>, JoinError>;

    /// Takes leave of the server, if that then still minds how this process ends; else gives what
    /// is to take leave in the end.
    fn part(self) -> Result<Option<Pmi1>, JoinError>;
}

/// Nothing bounds these calls.
impl Board for Pmix {
    fn put(&mut self, what: &str, text: &str) -> Result<(), JoinError> {
        Ok(Pmix::put(self, &key(what), text.as_bytes())?)
    }

    fn fence(&mut self) -> Result<(), JoinError> {
        Ok(Pmix::fence(self)?)
    }

    fn get(&mut self, rank: u32, what: &str) -> Result<Option<String>, JoinError> {
        let Some(text) = Pmix::get(self, rank, &key(what))? else { return Ok(None) };
        let text = String::from_utf8(text);
        text.map(Some).map_err(|_| PmixError::Type { key: "of another" }.into())
    }

    fn part(self) -> Result<Option<Pmi1>, JoinError> {
        self.finalize()?;
        Ok(None)
    }
}

/// PMIx keeps each rank's apart.
fn key(what: &str) -> CString {
    // No `what` of ours has a NUL in it.
    CString::new(format!("probeline.{what}")).unwrap_or_default()
}

/// PMI-1, whose keys are the whole job's, with the end of all waiting.
pub(crate) struct OverPmi1 {
    client: Pmi1,
    rank: u32,
    until: Instant,
}

impl OverPmi1 {
    /// Greets the launcher; this is `rank`.
    pub(crate) fn start(rank: u32, until: Instant) -> Result<Self, JoinError> {
        Ok(Self { client: Pmi1::from_env(until)?, rank, until })
    }
}

impl Board for OverPmi1 {
    fn put(&mut self, what: &str, text: &str) -> Result<(), JoinError> {
        Ok(self.client.put(&format!("probeline-{what}-{}", self.rank), text, self.until)?)
    }

    fn fence(&mut self) -> Result<(), JoinError> {
        Ok(self.client.barrier(self.until)?)
    }

    fn get(&mut self, rank: u32, what: &str) -> Result<Option<String>, JoinError> {
        Ok(self.client.get(&format!("probeline-{what}-{rank}"), self.until)?)
    }

    /// To mpiexec of MPICH a rank that has taken leave may fail.
    fn part(self) -> Result<Option<Pmi1>, JoinError> {
        Ok(Some(self.client))
    }
}
