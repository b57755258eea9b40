//! UCX as a transport beside `ucx_perftest`, over Soft-RoCE between two machines, by turns.

use super::perftest::positive;
use super::trial::{TRIAL, median, number, port, together};
use super::ucx::{OVER_RC, introduced};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer};
use crate::patience::PATIENCE;
use crate::verdict::{Bound, Verdict};

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "ucx_rc_latency_is_measured", |bed| beside(bed, &ONCE).map(drop))
        .needs(TRIAL),
    Case::bench(Layer::Two, "ucx_rc_latency_by_that_of_ucx_perftest", |bed| beside(bed, &BENCH))
        .needs(TRIAL),
];

/// Of ucx_perftest's latency, the transport's at most.
const MOST: f64 = 1.15;

/// How much is measured.
struct Effort {
    rounds: usize,
    /// Operations of a round that count, and those before them.
    operations: u32,
    warm_up: u32,
}

const BENCH: Effort = Effort { rounds: 5, operations: 1000, warm_up: 100 };
/// Enough to see that all is measured.
const ONCE: Effort = Effort { rounds: 1, operations: 20, warm_up: 1 };

/// What ucx_perftest needs to go where [`OVER_RC`] says; the transport adds `self` to `rc` itself.
const SETTINGS: &str = "UCX_TLS=rc,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0 \
    UCX_ATOMIC_MODE=cpu";

/// One operation, as ucx_perftest and as the trial are asked for it.
struct Operation {
    name: &'static str,
    perftest: &'static str,
    trial: &'static str,
    /// What the owner does meanwhile. First comes what ucx_perftest's responder does, and what is
    /// compared with it; the others are a record.
    owners: &'static [&'static str],
}

/// For READs the responder sleeps between looks at its socket, for atomics it polls.
const OPERATIONS: [Operation; 3] = [
    Operation {
        name: "READ 8 B",
        perftest: "-t ucp_get -s 8",
        trial: "latency read --bytes 8",
        owners: &["naps", "polls"],
    },
    Operation {
        name: "READ 64 B",
        perftest: "-t ucp_get -s 64",
        trial: "latency read --bytes 64",
        owners: &["naps", "polls"],
    },
    Operation {
        name: "CAS",
        perftest: "-t ucp_cswap -s 8",
        trial: "latency cas",
        owners: &["polls", "waits"],
    },
];

fn beside(bed: &Bed, effort: &Effort) -> Result<Vec<Verdict>, Failure> {
    println!(
        "\n| rc over Soft-RoCE | owner | transport us | ucx_perftest us | ratio | of the best |"
    );
    println!("|---|---|---|---|---|---|");
    OPERATIONS.iter().map(|operation| operation.ratio(bed, effort)).collect()
}

impl Operation {
    /// Prints a row for each thing that owners do: medians in microseconds, and the median of the
    /// rounds' ratios. The verdict is of the first row's ratio of the best rounds: the machines
    /// share the host with whatever else runs, which only ever adds.
    fn ratio(&self, bed: &Bed, effort: &Effort) -> Result<Verdict, Failure> {
        let (mut theirs, mut ours) = (Vec::new(), vec![Vec::new(); self.owners.len()]);
        for _ in 0..effort.rounds {
            theirs.push(positive(perftest(bed, self.perftest, effort)?)?);
            for (owner, ours) in self.owners.iter().zip(&mut ours) {
                let trial = format!("{} --owner {owner}", self.trial);
                ours.push(positive(transport(bed, &trial, effort)?)?);
            }
        }
        let mut judged = None;
        for (owner, ours) in self.owners.iter().zip(ours) {
            let rounds = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
            let best = least(&ours) / least(&theirs);
            let (name, ratio) = (self.name, median(rounds));
            let (ours, theirs) = (median(ours), median(theirs.clone()));
            println!("| {name} | {owner} | {ours:.1} | {theirs:.0} | {ratio:.2} | {best:.2} |");
            judged.get_or_insert(best);
        }
        let value = judged.ok_or_else(|| Failure("nothing was measured".into()))?;
        let what = format!("{} over UCX rc by ucx_perftest", self.name);
        Ok(Verdict { what, value, bound: Bound::AtMost(MOST) })
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The transport's median, in microseconds.
fn transport(bed: &Bed, trial: &str, effort: &Effort) -> Result<f64, Failure> {
    let Effort { operations, warm_up, .. } = effort;
    let counted = format!("--operations {operations} --warm-up {warm_up}");
    let output = together(bed, 2, &format!("{trial} {counted} --ucx {OVER_RC}"))?;
    introduced(&output)?;
    Ok(number(&output, "median_ns")? * 1e-3)
}

/// That of ucx_perftest.
fn perftest(bed: &Bed, test: &str, effort: &Effort) -> Result<f64, Failure> {
    let port = port();
    let (client, server) = (bed.machine(1), bed.machine(2));
    let command = format!("{SETTINGS} ucx_perftest -p {port}");
    let serving = server.start(&command, PATIENCE)?;
    server.listening(port)?;
    let Effort { operations, warm_up, .. } = effort;
    let counted = format!("-n {operations} -w {warm_up} -O 1 -R 50 -f -v");
    let text =
        client.output(&format!("{command} {} {test} {counted}", server.address()), PATIENCE)?;
    serving.wait()?.good()?;
    second(&text).ok_or_else(|| Failure(format!("no row of numbers:\n{text}")))
}

/// The second value of the only row, the percentile asked for.
fn second(text: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| line.split(',').nth(1)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_read() {
        let text = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr\n\
                    1000,309.000,325.1,325.1,0.19,0.19,3075\n";
        assert_eq!(second(text), Some(309.0));
        assert_eq!(second("[1.2] [node1:7] sock.c:1 UCX ERROR connect: refused\n"), None);
    }
}
