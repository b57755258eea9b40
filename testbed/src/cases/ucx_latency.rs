//! UCX as a transport beside `ucx_perftest`, over Soft-RoCE between two machines, by turns.

use core::time::Duration;

use super::trial::{TRIAL, median, number, port, together};
use super::ucx::{OVER_RC, introduced};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};

pub(super) const CASES: &[Case] =
    &[Case::new(Layer::Two, "ucx_rc_latency_is_that_of_ucx_perftest", beside).needs(TRIAL)];

/// Of ucx_perftest's latency, the transport's at most.
const MOST: f64 = 1.15;
const ROUNDS: usize = 5;
/// The longest that a run of ucx_perftest may take.
const LIMIT: Duration = Duration::from_secs(60);
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

fn beside(bed: &Bed) -> Result<(), Failure> {
    println!(
        "\n| rc over Soft-RoCE | owner | transport us | ucx_perftest us | ratio | of the best |"
    );
    println!("|---|---|---|---|---|---|");
    let mut worst: f64 = 0.0;
    for operation in OPERATIONS {
        worst = worst.max(operation.ratio(bed)?);
    }
    ensure(worst <= MOST, || format!("{worst:.3} is more than {MOST}"))
}

impl Operation {
    /// Prints a row for each thing that owners do: medians in microseconds, and the median of the
    /// rounds' ratios. What is returned is the first row's ratio of the best rounds: the machines
    /// share the host with whatever else runs, which only ever adds.
    fn ratio(&self, bed: &Bed) -> Result<f64, Failure> {
        let (mut theirs, mut ours) = (Vec::new(), vec![Vec::new(); self.owners.len()]);
        for _ in 0..ROUNDS {
            theirs.push(perftest(bed, self.perftest)?);
            for (owner, ours) in self.owners.iter().zip(&mut ours) {
                ours.push(transport(bed, &format!("{} --owner {owner}", self.trial))?);
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
        judged.ok_or_else(|| Failure("nothing was measured".into()))
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The transport's median, in microseconds.
fn transport(bed: &Bed, trial: &str) -> Result<f64, Failure> {
    let output = together(bed, 2, &format!("{trial} --ucx {OVER_RC}"))?;
    introduced(&output)?;
    Ok(number(&output, "median_ns")? * 1e-3)
}

/// That of ucx_perftest.
fn perftest(bed: &Bed, test: &str) -> Result<f64, Failure> {
    let port = port();
    let (client, server) = (bed.machine(1), bed.machine(2));
    let command = format!("{SETTINGS} ucx_perftest -p {port}");
    let serving = server.start(&command, LIMIT)?;
    server.listening(port, LIMIT)?;
    let counted = "-n 1000 -w 100 -O 1 -R 50 -f -v";
    let text = client.output(&format!("{command} {} {test} {counted}", server.address()), LIMIT)?;
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
