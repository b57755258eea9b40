//! Measures the recommendation together with other candidates.

use std::collections::BTreeSet;

use probeline::table::{OneRoundtrip, ReadAhead};
use probeline::transport::Exchange;
use probeline_tune::{Candidate, Goal, Model, Timing};

use super::bench::Bench;
use super::expected::candidates as candidates_of;
use super::row::{PAPER, TuneRow};
use super::{AS_EXPECTED, FINALISTS, GoalName, SWEEP_ROUNDS, Sweep, TuneArgs, Tuned};
use crate::failure::Result;
use crate::timed::Timed;

/// The paper's C (section 4.2).
const PAPER_CHUNK: u32 = 32;
/// The paper's operations are blocking calls.
pub(super) const PAPER_DEPTH: u32 = 1;

impl TuneArgs {
    /// Measures the recommendation, its neighbours, the baseline and the best candidates of the
    /// sweep.
    pub(super) fn verify<T: Timed>(
        &self,
        model: Model,
        (calibration, recommended): (Vec<Timing>, Candidate),
        all: &[Candidate],
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<Tuned> {
        let (names, mut candidates) = self.beside(recommended);
        let swept = if self.sweep { Some(sweep(all, bench, exchange)?) } else { None };
        if let Some(swept) = &swept {
            candidates.extend(self.finalists(all, swept, &recommended));
        }
        let ns = bench.rounds(&candidates, self.rounds, "what is recommended", exchange)?;
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
            as_expected: as_expected(&model, &calibration, all, swept.as_deref().unwrap_or(&[])),
        });
        let names = names.into_iter().chain(core::iter::repeat("sweep"));
        let rows = names.zip(candidates.iter().zip(&ns));
        let ranks = self.job.ranks;
        let rows = rows.map(|(name, (at, &ns))| TuneRow::new(name, at, &model, ranks, ns));
        let rows = rows.collect();
        let candidates = candidates_of(&model, all, ranks, swept.as_deref());
        let (contenders, network) = (Vec::new(), None);
        Ok(Tuned { model, calibration, recommended, contenders, rows, network, candidates, sweep })
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
        let mut order: Vec<(f64, Candidate)> = Vec::new();
        for (candidate, ns) in all.iter().zip(swept) {
            let latency = ns * f64::from(candidate.depth);
            match goal {
                Goal::Latency => order.push((latency, *candidate)),
                Goal::Throughput { most_latency_ns } if latency <= most_latency_ns => {
                    order.push((*ns, *candidate));
                }
                Goal::Throughput { .. } => {}
            }
        }
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let others = order.into_iter().map(|(_, candidate)| candidate);
        others.filter(|candidate| candidate != recommended).take(FINALISTS).collect()
    }
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

/// Measures all candidates in turn. Returns the nanoseconds that a rank takes for each operation.
fn sweep<T: Timed>(
    all: &[Candidate],
    bench: &mut Bench<'_, T>,
    exchange: &mut dyn Exchange,
) -> Result<Vec<f64>> {
    bench.rounds(all, SWEEP_ROUNDS, "all candidates", exchange)
}
