//! The conformance suite of [`Transport`](crate::Transport): cases that all owners run together.
//!
//! A backend's test opens a fresh engine for each case and owner, on threads ([`on_threads`]) or in
//! processes, and calls [`Case::run`] on all of them. [`Report`] collects the verdicts. A case is
//! skipped only by a capability, and [`Report::judge`] compares the skipped cases with the list
//! that the backend keeps.
//!
//! ```no_run
//! use probeline_transport::Exchange;
//! use probeline_transport::conformance::{
//!     Case, CountingAllocator, Failure, Report, Rig, Verdict, cases, on_threads,
//! };
//! # use probeline_transport::{Alone, Transport};
//! # type Engine = &'static mut dyn Transport;
//! # fn open(_: &Case, _: &mut impl Exchange) -> Result<Engine, Failure> {
//! #     Err(Failure("the engine to test is opened here".into()))
//! # }
//! # fn members(_: u32) -> Vec<Alone> { vec![Alone] }
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! fn run(case: &Case, mut exchange: impl Exchange) -> Result<Verdict, Failure> {
//!     let mut engine = open(case, &mut exchange)?;
//!     case.run(&mut Rig::new(&mut engine, &mut exchange))
//! }
//!
//! let owners = 1;
//! let mut report = Report::new(owners);
//! for case in cases(owners) {
//!     report.add(case, &on_threads(members(owners), |exchange| run(case, exchange)));
//! }
//! report.judge(&[])?;
//! # Ok::<(), Failure>(())
//! ```

mod allocations;
mod atomics;
mod channels;
mod copies;
mod life;
mod posting;
mod report;
mod rig;
mod sabotage;

pub use allocations::{CountingAllocator, allocations};
pub use report::Report;
pub use rig::{Failure, Rig, local, segment, word};
pub use sabotage::{Rule, Sabotage};

use std::thread;

use crate::{Caps, Exchange, Sizes};

/// The result of a case for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All checks held.
    Passed,
    /// The case does not apply, for this reason.
    Skipped(&'static str),
}

/// One named case.
pub struct Case {
    /// Its unique name.
    pub name: &'static str,
    /// The least sizes of each owner's engine.
    pub sizes: Sizes,
    /// The fewest owners that can run it.
    pub min_owners: u32,
    skip: fn(&Caps) -> Option<&'static str>,
    body: fn(&mut Rig<'_>) -> Result<(), Failure>,
}

impl Case {
    const fn new(
        name: &'static str,
        sizes: Sizes,
        body: fn(&mut Rig<'_>) -> Result<(), Failure>,
    ) -> Self {
        Self { name, sizes, min_owners: 1, skip: |_| None, body }
    }

    const fn min_owners(self, min_owners: u32) -> Self {
        Self { min_owners, ..self }
    }

    const fn skip(self, skip: fn(&Caps) -> Option<&'static str>) -> Self {
        Self { skip, ..self }
    }

    /// Runs the case as one owner. All owners of the exchange call it.
    ///
    /// # Errors
    /// The check that did not hold, or that the engine and the exchange do not fit the case.
    pub fn run(&self, rig: &mut Rig<'_>) -> Result<Verdict, Failure> {
        rig.fits(self)?;
        if let Some(reason) = (self.skip)(rig.transport.caps()) {
            return Ok(Verdict::Skipped(reason));
        }
        (self.body)(rig)?;
        Ok(Verdict::Passed)
    }
}

/// Returns the cases that a job of this many owners can run, in a fixed order.
pub fn cases(owners: u32) -> impl Iterator<Item = &'static Case> {
    all_cases().filter(move |case| case.min_owners <= owners)
}

fn all_cases() -> impl Iterator<Item = &'static Case> {
    [copies::CASES, atomics::CASES, posting::CASES, life::CASES].into_iter().flatten()
}

/// Runs `body` on a thread for each member of an exchange. Returns the results in the members'
/// order.
///
/// # Panics
/// If a thread panics.
pub fn on_threads<E: Exchange + Send, R: Send>(
    members: impl IntoIterator<Item = E>,
    body: impl Fn(E) -> R + Sync,
) -> Vec<R> {
    thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> =
            members.into_iter().map(|member| scope.spawn(move || body(member))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
