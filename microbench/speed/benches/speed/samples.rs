//! What was measured, by what it was measured of.

use serde::Serialize;

use probeline_limits::memory::Memory;

/// What is done, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Doing {
    /// Finds of keys that are there.
    Find,
    /// find-or-puts of keys that are there.
    Hit,
    /// Puts of keys that are not there.
    Insert,
}

/// Whether operations wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// Each is waited for, as a call of a function is.
    Blocking,
    /// Many are in flight.
    Batched,
}

/// What a rate was measured of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct What {
    /// The order of the table's buckets, or the name of another set.
    pub(crate) system: &'static str,
    /// Threads at once: ranks of the table.
    pub(crate) threads: usize,
    /// Keys by buckets, as it was asked for.
    pub(crate) load: f64,
    pub(crate) doing: Doing,
    pub(crate) form: Form,
}

/// A rate measured in several rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rates {
    #[serde(flatten)]
    pub(crate) what: What,
    /// Another set that was measured in the same rounds; the table itself without one.
    pub(crate) beside: Option<&'static str>,
    /// Operations a second of all threads together, a round each.
    pub(crate) ops_per_s: Vec<f64>,
}

/// The machine's limits on one job's memory, all threads together, a round each.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) system: &'static str,
    pub(crate) threads: usize,
    pub(crate) load: f64,
    pub(crate) dependent_reads: Vec<f64>,
    pub(crate) independent_reads: Vec<f64>,
    pub(crate) prefetched_reads: Vec<f64>,
    pub(crate) swaps: Vec<f64>,
    pub(crate) reads_then_swaps: Vec<f64>,
}

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Samples {
    pub(crate) limits: Vec<Limits>,
    pub(crate) rates: Vec<Rates>,
}

impl Samples {
    /// Adds a round of one rate, measured `beside` another set if there was one.
    pub(crate) fn add(&mut self, what: What, beside: Option<&'static str>, ops_per_s: f64) {
        let same = |rates: &&mut Rates| rates.what == what && rates.beside == beside;
        match self.rates.iter_mut().find(same) {
            Some(rates) => rates.ops_per_s.push(ops_per_s),
            None => self.rates.push(Rates { what, beside, ops_per_s: vec![ops_per_s] }),
        }
    }

    /// Adds a round of limits: what each thread measured.
    pub(crate) fn add_limits(&mut self, system: &'static str, load: f64, each: &[Memory]) {
        let threads = each.len();
        let same = |limits: &Limits| {
            limits.system == system && limits.threads == threads && limits.load == load
        };
        let at = self.limits.iter().position(same).unwrap_or_else(|| {
            self.limits.push(Limits::new(system, threads, load));
            self.limits.len() - 1
        });
        let limits = &mut self.limits[at];
        let all = |one: fn(&Memory) -> f64| each.iter().map(one).sum::<f64>();
        limits.dependent_reads.push(all(|memory| memory.dependent_reads));
        limits.independent_reads.push(all(|memory| memory.independent_reads));
        limits.prefetched_reads.push(all(|memory| memory.prefetched_reads));
        limits.swaps.push(all(|memory| memory.swaps));
        limits.reads_then_swaps.push(all(|memory| memory.reads_then_swaps));
    }

    /// The median rate of `what` in rounds of its own: a set's beside the table, the table's
    /// without others.
    pub(crate) fn rate(&self, what: What) -> Option<f64> {
        self.rate_beside(what, None)
    }

    /// The median rate of `what` in the rounds in which `beside` was measured too.
    pub(crate) fn rate_beside(&self, what: What, beside: Option<&'static str>) -> Option<f64> {
        let rates = self.rates.iter().find(|rates| rates.what == what && rates.beside == beside)?;
        median(&rates.ops_per_s)
    }

    /// The limits beside which the table was measured.
    pub(crate) fn limits(&self, system: &str, threads: usize, load: f64) -> Option<&Limits> {
        let same = |limits: &&Limits| {
            limits.system == system && limits.threads == threads && limits.load == load
        };
        self.limits.iter().find(same)
    }
}

impl Limits {
    fn new(system: &'static str, threads: usize, load: f64) -> Self {
        Self {
            system,
            threads,
            load,
            dependent_reads: Vec::new(),
            independent_reads: Vec::new(),
            prefetched_reads: Vec::new(),
            swaps: Vec::new(),
            reads_then_swaps: Vec::new(),
        }
    }

    /// The median limit that an operation is measured by.
    pub(crate) fn of(&self, doing: Doing, form: Form) -> Option<f64> {
        median(match (doing, form) {
            (_, Form::Blocking) => &self.dependent_reads,
            (Doing::Find | Doing::Hit, Form::Batched) => &self.prefetched_reads,
            (Doing::Insert, Form::Batched) => &self.reads_then_swaps,
        })
    }
}

/// The value in the middle; of two in the middle the mean.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values[values.len() / 2 - 1] + upper) / 2.0)
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    const WHAT: What =
        What { system: "linear", threads: 1, load: 0.5, doing: Doing::Find, form: Form::Batched };

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn rates_are_kept_by_what_and_beside() {
        let mut samples = Samples::default();
        for rate in [1.0, 5.0, 3.0] {
            samples.add(WHAT, None, rate);
            samples.add(WHAT, Some("other"), rate * 2.0);
            samples.add(What { load: 0.9, ..WHAT }, None, rate * 3.0);
        }
        assert_eq!(samples.rate(WHAT), Some(3.0));
        assert_eq!(samples.rate_beside(WHAT, Some("other")), Some(6.0));
        assert_eq!(samples.rate(What { load: 0.9, ..WHAT }), Some(9.0));
        assert_eq!(samples.rate(What { threads: 2, ..WHAT }), None);
    }
}
