//! The library beside perftest, in one boot, on the same CPU: medians of rounds that take turns.

use super::perftest::{ROUNDS, figure, positive, repeats};
use super::trial::{Ranks, TRIAL, alone, median, number};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::verdict::{Bound, Verdict};

/// Of perftest's latency, this library's at most.
const MOST: f64 = 1.05;
/// Of perftest's rate, this library's at least.
const LEAST: f64 = 0.95;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Icount, "read_latency_is_that_of_perftest", |bed| {
        let ratio = READ.ratio(bed, ROUNDS)?;
        ensure(ratio <= MOST, || format!("{ratio:.3} is more than {MOST}"))
    })
    .needs(TRIAL),
    Case::new(Layer::Icount, "read_latency_repeats", |bed| repeats(|| READ.ours(bed))).needs(TRIAL),
    Case::new(Layer::Icount, "swap_latency_is_that_of_perftest", |bed| {
        let ratio = SWAP.ratio(bed, ROUNDS)?;
        ensure(ratio <= MOST, || format!("{ratio:.3} is more than {MOST}"))
    })
    .needs(TRIAL),
    Case::new(Layer::Icount, "read_rate_is_that_of_perftest", |bed| {
        let ratio = RATE.ratio(bed, ROUNDS)?;
        ensure(ratio >= LEAST, || format!("{ratio:.3} is less than {LEAST}"))
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "latency_and_rate_are_measured_beside_perftest", |bed| {
        beside(bed, 1).map(drop)
    })
    .needs(TRIAL),
    Case::bench(Layer::Two, "latency_and_rate_by_those_of_perftest", |bed| beside(bed, ROUNDS))
        .needs(TRIAL),
];

/// Between two machines: records, for they share two CPUs with whatever else runs.
fn beside(bed: &Bed, rounds: usize) -> Result<Vec<Verdict>, Failure> {
    let verdict = |comparison: &Comparison| {
        let value = comparison.ratio(bed, rounds)?;
        let what = format!("{} by perftest's", comparison.what);
        Ok(Verdict { what, value, bound: Bound::Unbounded })
    };
    [READ, SWAP, RATE].iter().map(verdict).collect()
}

const READ: Comparison = Comparison {
    what: "READ 64 B, median us",
    perftest: "ib_read_lat -s 64 -n 1000",
    trial: "latency read",
    figure: "median_ns",
    scale: 1e-3,
};
const SWAP: Comparison = Comparison {
    what: "compare-and-swap, median us",
    perftest: "ib_atomic_lat -A CMP_AND_SWAP -n 1000",
    trial: "latency cas",
    figure: "median_ns",
    scale: 1e-3,
};
const RATE: Comparison = Comparison {
    what: "READ 64 B at depth 16, million a second",
    perftest: "ib_read_bw -s 64 -n 3000 -t 16",
    trial: "rate --operations 3000",
    figure: "reads_per_s",
    scale: 1e-6,
};

/// One figure, as perftest and as this library has it.
struct Comparison {
    what: &'static str,
    perftest: &'static str,
    trial: &'static str,
    figure: &'static str,
    /// From the trial's unit to perftest's.
    scale: f64,
}

impl Comparison {
    /// The library's median over perftest's.
    fn ratio(&self, bed: &Bed, rounds: usize) -> Result<f64, Failure> {
        let machines = bed.machines();
        let (Some(client), Some(server)) = (machines.first(), machines.last()) else {
            return Err(Failure("no machine".into()));
        };
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            theirs.push(figure(self.perftest, server, client)?);
            ours.push(self.ours(bed)?);
        }
        let (theirs, ours) = (positive(median(theirs))?, positive(median(ours))?);
        let ratio = ours / theirs;
        println!("{}: {ours:.4}, perftest {theirs:.4}, ratio {ratio:.3}", self.what);
        Ok(ratio)
    }

    /// The library's figure, in perftest's unit.
    fn ours(&self, bed: &Bed) -> Result<f64, Failure> {
        let output = match bed.machines() {
            // One command, for a clock that runs ahead while nothing is executed would not wait for
            // the host to start the second rank.
            [_] => alone(bed, self.trial)?,
            _ => Ranks::start(bed, "trial", 2, self.trial)?.finish()?,
        };
        Ok(number(&output, self.figure)? * self.scale)
    }
}
