//! The operations that keep a slot busy, as an engine records them.

use core::fmt::Debug;

/// An engine's record of the operations that use a slot.
pub trait Busy: Copy + Debug + Default {
    /// Returns whether no operation uses the slot. `reported` is the number of operations that the
    /// engine has reported in the order of their posts.
    fn is_idle(&self, reported: u64) -> bool;

    /// Marks the slot as busy permanently.
    fn leak(&mut self);
}

/// The number of operations in flight, for operations that are reported in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight(pub(crate) u32);

/// The number of reported operations from which on the slot is idle, for operations that are
/// reported in the order of their posts. Nothing is recorded when they are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Until(pub(crate) u64);

/// Both records, for engines with operations of both kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlightOrUntil {
    in_flight: InFlight,
    until: Until,
}

impl Busy for InFlight {
    #[inline]
    fn is_idle(&self, _: u64) -> bool {
        self.0 == 0
    }

    fn leak(&mut self) {
        self.0 += 1;
    }
}

impl Busy for Until {
    #[inline]
    fn is_idle(&self, reported: u64) -> bool {
        self.0 <= reported
    }

    fn leak(&mut self) {
        self.0 = u64::MAX;
    }
}

impl Busy for InFlightOrUntil {
    #[inline]
    fn is_idle(&self, reported: u64) -> bool {
        self.in_flight.is_idle(reported) && self.until.is_idle(reported)
    }

    fn leak(&mut self) {
        self.in_flight.leak();
    }
}

impl AsMut<InFlight> for InFlight {
    #[inline]
    fn as_mut(&mut self) -> &mut InFlight {
        self
    }
}

impl AsMut<InFlight> for InFlightOrUntil {
    #[inline]
    fn as_mut(&mut self) -> &mut InFlight {
        &mut self.in_flight
    }
}

impl AsMut<Until> for Until {
    #[inline]
    fn as_mut(&mut self) -> &mut Until {
        self
    }
}

impl AsMut<Until> for InFlightOrUntil {
    #[inline]
    fn as_mut(&mut self) -> &mut Until {
        &mut self.until
    }
}
