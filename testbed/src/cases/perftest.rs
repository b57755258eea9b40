//! The library's latency and rate are near perftest's, measured in turn in one boot.

use anyhow::{Context, Result, ensure};

use super::ranks::{run_on_all, run_on_one};
use super::{TRIAL, number, trial};
use crate::HANG_TIMEOUT;
use crate::case::{Bound, Case, Figure, Layer};
use crate::machine::Machine;
use crate::testbed::Testbed;

/// The library's time is at most this multiple of perftest's.
const MAX_RATIO: f64 = 1.05;
/// The greatest relative difference of two measurements of a figure of the layer `icount`.
const MAX_DIFFERENCE: f64 = 0.005;
/// The rounds of the layer `icount`, whose times hardly differ between them.
const ROUNDS: u32 = 3;

pub(super) const CASES: &[Case] = &[
    trial(Layer::Icount, "read_latency_is_reproducible", |testbed| {
        let read = || READ.library(testbed);
        let figure = compare("READ again", ROUNDS, Bound::Unbounded, read, read)?;
        ensure!((figure.value - 1.0).abs() <= MAX_DIFFERENCE, "{figure}");
        Ok(())
    }),
    trial(Layer::Icount, "read_latency_is_near_perftest", |testbed| READ.is_near(testbed)),
    trial(Layer::Icount, "cas_latency_is_near_perftest", |testbed| CAS.is_near(testbed)),
    trial(Layer::Icount, "read_rate_is_near_perftest", |testbed| RATE.is_near(testbed)),
    // Without bounds: the machines share the host's CPUs with its load.
    Case::figures(Layer::Two, "latency_and_rate_vs_perftest", |testbed, mode| {
        let all = [READ, CAS, RATE];
        all.iter().map(|row| row.measure(testbed, mode.rounds(), Bound::Unbounded)).collect()
    })
    .needs(TRIAL),
];

const READ: Comparison = Comparison {
    name: "latency of READ 64 B / perftest",
    perftest: "ib_read_lat -s 64 -n 1000",
    trial: "latency read",
};
const CAS: Comparison = Comparison {
    name: "latency of CAS / perftest",
    perftest: "ib_atomic_lat -A CMP_AND_SWAP -n 1000",
    trial: "latency cas",
};
const RATE: Comparison = Comparison {
    name: "time for each READ 64 B at depth 16 / perftest",
    perftest: "ib_read_bw -s 64 -n 3000 -t 16",
    trial: "rate",
};

/// A time that both perftest and `trial` measure.
struct Comparison {
    name: &'static str,
    perftest: &'static str,
    trial: &'static str,
}

impl Comparison {
    fn is_near(&self, testbed: &Testbed) -> Result<()> {
        let figure = self.measure(testbed, ROUNDS, Bound::AtMost(MAX_RATIO))?;
        ensure!(figure.is_met(), "{figure}");
        Ok(())
    }

    fn measure(&self, testbed: &Testbed, rounds: u32, bound: Bound) -> Result<Figure> {
        let server = testbed.machines().last().context("no machine")?;
        let perftest = || perftest_us(self.perftest, server, testbed.machine(1));
        compare(self.name, rounds, bound, || self.library(testbed), perftest)
    }

    /// Measures the library's time in us.
    fn library(&self, testbed: &Testbed) -> Result<f64> {
        let output = match testbed.machines() {
            // One command starts both ranks: an `icount` clock runs ahead while the guest waits for
            // the host to start the second one.
            [_] => run_on_one(testbed, self.trial)?,
            _ => run_on_all(testbed, 2, self.trial)?,
        };
        Ok(number(&output, "time_ns")? * 1e-3)
    }
}

/// Measures two times in us in turn. The figure is the best of the first divided by the best of the
/// second: load on the host, and its interrupts, only add to a time.
pub(super) fn compare(
    name: &str,
    rounds: u32,
    bound: Bound,
    first: impl Fn() -> Result<f64>,
    second: impl Fn() -> Result<f64>,
) -> Result<Figure> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..rounds {
        for (best, time) in best.iter_mut().zip([first()?, second()?]) {
            ensure!(time.is_finite() && time > 0.0, "measured {time}");
            *best = best.min(time);
        }
    }
    println!("\n{name}: {:.3} us and {:.3} us", best[0], best[1]);
    Ok(Figure { name: name.to_owned(), value: best[0] / best[1], bound })
}

/// Runs a test of perftest. Returns an operation's time in us: the median of a latency test, or the
/// inverse of a bandwidth test's rate.
fn perftest_us(program: &str, server: &Machine, client: &Machine) -> Result<f64> {
    const PORT: u16 = 18515;
    let command =
        format!("{program} -u 19 --ib-dev rxe0 --gid-index $GID_INDEX --CPU-freq --port {PORT}");
    let serving = server.start(&command, HANG_TIMEOUT)?;
    server.wait_for_listener(PORT).with_context(|| serving.output())?;
    let text = client.output(&format!("{command} {}", server.address()), HANG_TIMEOUT)?;
    serving.wait()?.success()?;
    let figure = fifth_column(&text).with_context(|| format!("no row of numbers: {text}"))?;
    Ok(if text.contains("MsgRate[Mpps]") { 1.0 / figure } else { figure })
}

/// Returns the fifth column, `t_typical` or `MsgRate`, of the only row.
fn fifth_column(text: &str) -> Option<f64> {
    let rows = text.lines().map(|line| line.split_whitespace().map(str::parse::<f64>));
    let mut rows = rows.filter_map(|row| row.collect::<Result<Vec<f64>, _>>().ok());
    rows.find(|row| row.len() >= 5).map(|row| row[4])
}
