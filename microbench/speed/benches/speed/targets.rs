//! What the table is to reach, and whether it does.

use serde::Serialize;

use super::args::Args;
use super::ratios::Ratios;
use super::samples::{Doing, Form, Samples};

/// One ratio that is to be reached, by each probe order.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Whether it is to be at most `needed`, and not at least.
    pub(crate) at_most: bool,
    /// By probe order, in the order in which they were asked for.
    pub(crate) found: Vec<Found>,
}

/// What one probe order reaches.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) order: &'static str,
    pub(crate) needed: f64,
    /// `None` where it was not measured.
    pub(crate) ratio: Option<f64>,
    pub(crate) met: bool,
}

impl Target {
    /// Whether the first order reaches it.
    pub(crate) fn met(&self) -> bool {
        self.found.first().is_some_and(|found| found.met)
    }
}

/// A ratio of some order, and what it has to be.
type Ratio = fn(&Ratios<'_>) -> Option<(f64, f64)>;

/// Two ranks do at least this many times as much as one, if the machine does.
const SCALING: f64 = 1.6;

struct Line {
    name: &'static str,
    load: f64,
    at_most: bool,
    /// What was found and what is needed.
    ratio: Ratio,
}

const fn least(name: &'static str, load: f64, ratio: Ratio) -> Line {
    Line { name, load, at_most: false, ratio }
}

const fn most(name: &'static str, load: f64, ratio: Ratio) -> Line {
    Line { name, load, at_most: true, ratio }
}

fn of_limit(ratios: &Ratios<'_>, doing: Doing, needed: f64) -> Option<(f64, f64)> {
    Some((ratios.of_limit(1, doing, Form::Batched)?, needed))
}

fn by_blocking(ratios: &Ratios<'_>, doing: Doing) -> Option<(f64, f64)> {
    Some((ratios.batched_by_blocking(1, doing)?, 2.5))
}

/// 1.6 times where the machine's own limit scales so, else the same fraction of the limit.
fn scaling(ratios: &Ratios<'_>, doing: Doing) -> Option<(f64, f64)> {
    let (table, limit) = ratios.scaling(doing, Form::Batched)?;
    Some((table, limit.min(SCALING)))
}

fn by_peer(ratios: &Ratios<'_>, threads: usize, doing: Doing, needed: f64) -> Option<(f64, f64)> {
    Some((ratios.by_best_peer(threads, doing)?.0, needed))
}

fn by_hashbrown(ratios: &Ratios<'_>, doing: Doing) -> Option<(f64, f64)> {
    Some((ratios.by_hashbrown(doing)?, 1.0))
}

const OF_THE_TABLE: &[Line] = &[
    least("batched finds, of prefetched reads", 0.5, |r| of_limit(r, Doing::Find, 0.75)),
    least("batched inserts, of prefetched read-then-CAS", 0.5, |r| of_limit(r, Doing::Insert, 0.6)),
    least("batched finds by blocking ones", 0.5, |r| by_blocking(r, Doing::Find)),
    least("batched inserts by blocking ones", 0.5, |r| by_blocking(r, Doing::Insert)),
    least("batched finds, of prefetched reads", 0.9, |r| of_limit(r, Doing::Find, 0.35)),
    least("batched inserts, of prefetched read-then-CAS", 0.9, |r| {
        of_limit(r, Doing::Insert, 0.12)
    }),
    least("batched finds, two ranks by one", 0.5, |r| scaling(r, Doing::Find)),
    least("batched inserts, two ranks by one", 0.5, |r| scaling(r, Doing::Insert)),
    least("batched finds, two ranks by one", 0.9, |r| scaling(r, Doing::Find)),
    least("batched inserts, two ranks by one", 0.9, |r| scaling(r, Doing::Insert)),
    most("dependent accesses of a find-or-put that hits", 0.5, |r| {
        Some((r.accesses(1, Doing::Hit)?, 1.3))
    }),
    most("dependent accesses of a find-or-put that hits", 0.9, |r| {
        Some((r.accesses(1, Doing::Hit)?, 1.3))
    }),
];

const BESIDE_PEERS: &[Line] = &[
    least("batched finds by the best peer's, 1 thread", 0.5, |r| by_peer(r, 1, Doing::Find, 3.0)),
    least("batched inserts by the best peer's, 1 thread", 0.5, |r| {
        by_peer(r, 1, Doing::Insert, 3.0)
    }),
    least("batched finds by the best peer's, 2 threads", 0.5, |r| by_peer(r, 2, Doing::Find, 3.0)),
    least("batched inserts by the best peer's, 2 threads", 0.5, |r| {
        by_peer(r, 2, Doing::Insert, 3.0)
    }),
    least("batched finds by the best peer's, 1 thread", 0.9, |r| by_peer(r, 1, Doing::Find, 1.0)),
    least("batched inserts by the best peer's, 1 thread", 0.9, |r| {
        by_peer(r, 1, Doing::Insert, 1.0)
    }),
    least("batched finds by the best peer's, 2 threads", 0.9, |r| by_peer(r, 2, Doing::Find, 1.0)),
    least("batched inserts by the best peer's, 2 threads", 0.9, |r| {
        by_peer(r, 2, Doing::Insert, 1.0)
    }),
    least("batched finds by hashbrown's", 0.5, |r| by_hashbrown(r, Doing::Find)),
    least("batched inserts by hashbrown's", 0.5, |r| by_hashbrown(r, Doing::Insert)),
];

/// Every target with what each order reaches of it.
pub(crate) fn judge(args: &Args, samples: &Samples) -> Vec<Target> {
    let beside = if args.without_peers { &[] } else { BESIDE_PEERS };
    OF_THE_TABLE.iter().chain(beside).map(|line| line.judge(args, samples)).collect()
}

impl Line {
    fn judge(&self, args: &Args, samples: &Samples) -> Target {
        let found = args.probing.iter().map(|order| {
            let ratios = Ratios { samples, order: order.name, load: self.load };
            self.found(order.name, (self.ratio)(&ratios))
        });
        let name = format!("{}, load {}", self.name, self.load);
        Target { name, at_most: self.at_most, found: found.collect() }
    }

    fn found(&self, order: &'static str, ratio: Option<(f64, f64)>) -> Found {
        let met = |(found, needed): (f64, f64)| {
            if self.at_most { found <= needed } else { found >= needed }
        };
        Found {
            order,
            needed: ratio.map_or(f64::NAN, |(_, needed)| needed),
            ratio: ratio.map(|(found, _)| found),
            met: ratio.is_some_and(met),
        }
    }
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_on_its_own_side_only() {
        let line = least("x", 0.5, |_| None);
        let verdicts = [Some((0.7, 0.75)), Some((0.75, 0.75)), None];
        assert_eq!(verdicts.map(|ratio| line.found("a", ratio).met), [false, true, false]);
        let line = most("x", 0.5, |_| None);
        let verdicts = [Some((1.2, 1.3)), Some((1.31, 1.3)), None];
        assert_eq!(verdicts.map(|ratio| line.found("a", ratio).met), [true, false, false]);
    }

    #[test]
    fn the_first_order_is_the_one_judged() {
        let found = |order, met| Found { order, needed: 1.0, ratio: Some(1.0), met };
        let target = |met: [bool; 2]| Target {
            name: String::new(),
            at_most: false,
            found: vec![found("linear", met[0]), found("jump", met[1])],
        };
        assert!(target([true, false]).met());
        assert!(!target([false, true]).met());
    }
}
