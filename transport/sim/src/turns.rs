//! The rate at which one side of a NIC port takes operations.

use crate::Kind;
use crate::model::Rates;

/// The time at which one side of a port takes its next operation, in picoseconds, because the
/// interval of a rate of many millions a second is not a whole number of nanoseconds.
#[derive(Default)]
pub(crate) struct Turns {
    copies_free_ps: u64,
    atomics_free_ps: u64,
}

const PS_PER_NS: u64 = 1_000;
pub(crate) const PS_PER_S: u64 = 1_000_000_000_000;

impl Turns {
    /// The time at which an operation that is ready at `now_ns` is taken.
    pub(crate) fn take(&mut self, kind: Kind, rates: &Rates, now_ns: u64) -> u64 {
        let turn_ps = turn_ps(rates, kind);
        if turn_ps == 0 {
            return now_ns;
        }
        let free_ps = match kind {
            Kind::Read | Kind::Write => &mut self.copies_free_ps,
            Kind::CompareAndSwap | Kind::FetchAdd => &mut self.atomics_free_ps,
        };
        let start_ps = now_ns.saturating_mul(PS_PER_NS).max(*free_ps);
        *free_ps = start_ps.saturating_add(turn_ps);
        // Picoseconds saturate after 213 days, nanoseconds do not.
        start_ps.div_ceil(PS_PER_NS).max(now_ns)
    }
}

/// The interval between two operations.
pub(crate) fn turn_ps(rates: &Rates, kind: Kind) -> u64 {
    let per_s = rates.of(kind);
    if per_s == 0 { 0 } else { PS_PER_S.div_ceil(per_s) }
}

impl Rates {
    fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Read | Kind::Write => self.copies_per_s,
            Kind::CompareAndSwap | Kind::FetchAdd => self.atomics_per_s,
        }
    }
}
