//! How a cluster is made, and why it cannot be made that way.

use core::error::Error;
use core::fmt;

use probeline_transport::{AtomicScope, Caps, Geometry, MAX_OWNERS, Owner};

use crate::faults::ALL_PPM;
use crate::{Faults, Model};

/// In which order an engine reports what is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As completions fall due; of two at one instant, the one posted first.
    #[default]
    ByTime,
    /// At random, whenever they fall due: a poll waits for the one that chance has put first.
    /// Effects at one instant happen in random order too.
    Shuffled,
}

/// Which windows [`Transport::direct`](probeline_transport::Transport::direct) reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// None, not even the own one.
    None,
    /// The own window.
    #[default]
    Own,
    /// All windows.
    All,
}

/// Sizes, seed and behaviour of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Owners, 1 to 4096.
    pub owners: u32,
    /// Words in each owner's window, 1 to 2^32.
    pub window_words: u64,
    /// Slots of each engine, 1 to 65536.
    pub slots: u32,
    /// Words in each slot, a multiple of 8, 8 to 65536; also the longest READ or WRITE.
    pub slot_words: u32,
    /// Operations in flight on each engine, 1 to 65536.
    pub depth: u32,
    /// What all chance comes from.
    pub seed: u64,
    /// The order of completions.
    pub order: Order,
    /// What everything costs.
    pub model: Model,
    /// What goes wrong.
    pub faults: Faults,
    /// Each word of a READ is sampled at a random time of its own between the post and the
    /// completion; else all at the instant of its effect, which is faster.
    pub scatter_reads: bool,
    /// What [`Caps::word_reads_whole`] says; words are torn only where it is false.
    pub word_reads_whole: bool,
    /// What [`Caps::write_then_atomic`] says. Where it is true, an atomic waits for the effects of
    /// the same engine's WRITEs to that owner.
    pub write_then_atomic: bool,
    /// What [`Caps::atomics`] says.
    pub atomics: AtomicScope,
    /// What `direct` reaches.
    pub direct_reach: Reach,
    /// How many of the last events are kept for [`Cluster::trace`](crate::Cluster::trace), at
    /// most 2^20.
    pub trace_events: u32,
}

impl Default for Config {
    /// Two owners of 1024 words, 16 operations in flight, no time, no faults, seed 0.
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
            direct_reach: Reach::Own,
            trace_events: 0,
        }
    }
}

/// What a NIC's 32-bit lengths and this machine's memory allow, generously.
const MOST_WINDOW_WORDS: u64 = 1 << 32;
/// Above every device's queue depth.
const MOST_DEPTH: u64 = 1 << 16;
/// Slots need not outnumber the deepest queue.
const MOST_SLOTS: u64 = 1 << 16;
/// Half a mebibyte, above any chunk.
const MOST_SLOT_WORDS: u64 = 1 << 16;
/// 40 MiB of trace.
const MOST_TRACE_EVENTS: u64 = 1 << 20;
/// All windows, slots and buffers of operations in flight together: 64 GiB. More is a typing
/// error, to be reported as one.
const MOST_TOTAL_WORDS: u64 = 1 << 33;

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("owners", self.owners.into(), 1, MAX_OWNERS.into())?;
        within("window_words", self.window_words, 1, MOST_WINDOW_WORDS)?;
        within("slots", self.slots.into(), 1, MOST_SLOTS)?;
        within("slot_words", self.slot_words.into(), 8, MOST_SLOT_WORDS)?;
        within("depth", self.depth.into(), 1, MOST_DEPTH)?;
        within("trace_events", self.trace_events.into(), 0, MOST_TRACE_EVENTS)?;
        if !self.slot_words.is_multiple_of(8) {
            return Err(ConfigError::SlotNotInLines { slot_words: self.slot_words });
        }
        within("words in all", self.total_words(), 1, MOST_TOTAL_WORDS)?;
        within("owners_per_node", self.model.owners_per_node.into(), 1, u32::MAX.into())?;
        self.check_faults()
    }

    fn check_faults(&self) -> Result<(), ConfigError> {
        let f = &self.faults;
        let errors =
            [f.error_done_ppm, f.error_undone_ppm, f.error_late_ppm].map(u64::from).iter().sum();
        within("the sum of the error ppm", errors, 0, ALL_PPM.into())?;
        within("repeated_read_ppm", f.repeated_read_ppm.into(), 0, ALL_PPM.into())?;
        within("torn_read_ppm", f.torn_read_ppm.into(), 0, ALL_PPM.into())?;
        within("slow_ppm", f.slow_ppm.into(), 0, ALL_PPM.into())?;
        within("slow_factor", f.slow_factor.into(), 1, u32::MAX.into())?;
        let after_ops = f.death.map_or(1, |death| death.after_ops);
        within("death.after_ops", after_ops, 1, u64::MAX)
    }

    /// At most 2^12 times 2^35, so nothing overflows.
    fn total_words(&self) -> u64 {
        let slots = u64::from(self.slots) + u64::from(self.records()) * 2;
        u64::from(self.owners) * (self.window_words + slots * u64::from(self.slot_words))
    }

    /// Operations of one engine that are kept at once: `depth` in flight and, where effects may
    /// be late, as many that are not over although they were reported.
    pub(crate) fn records(&self) -> u32 {
        if self.faults.error_late_ppm > 0 { 2 * self.depth } else { self.depth }
    }

    /// Whether words may be torn.
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
            needs_owner_progress: false,
            poll_may_wait: false,
        }
    }

    pub(crate) fn geometry(&self, me: Owner) -> Geometry {
        let Self { owners, window_words, slots, slot_words, .. } = *self;
        Geometry { me, owners, window_words, slots, slot_words }
    }
}

