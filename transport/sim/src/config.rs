//! The configuration of a cluster.

use probeline_transport::engine::setup::{check_memory, check_sizes};
use probeline_transport::{AtomicScope, Caps, Geometry, MAX_OWNERS, Owner, SetupError, Sizes};

use crate::fabric::{Entry, Member};
use crate::faults::ALL_PPM;
use crate::network::WORD_GROUPS;
use crate::record::Record;
use crate::{Faults, Model};

/// The order in which an engine reports its completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Order of time; of two completions at one instant, the one posted first comes first.
    #[default]
    ByTime,
    /// Random order, independent of time: a poll waits for the completion that was drawn first.
    /// Effects at one instant also happen in random order.
    Shuffled,
}

/// The windows that [`Transport::direct`](probeline_transport::Transport::direct) gives access to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectAccess {
    /// None, not even the owner's own window.
    None,
    /// The owner's own window.
    #[default]
    Own,
    /// All windows.
    All,
}

/// The sizes, seed and behaviour of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of owners, 1 to 4096.
    pub owners: u32,
    /// Words in each owner's window, at least 1. All memory must fit this machine.
    pub window_words: u64,
    /// Slots of each engine, at least 1.
    pub slots: u32,
    /// Words in each slot, a multiple of 8, at least 8; also the longest READ or WRITE.
    pub slot_words: u32,
    /// Operations in flight on each engine, 1 to 65536.
    pub depth: u32,
    /// The seed of all randomness.
    pub seed: u64,
    /// The order of completions.
    pub order: Order,
    /// The costs of operations.
    pub model: Model,
    /// The faults to inject.
    pub faults: Faults,
    /// Whether each word of a READ is sampled at its own random time between the post and the
    /// completion. Otherwise all words are sampled at one instant, which is faster.
    pub scatter_reads: bool,
    /// The value of [`Caps::word_reads_whole`]; words are torn only if it is false.
    pub word_reads_whole: bool,
    /// The value of [`Caps::write_then_atomic`]. If it is true, an atomic takes effect after the
    /// same engine's earlier WRITEs to that owner.
    pub write_then_atomic: bool,
    /// The value of [`Caps::atomics`].
    pub atomics: AtomicScope,
    /// The windows that `direct` gives access to.
    pub direct_access: DirectAccess,
}

impl Default for Config {
    /// Returns two owners of 1024 words, depth 16, no costs, no faults, seed 0.
    fn default() -> Self {
        Self {
            owners: 2,
            window_words: 1_024,
            slots: 32,
            slot_words: 64,
            depth: 16,
            seed: 0,
            order: Order::ByTime,
            model: Model::instant(),
            faults: Faults::none(),
            scatter_reads: false,
            word_reads_whole: true,
            write_then_atomic: false,
            atomics: AtomicScope::Cpu,
            direct_access: DirectAccess::Own,
        }
    }
}

/// Above the queue depth of every device.
const MAX_DEPTH: u32 = 1 << 16;

const WORD_BYTES: u64 = probeline_transport::WORD_BYTES as u64;
/// Bytes that an allocator adds to each buffer for its header and rounding.
const ALLOCATION_BYTES: u64 = 16;

