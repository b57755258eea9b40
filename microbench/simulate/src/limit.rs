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

/// From here on a limit is met: ranks that come by chance leave gaps, which nobody can fill.
const MET: f64 = 0.9;
/// Bytes that an atomic sends, and that its answer has.
const ATOMIC_BYTES: f64 = 16.0;
const WORD_BYTES: f64 = 8.0;

impl Limit {
    /// Those that the model has.
    fn all(model: &Model, load: &Load) -> impl Iterator<Item = Self> {
        let operations = load.reads_per_s + load.atomics_per_s;
        let share = |rate: f64, limit: u64| (limit > 0).then(|| rate / limit as f64);
        let ranks = load.ranks.max(1.0);
        // READs' data comes in over one direction while as much goes out over the other.
        let header = f64::from(model.nic.header_bytes);
        let read_words = load.words_per_s - load.atomics_per_s;
        let bytes = 2.0 * header * operations
            + WORD_BYTES * read_words
            + (ATOMIC_BYTES + WORD_BYTES) * load.atomics_per_s;
        let cpu_ns = model.post_ns + model.completion_ns;
        let all = [
            ("NIC READ rate", share(load.reads_per_s, model.nic.target.copies_per_s)),
            ("NIC atomics rate", share(load.atomics_per_s, model.nic.target.atomics_per_s)),
            ("bandwidth", share(bytes, model.nic.bytes_per_s)),
            ("READ rate of a rank", share(load.reads_per_s / ranks, model.initiator.copies_per_s)),
            (
                "atomics rate of a rank",
                share(load.atomics_per_s / ranks, model.initiator.atomics_per_s),
            ),
            (
                "CPU of posts and completions",
                (cpu_ns > 0).then(|| operations / ranks * cpu_ns as f64 / 1e9),
            ),
        ];
        all.into_iter().filter_map(|(name, used)| Some(Self { name, used: used? }))
    }

    /// The one that is used most; none where nothing that was done has a limit in the model, as
    /// where CPUs reach all words themselves.
    pub(crate) fn nearest(model: &Model, load: &Load) -> Option<Self> {
        let used = Self::all(model, load).filter(|limit| limit.used > 0.0);
        used.max_by(|a, b| a.used.total_cmp(&b.used))
    }

    /// Whether it keeps the cluster from doing more, being used to 90 % or more.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.used >= MET
    }
}

#[cfg(test)]
mod tests {
    use sim::{Nic, Rates};

    use super::*;

    fn nearest(model: &Model, reads_per_s: f64) -> Option<(&'static str, bool)> {
        let load = Load { reads_per_s, words_per_s: reads_per_s, ranks: 2.0, ..Load::default() };
        Limit::nearest(model, &load).map(|limit| (limit.name, limit.is_met()))
    }

    #[test]
    fn a_limit_is_met_at_nine_tenths() {
        let target = Rates { copies_per_s: 1000, atomics_per_s: 10 };
        let model = Model { nic: Nic { target, ..Nic::default() }, ..Model::instant() };
        assert_eq!(nearest(&model, 900.0), Some(("NIC READ rate", true)));
        assert_eq!(nearest(&model, 899.0), Some(("NIC READ rate", false)));
        let initiator = Rates { copies_per_s: 455, atomics_per_s: 0 };
        let of_ranks = Model { initiator, ..model };
        assert_eq!(nearest(&of_ranks, 899.0), Some(("READ rate of a rank", true)));
    }

    #[test]
    fn what_has_no_limit_and_what_is_not_used_is_not_near_one() {
        assert_eq!(nearest(&Model::instant(), 1e9), None);
        let model = Model { post_ns: 10, ..Model::instant() };
        assert_eq!(nearest(&model, 0.0), None);
        assert_eq!(nearest(&model, 1.0), Some(("CPU of posts and completions", false)));
    }
}