fn within(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { field, value, least, most })
}

/// Why no cluster can be made of a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A value is too small or too large.
    OutOfRange {
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// A slot is not a whole number of lines of 8 words.
    SlotNotInLines {
        /// Words in a slot.
        slot_words: u32,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange { field, value, least, most } => {
                write!(f, "{field} is {value}; make it {least} to {most}")
            }
            Self::SlotNotInLines { slot_words } => {
                write!(f, "slot_words is {slot_words}; make it a multiple of 8")
            }
        }
    }
}

impl Error for ConfigError {}

/// Why an engine cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is no such owner.
    UnknownOwner(Owner),
    /// The owner's engine was handed out before: each is, once.
    Taken(Owner),
    /// Memory for the slots is missing.
    OutOfMemory,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOwner(owner) => write!(f, "there is no {owner}"),
            Self::Taken(owner) => {
                write!(f, "the engine of {owner} was taken before; make a new cluster")
            }
            Self::OutOfMemory => {
                f.write_str("no memory for the slots; choose fewer or shorter ones")
            }
        }
    }
}

impl Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let good = Config::default();
        assert_eq!(good.check(), Ok(()));
        let faults = Faults::none();
        let sized = |field, config| (field, config);
        for (field, config) in [
            sized("owners", Config { owners: 0, ..good }),
            sized("owners", Config { owners: 4_097, ..good }),
            sized("window_words", Config { window_words: 0, ..good }),
            sized("slots", Config { slots: 0, ..good }),
            sized("slot_words", Config { slot_words: 0, ..good }),
            sized("depth", Config { depth: 0, ..good }),
            sized("words in all", Config { owners: 4_096, window_words: 1 << 32, ..good }),
            sized(
                "owners_per_node",
                Config { model: Model { owners_per_node: 0, ..Model::instant() }, ..good },
            ),
            sized("slow_factor", Config { faults: Faults { slow_factor: 0, ..faults }, ..good }),
            sized(
                "the sum of the error ppm",
                Config {
                    faults: Faults { error_done_ppm: 600_000, error_late_ppm: 400_001, ..faults },
                    ..good
                },
            ),
        ] {
            let found = config.check();
            assert!(
                matches!(found, Err(ConfigError::OutOfRange { field: f, .. }) if f == field),
                "{field}: {found:?}"
            );
        }
        let odd = Config { slot_words: 12, ..good };
        assert_eq!(odd.check(), Err(ConfigError::SlotNotInLines { slot_words: 12 }));
    }

    #[test]
    fn every_swarm_is_valid() {
        for seed in 0..1_000 {
            let config = Config { faults: Faults::swarm(seed), ..Config::default() };
            assert_eq!(config.check(), Ok(()), "seed {seed}");
        }
    }
}