impl Config {
    /// Creates the default for this many owners, with the sizes that a structure needs.
    #[must_use]
    pub fn new(owners: u32, sizes: Sizes) -> Self {
        let Sizes { window_words, slots, slot_words, depth } = sizes;
        Self { owners, window_words, slots, slot_words, depth, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), SetupError> {
        SetupError::check("owners", self.owners.into(), 1, MAX_OWNERS.into())?;
        let Self { window_words, slots, slot_words, depth, .. } = *self;
        let sizes = Sizes { window_words, slots, slot_words, depth };
        check_sizes(&sizes, MAX_DEPTH)?;
        // An operation in flight has a buffer as long as a slot, or two if its words may be torn.
        let slots = slots.saturating_add(self.records() * 2);
        check_memory(&Sizes { slots, ..sizes }, self.owners)?;
        self.check_faults()
    }

    fn check_faults(&self) -> Result<(), SetupError> {
        let f = &self.faults;
        let errors =
            [f.error_done_ppm, f.error_undone_ppm, f.error_late_ppm].map(u64::from).iter().sum();
        SetupError::check("the sum of the error ppm", errors, 0, ALL_PPM.into())?;
        SetupError::check("repeated_read_ppm", f.repeated_read_ppm.into(), 0, ALL_PPM.into())?;
        SetupError::check("torn_read_ppm", f.torn_read_ppm.into(), 0, ALL_PPM.into())?;
        SetupError::check("slow_ppm", f.slow_ppm.into(), 0, ALL_PPM.into())?;
        SetupError::check(
            "slow_factor",
            f.slow_factor.into(),
            f.slow_ppm.min(1).into(),
            u32::MAX.into(),
        )?;
        let after_ops = f.death.map_or(1, |death| death.after_ops);
        SetupError::check("death.after_ops", after_ops, 1, u64::MAX)
    }

    /// Returns the number of records of one engine: `depth` in flight and, if effects may be late,
    /// as many that were reported before their effect.
    pub(crate) fn records(&self) -> u32 {
        if self.faults.error_late_ppm > 0 { 2 * self.depth } else { self.depth }
    }

    /// Returns whether words may be torn.
    pub(crate) fn tears(&self) -> bool {
        !self.word_reads_whole && self.faults.torn_read_ppm > 0
    }

    pub(crate) fn caps(&self) -> Caps {
        Caps {
            depth: self.depth,
            atomics: self.atomics,
            words_per_op: self.slot_words,
            word_reads_whole: self.word_reads_whole,
            write_then_atomic: self.write_then_atomic,
            names_lost_owners: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        }
    }

    /// Returns the bytes that a cluster of this configuration and all its engines occupy, within 10 %.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let words_free = if self.model.atomic_word_ns == 0 { 0 } else { WORD_GROUPS as u64 };
        let owner = (self.window_words + words_free)
            .saturating_mul(WORD_BYTES)
            .saturating_add(self.slots_bytes())
            .saturating_add(u64::from(self.records()).saturating_mul(self.record_bytes()))
            .saturating_add(bytes_of::<Member>());
        owner.saturating_mul(self.owners.into())
    }

    /// Returns the bytes of one owner's slots: their words, and 16 bytes of state for each slot.
    fn slots_bytes(&self) -> u64 {
        u64::from(self.slots) * (u64::from(self.slot_words) * WORD_BYTES + 2 * WORD_BYTES)
    }

    /// Returns the bytes of one operation in flight: its record, its words, its entries in two queues and in
    /// the list of free records.
    fn record_bytes(&self) -> u64 {
        let buffers = 1 + u64::from(self.tears());
        let words = u64::from(self.slot_words);
        let order = if self.scatter_reads { words * bytes_of::<u32>() } else { 0 };
        let queues = 2 * bytes_of::<Entry>() + bytes_of::<u32>();
        bytes_of::<Record>() + buffers * (words * WORD_BYTES + ALLOCATION_BYTES) + order + queues
    }

    pub(crate) fn geometry(&self, me: Owner) -> Geometry {
        let Self { owners, window_words, slots, slot_words, .. } = *self;
        Geometry { me, owners, window_words, slots, slot_words }
    }
}

fn bytes_of<T>() -> u64 {
    size_of::<T>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_invalid_field() {
        let good = Config::default();
        assert_eq!(good.check(), Ok(()));
        let with = |faults| Config { faults, ..good };
        let (done, late) = (600_000, 400_001);
        let faults = Faults { error_done_ppm: done, error_late_ppm: late, ..Faults::none() };
        for (field, config) in [
            ("owners", Config { owners: 0, ..good }),
            ("owners", Config { owners: 4_097, ..good }),
            ("the depth", Config { depth: 0, ..good }),
            ("slow_factor", with(Faults { slow_ppm: 1, ..Faults::none() })),
            ("the sum of the error ppm", with(faults)),
        ] {
            let found = config.check();
            assert!(
                matches!(found, Err(SetupError::Range { what, .. }) if what == field),
                "{field}: {found:?}"
            );
        }
        let odd = Config { slot_words: 12, ..good };
        assert!(matches!(odd.check(), Err(SetupError::Sizes(_))));
        for large in [
            Config { owners: 4_096, window_words: 1 << 32, ..good },
            Config { depth: 1 << 16, slot_words: 1 << 30, ..good },
        ] {
            assert!(matches!(large.check(), Err(SetupError::Memory { .. })), "{large:?}");
        }
    }

    #[test]
    fn swarm_configurations_are_valid() {
        for seed in 0..1_000 {
            let config = Config { faults: Faults::swarm(seed), ..Config::default() };
            assert_eq!(config.check(), Ok(()), "seed {seed}");
        }
    }
}
