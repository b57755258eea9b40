//! The summary of `compare`: a line for each measured column.

use probeline_limits::remote::Operation;

use super::aims;
use super::plan::{OwnerDoes, Place, Step, steps};
use super::row::cost;
use super::standing::Standing;
use crate::report::aligned;
use crate::scenario::latency::median;
use crate::scenario::throughput::Workload;
use crate::units::{rate, time};

/// The steps that the summary quotes of each column, with their heads.
fn quoted() -> [(&'static str, Step); 6] {
    let latency =
        |operation| Step::Latency { operation, place: Place::Random, owner: OwnerDoes::Poll };
    let mixed = |batched| Step::Workload { workload: Workload::Mixed, batched };
    [
        ("READ 64 B", latency(Operation::Read { words: 8 })),
        ("CAS", latency(Operation::Swap)),
        ("found", Step::Found { owner: OwnerDoes::Poll }),
        ("inserted", Step::Inserted { owner: OwnerDoes::Poll }),
        ("mixed, blocking", mixed(false)),
        ("mixed, pipelined", mixed(true)),
    ]
}

/// The measured columns, the failed and absent ones, and the leads of shm and verbs.
pub(super) fn lines(columns: &[Standing], ranks: u32) -> Vec<String> {
    let mut lines = vec![format!("compare: {ranks} ranks, medians of rounds")];
    let measured: Vec<_> = columns.iter().filter(|column| column.has_measured()).collect();
    if !measured.is_empty() {
        let head: Vec<&str> =
            ["column"].into_iter().chain(quoted().map(|(head, _)| head)).collect();
        lines.extend(aligned(&head, measured.into_iter().map(cells).collect()));
    }
    lines.extend(columns.iter().filter(|column| column.has_failed()).map(Standing::line));
    let absent = columns.iter().filter(|column| column.reason.is_some() && !column.has_failed());
    let absent: Vec<_> = absent.map(|column| column.name.name()).collect();
    if !absent.is_empty() {
        lines.push(format!("not here: {} (--full says why)", absent.join(", ")));
    }
    lines.extend(aims::lines(columns, ranks));
    lines
}

fn cells(column: &Standing) -> Vec<String> {
    let cell = |(_, step): (&str, Step)| {
        let at = steps().iter().position(|other| *other == step);
        let samples = at.map_or(&[][..], |at| column.samples(at));
        let value =
            |of: fn(&super::sample::Sample) -> f64| median(samples.iter().map(of).collect());
        let text = match step.is_latency() {
            true => value(cost).map(time),
            false => value(|sample| sample.ops_per_s).map(rate),
        };
        text.unwrap_or_else(|| "-".to_owned())
    };
    [column.name.name().to_owned()].into_iter().chain(quoted().map(cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::column::ColumnName;
    use super::super::sample::Sample;
    use super::*;

    #[test]
    fn a_column_is_a_line_and_what_is_not_here_is_named() {
        let mut shm = Standing::new(ColumnName::Shm, true);
        for (_, step) in &quoted()[..5] {
            let at = steps().iter().position(|other| other == step).unwrap();
            let sample = Sample { p50_ns: Some(120), ops_per_s: 3e6, ..Sample::default() };
            shm.add(at, sample);
        }
        let absent = |name, asked| {
            let mut column = Standing::new(name, asked);
            column.reason = Some("there is no mpirun".to_owned());
            column
        };
        let columns = [shm, absent(ColumnName::OscSm, false), absent(ColumnName::Mpich, true)];
        let lines = lines(&columns, 2);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        let times = ["120", "ns"].repeat(4);
        assert_eq!(words, [&["shm"], &times[..], &["3.00", "M/s", "-"]].concat());
        assert_eq!(lines[3], "mpich: failed: there is no mpirun");
        assert_eq!(lines[4], "not here: osc-sm (--full says why)");
    }
}
