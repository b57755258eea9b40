//! The suite every transport passes: named cases, each run by all owners at once.
//!
//! A backend's test opens a fresh engine and exchange for every owner, threads or processes, and
//! lets each of them call [`Case::run`]; [`Report`] collects the verdicts and compares the cases
//! that were skipped with the list the backend keeps. A case is skipped only by a capability.

mod atomics;
mod copies;
mod life;
mod posting;
mod report;
mod rig;
mod sabotage;

pub use report::Report;
pub use rig::{Failure, Rig};
pub use sabotage::{Rule, Sabotage};

use crate::Caps;

/// The sizes a case needs; a backend may give more depth.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Owners that run the case.
    pub owners: u32,
    /// Words in each window.
    pub window_words: u64,
    /// Slots of each engine.
    pub slots: u32,
    /// Words in each slot.
    pub slot_words: u32,
    /// Least depth of each engine.
    pub depth: u32,
}

/// How a case ended for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything held.
    Passed,
    /// The capability that makes the case pointless.
    Skipped(&'static str),
}

/// One named case.
pub struct Case {
    /// Its name, unique.
    pub name: &'static str,
    /// The sizes it needs.
    pub shape: Shape,
    skip: fn(&Caps) -> Option<&'static str>,
    body: fn(&mut Rig<'_>) -> Result<(), Failure>,
}

impl Case {
    /// Runs the case as one of `shape.owners` members; all of them call it.
    ///
    /// # Errors
    /// What did not hold.
    pub fn run(&self, rig: &mut Rig<'_>) -> Result<Verdict, Failure> {
        if let Some(capability) = (self.skip)(rig.transport.caps()) {
            return Ok(Verdict::Skipped(capability));
        }
        (self.body)(rig)?;
        Ok(Verdict::Passed)
    }
}

/// All cases, in the order they are best read.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [copies::CASES, atomics::CASES, posting::CASES, life::CASES].into_iter().flatten()
}
