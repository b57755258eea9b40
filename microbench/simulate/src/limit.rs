//! Computes the load of the cluster and the limit with the highest utilization.

use probeline_profile::Shape;
use probeline_sim::{Cluster, Counters, Model, Nic, Slowdown, WORD_GROUPS};

/// The counters of a cluster at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) counters: Counters,
    pub(crate) at_ns: u64,
}

impl Snapshot {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { counters: cluster.counters(), at_ns: cluster.now_ns() }
    }
}

/// The load of each machine's NIC, or of each rank, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// READs that a NIC sends; it answers as many.
    pub reads_per_s: f64,
    /// Atomics that a NIC sends; it answers as many.
    pub atomics_per_s: f64,
    /// Words of READs and atomics.
    pub words_per_s: f64,
    /// The mean number of words that a READ transfers.
    pub words_per_read: f64,
    /// The mean number of operations outstanding at the NIC when it receives one, including that
    /// one.
    pub outstanding: f64,
    /// Queue pairs of the machine's ranks, one for each owner on another machine and rank.
    pub connections: f64,
    /// The number of ranks of the machine.
    pub ranks: f64,
}

impl Load {
    /// Returns the load of the time between two snapshots.
    pub(crate) fn between(shape: Shape, from: &Snapshot, to: &Snapshot) -> Self {
        let ns = to.at_ns.saturating_sub(from.at_ns).max(1);
        let machine_s = ns as f64 * f64::from(shape.machines) / 1e9;
        let count =
            |of: fn(&Counters) -> u64| of(&to.counters).saturating_sub(of(&from.counters)) as f64;
        let (reads, atomics) = (count(|all| all.reads), count(|all| all.atomics));
        let words = count(|all| all.words);
        Self {
            reads_per_s: reads / machine_s,
            atomics_per_s: atomics / machine_s,
            words_per_s: words / machine_s,
            words_per_read: (words - atomics).max(0.0) / reads.max(1.0),
            outstanding: count(|all| all.outstanding) / count(|all| all.sent).max(1.0),
            ..Self::none(shape)
        }
    }

    /// Returns the load of machines that do nothing.
    pub(crate) fn none(shape: Shape) -> Self {
        let ranks = f64::from(shape.ranks_per_machine);
        let connections = ranks * ranks * f64::from(shape.machines.saturating_sub(1));
        Self { connections, ranks, ..Self::default() }
    }
}

/// A limit of the model and its utilization.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The name of the limit.
    pub name: String,
    /// The utilization, 0 to 1. Only `most_used` returns more than 1.
    pub used: f64,
}

/// A limit counts as met from this utilization on: random arrivals leave gaps.
const MET: f64 = 0.9;
/// Bytes that an atomic sends, and bytes of its response.
const ATOMIC_BYTES: f64 = 16.0;
const WORD_BYTES: f64 = probeline_transport::WORD_BYTES as f64;

impl Limit {
    /// Returns all limits that the model has.
    fn all(model: &Model, load: &Load) -> impl Iterator<Item = Self> {
        let operations = load.reads_per_s + load.atomics_per_s;
        let share = |rate: f64, limit: u64| (limit > 0).then(|| rate / limit as f64);
        let ranks = load.ranks.max(1.0);
        let (out, queues) = Beyond::both(&model.nic, load);
        let of_nic = |rate: f64, limit: u64, beyond: &[&Beyond]| {
            share(rate * beyond.iter().map(|beyond| beyond.times).product::<f64>(), limit)
        };
        // Data of READs arrives in one direction of the link while as much leaves in the other.
        let header = f64::from(model.nic.header_bytes);
        let read_words = load.words_per_s - load.atomics_per_s;
        let bytes = 2.0 * header * operations
            + WORD_BYTES * read_words
            + (ATOMIC_BYTES + WORD_BYTES) * load.atomics_per_s;
        let cpu_ns = model.post_ns + model.completion_ns;
        // Homes are uniformly distributed, and so is the contention for words.
        let of_word = load.atomics_per_s / ranks / WORD_GROUPS as f64;
        let (sends, answers) = (model.nic.initiator, model.nic.target);
        let all = [
            (
                named("NIC READ rate", &[&out, &queues]),
                of_nic(load.reads_per_s, sends.reads_per_s, &[&out, &queues]),
            ),
            (
                named("NIC READ rate", &[&queues]),
                of_nic(load.reads_per_s, answers.reads_per_s, &[&queues]),
            ),
            (
                named("NIC atomics rate", &[&out, &queues]),
                of_nic(load.atomics_per_s, sends.atomics_per_s, &[&out, &queues]),
            ),
            (
                named("NIC atomics rate", &[&queues]),
                of_nic(load.atomics_per_s, answers.atomics_per_s, &[&queues]),
            ),
            ("bandwidth".to_owned(), share(bytes, model.nic.bytes_per_s)),
            (
                "READ rate of a rank".to_owned(),
                share(load.reads_per_s / ranks, model.initiator.reads_per_s),
            ),
            (
                "atomics rate of a rank".to_owned(),
                share(load.atomics_per_s / ranks, model.initiator.atomics_per_s),
            ),
            (
                "atomics rate of a word".to_owned(),
                (model.atomic_word_ns > 0).then(|| of_word * model.atomic_word_ns as f64 / 1e9),
            ),
            (
                "CPU of posts and completions".to_owned(),
                (cpu_ns > 0).then(|| operations / ranks * cpu_ns as f64 / 1e9),
            ),
        ];
        all.into_iter().filter_map(|(name, used)| Some(Self { name, used: used? }))
    }

