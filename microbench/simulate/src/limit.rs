//! What the cluster had to do, and which of its limits that came nearest to.

use profile::Shape;
use sim::{Counters, Model};

/// What was asked of each machine's NIC, or of each rank, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// READs that a NIC sends, and as many that it answers.
    pub reads_per_s: f64,
    /// Atomics that it sends, and as many that it answers.
    pub atomics_per_s: f64,
    /// Words of READs and atomics.
    pub words_per_s: f64,
    /// Words that a READ brought.
    pub words_per_read: f64,
    /// Ranks of the machine.
    pub ranks: f64,
}

impl Load {
    /// Of what has happened in so long a time.
    pub(crate) fn of(shape: Shape, counters: &Counters, ns: u64) -> Self {
        let machine_s = ns.max(1) as f64 * f64::from(shape.machines) / 1e9;
        let words = counters.words.saturating_sub(counters.atomics);
        Self {
            reads_per_s: counters.reads as f64 / machine_s,
            atomics_per_s: counters.atomics as f64 / machine_s,
            words_per_s: counters.words as f64 / machine_s,
            words_per_read: words as f64 / counters.reads.max(1) as f64,
            ranks: f64::from(shape.ranks_per_machine),
        }
    }
}

/// A limit of the model, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Its name.
    pub name: &'static str,
    /// 0 to 1: at 1 nothing more goes.
    pub used: f64,
}

/// What is waited for where no limit binds.
const ROUNDTRIPS: &str = "roundtrips";
/// Below this a limit does not bind: what is waited for are roundtrips.
const BINDS: f64 = 0.9;
/// Bytes that an atomic sends, and that its answer has.
const ATOMIC_BYTES: f64 = 16.0;
const WORD_BYTES: f64 = 8.0;

impl Limit {
    /// All limits that the model has.
    fn all(model: &Model, load: &Load) -> [Self; 7] {
        let operations = load.reads_per_s + load.atomics_per_s;
        let share = |rate: f64, limit: u64| if limit == 0 { 0.0 } else { rate / limit as f64 };
        let ranks = load.ranks.max(1.0);
        // READs' data comes in over one direction while as much goes out over the other.
        let header = f64::from(model.nic.header_bytes);
        let read_words = load.words_per_s - load.atomics_per_s;
        let bytes = 2.0 * header * operations
            + WORD_BYTES * read_words
            + (ATOMIC_BYTES + WORD_BYTES) * load.atomics_per_s;
        let cpu_ns = (model.post_ns + model.completion_ns) as f64;
        let limit = |name, used| Self { name, used };
        [
            limit("NIC READ rate", share(load.reads_per_s, model.nic.target.copies_per_s)),
            limit("NIC atomics rate", share(load.atomics_per_s, model.nic.target.atomics_per_s)),
            limit("bandwidth", share(bytes, model.nic.bytes_per_s)),
            limit(
                "READ rate of a rank",
                share(load.reads_per_s / ranks, model.initiator.copies_per_s),
            ),
            limit(
                "atomics rate of a rank",
                share(load.atomics_per_s / ranks, model.initiator.atomics_per_s),
            ),
            limit("CPU of posts and completions", operations / ranks * cpu_ns / 1e9),
            limit(ROUNDTRIPS, 0.0),
        ]
    }

    /// The one that is used most, or the roundtrips where none is used up.
    pub(crate) fn nearest(model: &Model, load: &Load) -> Self {
        let all = Self::all(model, load);
        let most = all.into_iter().max_by(|a, b| a.used.total_cmp(&b.used));
        most.unwrap_or(Self { name: ROUNDTRIPS, used: 0.0 })
    }

    /// What is waited for: the limit, or the roundtrips where it is far from used up.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.binds() { self.name } else { ROUNDTRIPS }
    }

    /// Whether it keeps the cluster from doing more.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.used >= BINDS
    }
}
