//! Runs of the table: those that calibrate the model, those that choose the recommendation, and
//! those that verify it.

use std::collections::BTreeSet;

use probeline::table::{OneRoundtrip, ReadAhead};
use probeline::transport::Exchange;
use probeline_tune::{Candidate, Goal, Model, Timing};

use super::bench::Bench;
use super::row::{PAPER, TuneRow, candidates as candidates_of};
use super::{
    AS_EXPECTED, CHUNK_BUCKETS, FINALISTS, GoalName, PAPER_DEPTH, SWEEP_ROUNDS, Sweep, TuneArgs,
    Verified,
};
use crate::failure::{Failure, Result};
use crate::scenario::of_rank_0;
use crate::timed::Timed;

/// C of the short run that always reads the next chunk ahead.
const AHEAD_CHUNK: u32 = 32;
const PAPER_CHUNK: u32 = 32;

impl TuneArgs {
    /// Calibrates `model` with short runs at each depth, and returns the runs. Where the CPU
    /// executes a batch itself, the candidate that uses READs only is the paper's algorithm, one
    /// operation at a time.
    pub(super) fn calibrate<T: Timed>(
        &self,
        model: &mut Model,
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<Timing>> {
        let mut all = Vec::new();
        for direct in [false, true].into_iter().filter(|direct| !direct || self.direct()) {
            let depths = match self.direct() && !direct {
                true => vec![PAPER_DEPTH],
                false => self.space(direct).depths,
            };
            let runs: Vec<_> = depths.iter().map(|&at| self.calibration(direct, at)).collect();
            let ns = bench.rounds(&runs.concat(), self.rounds, "short runs", exchange)?;
            let each = ns.chunks(runs.first().map_or(1, Vec::len));
            let own = runs.iter().zip(each).map(|(runs, ns)| model.calibrated(runs, ns));
            let overhead = depths.into_iter().zip(own).collect();
            match direct {
                true => model.direct = overhead,
                false => model.by_reads = overhead,
            }
            all.extend(runs.concat().into_iter().zip(ns));
        }
        Ok(all)
    }

    /// Returns the runs of a depth: one plain and one with a cache. Unless the CPU can load all
    /// buckets, also runs with each other C, with claims along with the first READ, and with
    /// read-ahead.
    pub(super) fn calibration(&self, direct: bool, depth: u32) -> Vec<Candidate> {
        let space = self.space(direct);
        let of = |chunk_buckets| Candidate {
            chunk_buckets,
            max_chunks: space.max_chunks(chunk_buckets),
            read_ahead: ReadAhead::Never,
            one_roundtrip: OneRoundtrip::Off,
            depth,
            cache_entries: 0,
            direct,
        };
        let [least, others @ ..] = CHUNK_BUCKETS;
        let plain = of(least);
        let mut runs = vec![plain, Candidate { cache_entries: space.cache_entries, ..plain }];
        if !direct {
            runs.extend(others.map(of));
            // With a smaller C a CPU has prefetched the whole next chunk, and with a larger one
            // the next chunk is rarely needed.
            runs.push(Candidate { read_ahead: ReadAhead::Always, ..of(AHEAD_CHUNK) });
            runs.push(Candidate { one_roundtrip: OneRoundtrip::On, ..plain });
        }
        runs
    }

    /// Returns the best contender by measurement, and the measured times of all contenders.
    pub(super) fn choose<T: Timed>(
        &self,
        model: &Model,
        all: &[Candidate],
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<(Candidate, Vec<Timing>)> {
        let goal = self.goal();
        let expected = model.times(all);
        let mut contenders = goal.contenders(&expected);
        if contenders.is_empty() {
            // Predictions may be wrong, and the latency bound applies to measured values.
            contenders.extend(Goal::Latency.best(&expected));
        }
        // Those of rank 0: the model on another machine may round differently.
        let places: Vec<usize> =
            (0..all.len()).filter(|at| contenders.contains(&all[*at])).collect();
        let places = of_rank_0(exchange, &places)?.into_iter();
        let contenders: Vec<Candidate> = places.filter_map(|at| all.get(at)).copied().collect();
        let ns = bench.rounds(&contenders, self.rounds, "what may be best", exchange)?;
        let measured: Vec<Timing> = contenders.into_iter().zip(ns).collect();
        match goal.best(&measured) {
            Some(best) => Ok((best, measured)),
            None => Err(too_late(&measured).everywhere()),
        }
    }

    pub(super) fn verify<T: Timed>(
        &self,
        model: &Model,
        calibration: &[Timing],
        recommended: Candidate,
        all: &[Candidate],
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<Verified> {
        let (names, mut candidates) = self.beside(recommended);
        let mut sweep = || bench.rounds(all, SWEEP_ROUNDS, "all candidates", exchange);
        let swept = self.sweep.then(&mut sweep).transpose()?;
        if let Some(swept) = &swept {
            candidates.extend(self.finalists(all, swept, &recommended));
        }
        let ns = bench.rounds(&candidates, self.rounds, "the recommendation", exchange)?;
        let cost = |candidate: &Candidate, ns: f64| match self.goal {
            GoalName::Latency => ns * f64::from(candidate.depth),
            GoalName::Throughput => ns,
        };
        let costs: Vec<f64> = candidates.iter().zip(&ns).map(|(at, &ns)| cost(at, ns)).collect();
        let others = costs.iter().skip(names.len());
        let again = others.len();
        let sweep = others.copied().reduce(f64::min).map(|best| Sweep {
            candidates: all.len(),
            again,
            longer: costs[0] / best.max(1e-3) - 1.0,
            as_expected: as_expected(model, calibration, all, swept.as_deref().unwrap_or(&[])),
        });
        let names = names.into_iter().chain(core::iter::repeat("sweep"));
        let rows = names.zip(candidates.iter().zip(&ns));
        let ranks = self.job.ranks;
        let rows = rows.map(|(name, (at, &ns))| TuneRow::new(name, at, model, ranks, ns));
        let rows = rows.collect();
        let candidates = candidates_of(model, all, ranks, swept.as_deref());
        Ok(Verified { rows, candidates, sweep })
    }

    /// Returns the recommendation, the paper's algorithm and the neighbours, with their names.
    fn beside(&self, recommended: Candidate) -> (Vec<&'static str>, Vec<Candidate>) {
        let paper = Candidate {
            chunk_buckets: PAPER_CHUNK,
            max_chunks: self.space(false).max_chunks(PAPER_CHUNK),
            read_ahead: ReadAhead::Always,
            one_roundtrip: OneRoundtrip::Off,
            depth: PAPER_DEPTH,
            cache_entries: 0,
            direct: false,
        };
        // The prediction of this row is the earlier measurement, so that a change of the machine
        // shows.
        let before = self.calibration(recommended.direct, recommended.depth)[0];
        let first = [("recommended", recommended), (PAPER, paper), ("as calibrated", before)];
        let neighbours = self.space(recommended.direct).neighbours(&recommended);
        first.into_iter().chain(neighbours).unzip()
    }

    /// Returns the best candidates of a sweep that keep the latency bound, without the
    /// recommendation.
    fn finalists(
        &self,
        all: &[Candidate],
        swept: &[f64],
        recommended: &Candidate,
    ) -> Vec<Candidate> {
        let goal = self.goal();
        let times = all.iter().copied().zip(swept.iter().copied());
        let mut order: Vec<(f64, Candidate)> =
            times.filter_map(|timing| Some((goal.cost(&timing)?, timing.0))).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let others = order.into_iter().map(|(_, candidate)| candidate);
        others.filter(|candidate| candidate != recommended).take(FINALISTS).collect()
    }
}

fn too_late(measured: &[Timing]) -> Failure {
    let latencies = measured.iter().map(|(at, ns)| ns * f64::from(at.depth));
    Failure::new(format!(
        "an operation takes {:.3} us where it is soonest to end, which is beyond --max-latency-us: \
         give more",
        latencies.reduce(f64::min).unwrap_or(0.0) / 1e3
    ))
}

/// Counts the candidates whose measured / predicted throughput is within 0.8 to 1.25, and the
/// total. It leaves out candidates whose prediction is a short run of themselves.
fn as_expected(
    model: &Model,
    calibration: &[Timing],
    all: &[Candidate],
    swept: &[f64],
) -> (usize, usize) {
    let runs: BTreeSet<u64> =
        calibration.iter().map(|(run, _)| model.time_ns(run).to_bits()).collect();
    let times = all.iter().zip(swept).map(|(at, ns)| (model.time_ns(at), ns));
    let others = times.filter(|(expected, _)| !runs.contains(&expected.to_bits()));
    let ratios: Vec<f64> = others.map(|(expected, ns)| expected / ns.max(1e-3)).collect();
    (ratios.iter().filter(|ratio| AS_EXPECTED.contains(ratio)).count(), ratios.len())
}