    /// Returns the limit with the highest utilization, or `None` if the model limits nothing in the
    /// load, for example if CPUs access all words themselves.
    pub(crate) fn nearest(model: &Model, load: &Load) -> Option<Self> {
        // Operations that complete in a period may have started before it, so the ratio may exceed
        // 1.
        Self::most_used(model, load).map(|limit| Self { used: limit.used.min(1.0), ..limit })
    }

    /// As [`nearest`](Self::nearest), with a utilization above 1 if the model does not allow the
    /// load.
    pub(crate) fn most_used(model: &Model, load: &Load) -> Option<Self> {
        let used = Self::all(model, load).filter(|limit| limit.used > 0.0);
        used.max_by(|a, b| a.used.total_cmp(&b.used))
    }

    /// Returns whether the limit bounds the throughput: whether its utilization is 90 % or more.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.used >= MET
    }
}

/// The factor by which a NIC's service time grows beyond a knee.
struct Beyond {
    knee: u32,
    /// The resource: operations outstanding or queue pairs.
    what: &'static str,
    times: f64,
}

impl Beyond {
    /// Returns the factors for operations outstanding and for queue pairs.
    fn both(nic: &Nic, load: &Load) -> (Self, Self) {
        let outstanding = Self::new(nic.outstanding, "outstanding", load.outstanding);
        (outstanding, Self::new(nic.connections, "connections", load.connections))
    }

    fn new(Slowdown { knee, halved_by }: Slowdown, what: &'static str, count: f64) -> Self {
        let excess = (count - f64::from(knee)).max(0.0);
        let times = if halved_by == 0 { 1.0 } else { 1.0 + excess / f64::from(halved_by) };
        Self { knee, what, times }
    }
}

/// Returns the name of a rate, and of the knees that it is beyond.
fn named(rate: &str, beyond: &[&Beyond]) -> String {
    let beyond = beyond.iter().filter(|beyond| beyond.times > 1.0);
    let knees: Vec<_> = beyond.map(|Beyond { knee, what, .. }| format!("{knee} {what}")).collect();
    if knees.is_empty() {
        rate.to_owned()
    } else {
        format!("{rate} beyond {}", knees.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use probeline_sim::Rates;

    use super::*;

    fn nearest(model: &Model, reads_per_s: f64) -> Option<(String, bool)> {
        let load = Load { reads_per_s, words_per_s: reads_per_s, ranks: 2.0, ..Load::default() };
        Limit::nearest(model, &load).map(|limit| (limit.name.clone(), limit.is_met()))
    }

    fn some(name: &str, is_met: bool) -> Option<(String, bool)> {
        Some((name.to_owned(), is_met))
    }

    #[test]
    fn a_limit_is_met_at_nine_tenths() {
        let target = Rates { reads_per_s: 1000, atomics_per_s: 10, ..Rates::default() };
        let model = Model { nic: Nic { target, ..Nic::default() }, ..Model::instant() };
        assert_eq!(nearest(&model, 900.0), some("NIC READ rate", true));
        assert_eq!(nearest(&model, 899.0), some("NIC READ rate", false));
        let initiator = Rates { reads_per_s: 455, ..Rates::default() };
        let of_ranks = Model { initiator, ..model };
        assert_eq!(nearest(&of_ranks, 899.0), some("READ rate of a rank", true));
    }

    #[test]
    fn unlimited_and_unused_resources_have_no_nearest_limit() {
        assert_eq!(nearest(&Model::instant(), 1e9), None);
        let model = Model { post_ns: 10, ..Model::instant() };
        assert_eq!(nearest(&model, 0.0), None);
        assert_eq!(nearest(&model, 1.0), some("CPU of posts and completions", false));
    }

    /// The reduced rate is the one that is exhausted: 111.2 million/s become 44.57 at 4096
    /// outstanding.
    #[test]
    fn beyond_a_knee_the_reduced_rate_is_the_limit() {
        let rates = Rates { reads_per_s: 111_200_000, ..Rates::default() };
        let outstanding = Slowdown { knee: 1_000, halved_by: 2_072 };
        let connections = Slowdown { knee: 100, halved_by: 50 };
        let nic =
            Nic { initiator: rates, target: rates, outstanding, connections, ..Nic::default() };
        let model = Model { nic, ..Model::instant() };
        let limit = |reads_per_s, outstanding, connections| {
            let load =
                Load { reads_per_s, outstanding, connections, ranks: 1.0, ..Load::default() };
            let Limit { name, used } = Limit::nearest(&model, &load).unwrap();
            (name, (used * 1e4).round())
        };
        let named = |name: &str, used| (name.to_owned(), used);
        assert_eq!(limit(44_595_000.0, 1_000.0, 100.0), named("NIC READ rate", 4_010.0));
        let beyond = "NIC READ rate beyond 1000 outstanding";
        assert_eq!(limit(44_595_000.0, 4_096.0, 100.0), named(beyond, 10_000.0));
        // The connections affect a target, the outstanding operations only an initiator.
        let beyond = "NIC READ rate beyond 1000 outstanding and 100 connections";
        assert_eq!(limit(22_297_500.0, 4_096.0, 150.0), named(beyond, 10_000.0));
        assert_eq!(
            limit(1e12, 1.0, 150.0),
            named("NIC READ rate beyond 100 connections", 10_000.0)
        );
    }

    #[test]
    fn atomics_on_a_word_are_serialized() {
        let model = Model { atomic_word_ns: 1_000_000, ..Model::instant() };
        let used = |ranks| {
            let load = Load { atomics_per_s: 512_000.0, ranks, ..Load::default() };
            Limit::nearest(&model, &load).map(|limit| (limit.name, limit.used))
        };
        assert_eq!(used(1.0), Some(("atomics rate of a word".to_owned(), 1.0)));
        assert_eq!(used(2.0), Some(("atomics rate of a word".to_owned(), 0.5)));
    }
}
