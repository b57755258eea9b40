//! perftest's tests run, and the library's latency and rate are near perftest's, measured in turn in
//! one boot.

use anyhow::{Context, Result, ensure};

use super::ranks::{run_on_all, run_on_one};
use super::{TRIAL, median, min, number, positive, trial};
use crate::HANG_TIMEOUT;
use crate::case::{Bound, Case, Figure, Layer};
use crate::machine::Machine;
use crate::testbed::Testbed;

/// The library's latency is at most this multiple of perftest's.
const MAX_LATENCY_RATIO: f64 = 1.05;
/// The library's rate is at least this multiple of perftest's.
const MIN_RATE_RATIO: f64 = 0.95;
/// The greatest relative difference of two figures of the layer `icount`.
const MAX_DIFFERENCE: f64 = 0.005;
/// Rounds of each compared measurement.
const ROUNDS: usize = 5;

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Two, "ib_read_lat_runs", |testbed| {
        let program = "ib_read_lat --size 64";
        positive(measure(program, testbed.machine(2), testbed.machine(1))?).map(drop)
    }),
    Case::test(Layer::Two, "ib_atomic_lat_runs", |testbed| {
        let program = "ib_atomic_lat --atomic_type CMP_AND_SWAP";
        positive(measure(program, testbed.machine(2), testbed.machine(1))?).map(drop)
    }),
    Case::test(Layer::Icount, "ib_read_lat_is_reproducible", |testbed| {
        let node = testbed.machine(1);
        is_reproducible(|| measure("ib_read_lat --size 64", node, node))
    }),
    trial(Layer::Icount, "read_latency_is_reproducible", |testbed| {
        is_reproducible(|| READ.library(testbed))
    }),
    trial(Layer::Icount, "read_latency_is_near_perftest", |testbed| near(testbed, &READ)),
    trial(Layer::Icount, "cas_latency_is_near_perftest", |testbed| near(testbed, &CAS)),
    trial(Layer::Icount, "read_rate_is_near_perftest", |testbed| {
        let ratio = RATE.ratio(testbed, ROUNDS)?;
        ensure!(ratio >= MIN_RATE_RATIO, "{ratio:.3} is less than {MIN_RATE_RATIO}");
        Ok(())
    }),
    trial(Layer::Two, "comparison_with_perftest_runs", |testbed| compare(testbed, 1).map(drop)),
    Case::bench(Layer::Two, "latency_and_rate_vs_perftest", |testbed| compare(testbed, ROUNDS))
        .needs(TRIAL),
];

fn near(testbed: &Testbed, comparison: &Comparison) -> Result<()> {
    let ratio = comparison.ratio(testbed, ROUNDS)?;
    ensure!(ratio <= MAX_LATENCY_RATIO, "{ratio:.3} is more than {MAX_LATENCY_RATIO}");
    Ok(())
}

/// Compares between two machines, without bounds: the machines share the host's CPUs with its load.
fn compare(testbed: &Testbed, rounds: usize) -> Result<Vec<Figure>> {
    let figure = |comparison: &Comparison| {
        let value = comparison.ratio(testbed, rounds)?;
        let name = format!("{} / perftest", comparison.name);
        Ok(Figure { name, value, bound: Bound::Unbounded })
    };
    [READ, CAS, RATE].iter().map(figure).collect()
}

const READ: Comparison = Comparison {
    name: "READ 64 B, median us",
    perftest: "ib_read_lat -s 64 -n 1000",
    trial: "latency read",
    trial_figure: "median_ns",
    scale: 1e-3,
};
const CAS: Comparison = Comparison {
    name: "compare-and-swap, median us",
    perftest: "ib_atomic_lat -A CMP_AND_SWAP -n 1000",
    trial: "latency cas",
    trial_figure: "median_ns",
    scale: 1e-3,
};
const RATE: Comparison = Comparison {
    name: "READ 64 B at depth 16, million/s",
    perftest: "ib_read_bw -s 64 -n 3000 -t 16",
    trial: "rate --operations 3000",
    trial_figure: "reads_per_s",
    scale: 1e-6,
};

/// A figure that both perftest and `trial` measure.
struct Comparison {
    name: &'static str,
    perftest: &'static str,
    trial: &'static str,
    trial_figure: &'static str,
    /// Perftest's unit in units of the trial.
    scale: f64,
}

impl Comparison {
    /// Returns the library's median divided by perftest's.
    fn ratio(&self, testbed: &Testbed, rounds: usize) -> Result<f64> {
        let (client, server) =
            (testbed.machine(1), testbed.machines().last().context("no machine")?);
        let (mut perftest, mut library) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            perftest.push(measure(self.perftest, server, client)?);
            library.push(self.library(testbed)?);
        }
        let (perftest, library) = (positive(median(perftest))?, positive(median(library))?);
        let ratio = library / perftest;
        println!("{}: {library:.4}, perftest {perftest:.4}, ratio {ratio:.3}", self.name);
        Ok(ratio)
    }

    /// Returns the library's figure, in perftest's unit.
    fn library(&self, testbed: &Testbed) -> Result<f64> {
        let output = match testbed.machines() {
            // One command starts both ranks: an `icount` clock runs ahead while the guest waits for
            // the host to start the second one.
            [_] => run_on_one(testbed, self.trial)?,
            _ => run_on_all(testbed, 2, self.trial)?,
        };
        Ok(number(&output, self.trial_figure)? * self.scale)
    }
}

/// Compares two measurements of a figure. Interrupts by the host add instructions to some runs, so
/// the least of several runs are compared.
fn is_reproducible(measure: impl Fn() -> Result<f64>) -> Result<()> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        first.push(measure()?);
        second.push(measure()?);
    }
    println!("medians, in turn: {first:?} and {second:?}");
    let (first, second) = (positive(min(&first))?, min(&second));
    let difference = (first - second).abs() / first;
    ensure!(difference <= MAX_DIFFERENCE, "at least {first}, then at least {second}");
    Ok(())
}

/// Runs a test of perftest: the median of a latency test in us, or the rate of a bandwidth test in
/// million operations a second.
pub(super) fn measure(program: &str, server: &Machine, client: &Machine) -> Result<f64> {
    const PORT: u16 = 18515;
    let command =
        format!("{program} -u 19 --ib-dev rxe0 --gid-index $GID_INDEX --CPU-freq --port {PORT}");
    let serving = server.start(&command, HANG_TIMEOUT)?;
    server.wait_for_listener(PORT).with_context(|| serving.output())?;
    let text = client.output(&format!("{command} {}", server.address()), HANG_TIMEOUT)?;
    serving.wait()?.success()?;
    fifth_column(&text).with_context(|| format!("no row of numbers: {text}"))
}

/// Returns the fifth column, `t_typical` or `MsgRate`, of the only row.
fn fifth_column(text: &str) -> Option<f64> {
    let rows = text.lines().map(|line| line.split_whitespace().map(str::parse::<f64>));
    let mut rows = rows.filter_map(|row| row.collect::<Result<Vec<f64>, _>>().ok());
    rows.find(|row| row.len() >= 5).map(|row| row[4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_figure() {
        let text = " remote address: QPN 0x11 PSN 0x8cbd2\n\
                    #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n \
                    64      1000       17.42       44.64       18.59      19.01  1.2  20.1  44.6\n";
        assert_eq!(fifth_column(text), Some(18.59));
        let text = " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n \
                    64         3000             4.49               3.52           0.057751\n";
        assert_eq!(fifth_column(text), Some(0.057751));
        assert_eq!(fifth_column("Couldn't connect to 10.0.0.2:18515\n"), None);
    }
}
