//! The state that all operations of a map share.

use probeline_transport::Transport;

use crate::config::Config;
use crate::control::{CLIENT_BITS, Clock, Control};
use crate::layout::Layout;
use crate::plain::Plain;
use crate::search::Goal;
use crate::stats::Stats;

/// Bits of a claim's number in a ticket; the rank has the others.
const NUMBER_BITS: u32 = 16;
const _: () = assert!(1 << (CLIENT_BITS - NUMBER_BITS) >= probeline_transport::MAX_OWNERS);

/// The state that all operations of a client share.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) layout: Layout,
    pub(crate) clock: Clock,
    pub(crate) stats: Stats,
    pub(crate) claim_ticks: u8,
    me: u32,
    /// Number of claims so far; wraps.
    claims: u16,
    pub(crate) claims_with_read: bool,
    /// Whether the CPUs of all owners reach all words, and the CPU runs all operations.
    pub(crate) is_direct: bool,
}

impl Context {
    pub(crate) fn new<K: Plain, V: Plain>(transport: &impl Transport, config: &Config) -> Self {
        let geometry = transport.geometry();
        Self {
            layout: config.layout::<K, V>(geometry.owners),
            clock: Clock::new(config.writes_per_tick()),
            stats: Stats::default(),
            claim_ticks: config.claim_ticks,
            me: geometry.me.0,
            claims: 0,
            claims_with_read: config.claims_with_read,
            is_direct: false,
        }
    }

    pub(crate) fn goal(&self, hash: u64, writes: bool) -> Goal<'_> {
        let (candidates, clock) = (self.layout.candidates, &self.clock);
        Goal { hash, writes, candidates, clock, claim_ticks: self.claim_ticks }
    }

    /// Returns the control word of a new claim for a key of this hash.
    pub(crate) fn ticket(&mut self, hash: u64) -> Control {
        self.claims = self.claims.wrapping_add(1);
        Control::claimed(self.clock.age(), hash, self.me << NUMBER_BITS | u32::from(self.claims))
    }
}

/// For the model check: what determines how operations continue.
#[cfg(test)]
impl core::hash::Hash for Context {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        (self.clock, self.claims).hash(hasher);
    }
}
