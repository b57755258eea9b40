//! The state that all operations of a map share.

use probeline_transport::Transport;

use crate::config::Config;
use crate::control::{Clock, Control, NUMBER_BITS, State};
use crate::layout::{Layout, Place, check};
use crate::mode::{HeldLock, Mode};
use crate::search::{Goal, MAX_RETRIES};
use crate::stats::Stats;
use probeline_pipeline::Plain;

/// The state that all operations of a client share.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) layout: Layout,
    pub(crate) clock: Clock,
    pub(crate) stats: Stats,
    pub(crate) claim_ticks: u8,
    pub(crate) mode: Mode,
    /// Retries of a request before it gives up.
    pub(crate) retries: u32,
    /// The last lock that a request did not get.
    pub(crate) held_lock: Option<HeldLock>,
    pub(crate) me: u32,
    /// The bucket of the last put that stored its value, and which candidate of the key it is.
    pub(crate) last_put: Option<(Place, u32)>,
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
            // A lock cannot be taken over: its old holder would later release the new holder's
            // lock.
            claim_ticks: if config.mode.locks() { u8::MAX } else { config.claim_ticks },
            mode: config.mode,
            retries: if config.mode.locks() { config.lock_attempts } else { MAX_RETRIES },
            held_lock: None,
            me: geometry.me.0,
            last_put: None,
            claims: 0,
            claims_with_read: config.claims_with_read && config.mode == Mode::Claims,
            is_direct: false,
        }
    }

    pub(crate) fn goal(&self, hash: u64, writes: bool) -> Goal<'_> {
        let (candidates, clock) = (self.layout.candidates, &self.clock);
        Goal { hash, writes, candidates, clock, claim_ticks: self.claim_ticks }
    }

    /// Returns the check of an entry in a bucket, as far as the mode leaves room for it.
    pub(crate) fn check(&self, key_hash: u64, value: &[u8], at: Place) -> u64 {
        check(key_hash, value, at) & self.mode.counts()
    }

    /// Follows the clock of the client that replaced `seen` in a bucket by `now` while an operation of
    /// this client ran. A dropped word has the age of the entry that it had, which may be any.
    pub(crate) fn follow_writer(&mut self, seen: Control, now: Control) {
        let now = self.mode.control(now.0);
        if now != seen && matches!(now.state(), State::Claimed | State::Full) {
            self.clock.follow(now.age());
        }
    }

    /// Returns the control word of a new claim for a key of this hash.
    pub(crate) fn ticket(&mut self, hash: u64) -> Control {
        // In a bucket with a lock, the bits of the number count the clients that read.
        if self.mode != Mode::BucketLocks {
            self.claims = self.claims.wrapping_add(1);
        }
        Control::claimed(self.clock.age(), hash, self.me << NUMBER_BITS | u32::from(self.claims))
    }
}

/// Hashes, for the model check, the state that determines how operations continue.
#[cfg(test)]
impl core::hash::Hash for Context {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        (self.clock, self.claims).hash(hasher);
    }
}
