//! The library beside perftest, in one boot, on the same CPU: medians of rounds that take turns.

use super::perftest::{ROUNDS, figure, repeats};
use super::trial::{Ranks, TRIAL, alone, median, number};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};

/// Of perftest's latency, this library's at most.
const MOST: f64 = 1.05;
/// Of perftest's rate, this library's at least.
const LEAST: f64 = 0.95;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Icount, "read_latency_is_that_of_perftest", |bed| {
        let ratio = READ.ratio(bed)?;
        ensure(ratio <= MOST, || format!("{ratio:.3} is more than {MOST}"))
    })
    .needs(TRIAL),
    Case::new(Layer::Icount, "read_latency_repeats", |bed| repeats(|| READ.ours(bed))).needs(TRIAL),
    Case::new(Layer::Icount, "swap_latency_is_that_of_perftest", |bed| {
        let ratio = SWAP.ratio(bed)?;
        ensure(ratio <= MOST, || format!("{ratio:.3} is more than {MOST}"))
    })
    .needs(TRIAL),
    Case::new(Layer::Icount, "read_rate_is_that_of_perftest", |bed| {
        let ratio = RATE.ratio(bed)?;
        ensure(ratio >= LEAST, || format!("{ratio:.3} is less than {LEAST}"))
    })
    .needs(TRIAL),
    // Two CPUs are shared by two machines and whatever else runs: a record, no gate.
    Case::new(Layer::Two, "latency_and_rate_beside_perftest", |bed| {
        for comparison in [READ, SWAP, RATE] {
            let ratio = comparison.ratio(bed)?;
            ensure(ratio.is_finite() && ratio > 0.0, || "nothing was measured".into())?;
        }
        Ok(())
    })
    .needs(TRIAL),
];

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
    fn ratio(&self, bed: &Bed) -> Result<f64, Failure> {
        let machines = bed.machines();
        let (Some(client), Some(server)) = (machines.first(), machines.last()) else {
            return Err(Failure("no machine".into()));
        };
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(figure(self.perftest, server, client)?);
            ours.push(self.ours(bed)?);
        }
        let (theirs, ours) = (median(theirs), median(ours));
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
