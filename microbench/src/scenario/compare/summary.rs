//! The summary of `compare`: a line for each measured column, and the ratios that have a target.

use core::cmp::Ordering;

use probeline_limits::remote::Operation;

use super::column::ColumnName;
use super::measured::{Column, Sample, median_time_ns, ratio};
use super::step::{OwnerDoes, Place, Step, What};
use crate::run_report::aligned;
use crate::scenario::median;
use crate::scenario::throughput::Workload;
use crate::units::{rate, time};

/// Targets: find-or-puts a second over shm / those over the fastest component of Open MPI, two
/// ranks, workload mixed.
const BLOCKING_TARGET: f64 = 5.0;
const PIPELINED_TARGET: f64 = 15.0;
/// Target: time of an insert over verbs / that over osc-ucx.
const INSERT_TARGET: f64 = 0.5;

const fn mixed(batched: bool) -> Step {
    Step { what: What::Workload { workload: Workload::Mixed, batched }, owner: OwnerDoes::Work }
}

const fn polled(what: What) -> Step {
    Step { what, owner: OwnerDoes::Poll }
}

fn shown() -> [(&'static str, Step); 6] {
    let latency = |operation| polled(What::Latency(operation, Place::Random));
    [
        ("READ 64 B", latency(Operation::Read { words: 8 })),
        ("CAS", latency(Operation::Swap)),
        ("found", polled(What::Found)),
        ("inserted", polled(What::Inserted)),
        ("mixed, blocking", mixed(false)),
        ("mixed, pipelined", mixed(true)),
    ]
}

pub(super) fn lines(columns: &[Column], ranks: u32) -> Vec<String> {
    let mut lines = vec![format!("compare: {ranks} ranks, medians of rounds")];
    let measured: Vec<_> = columns.iter().filter(|column| column.has_measured()).collect();
    if !measured.is_empty() {
        let head: Vec<&str> = ["column"].into_iter().chain(shown().map(|(head, _)| head)).collect();
        lines.extend(aligned(&head, measured.into_iter().map(cells).collect()));
    }
    lines.extend(columns.iter().filter(|column| column.has_failed()).map(Column::line));
    let absent = columns.iter().filter(|column| column.error.is_some() && !column.has_failed());
    let absent: Vec<_> = absent.map(|column| column.name.name()).collect();
    if !absent.is_empty() {
        lines.push(format!("not measured: {} (reasons: --full)", absent.join(", ")));
    }
    lines.extend(targets(columns, ranks));
    lines
}

fn cells(column: &Column) -> Vec<String> {
    let cell = |(_, step): (&str, Step)| {
        let samples = column.samples_of(step);
        let text = match step.is_latency() {
            true => median_time_ns(samples).map(time),
            false => median(samples.iter().map(|sample| sample.ops_per_s).collect()).map(rate),
        };
        text.unwrap_or_else(|| "-".to_owned())
    };
    [column.name.name()].into_iter().chain(shown().map(cell)).collect()
}

fn targets(columns: &[Column], ranks: u32) -> Vec<String> {
    let mut lines = Vec::new();
    if ranks == 2 {
        lines.extend(shm_by_open_mpi(columns, false, BLOCKING_TARGET));
        lines.extend(shm_by_open_mpi(columns, true, PIPELINED_TARGET));
    }
    lines.extend(insert_by_osc_ucx(columns));
    lines
}

fn shm_by_open_mpi(columns: &[Column], batched: bool, target: f64) -> Option<String> {
    let step = mixed(batched);
    let components = columns.iter().filter(|column| column.name.is_osc());
    let timed = components.filter_map(|column| {
        let samples = column.samples_of(step);
        Some((median_time_ns(samples)?, column.name, samples))
    });
    let by_time =
        |one: &(f64, _, _), other: &(f64, _, _)| -> Ordering { one.0.total_cmp(&other.0) };
    let (_, fastest, samples) = timed.min_by(by_time)?;
    // The ratio is one of rates, so it is the inverse of one of times.
    let by_fastest = |name| ratio(samples, samples_of(columns, name, step)?);
    let shm = by_fastest(ColumnName::Shm)?;
    let posted = by_fastest(ColumnName::ShmPosted)
        .map_or_else(String::new, |ratio| format!(", shm-posted {ratio:.2} x"));
    Some(format!(
        "mixed, {}: shm has {shm:.2} x{posted} the rate of {}, the fastest of Open MPI \
         (target: {target})",
        if batched { "pipelined" } else { "blocking" },
        fastest.name()
    ))
}

fn insert_by_osc_ucx(columns: &[Column]) -> Option<String> {
    let by_osc_ucx = |owner| {
        let of = |name| samples_of(columns, name, Step { what: What::Inserted, owner });
        ratio(of(ColumnName::Verbs)?, of(ColumnName::OscUcx)?)
    };
    let (polls, sleeps) = (by_osc_ucx(OwnerDoes::Poll)?, by_osc_ucx(OwnerDoes::Sleep)?);
    Some(format!(
        "inserted: verbs takes {polls:.3} of the time of osc-ucx (target: {INSERT_TARGET}), \
         {sleeps:.3} while the owner sleeps"
    ))
}

fn samples_of(columns: &[Column], name: ColumnName, step: Step) -> Option<&[Sample]> {
    Some(columns.iter().find(|column| column.name == name)?.samples_of(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(step: Step) -> usize {
        super::super::step::steps().iter().position(|other| *other == step).unwrap()
    }

    fn measured(name: ColumnName, step: Step, mean_ns: f64) -> Column {
        let mut column = Column::new(name, true);
        column.add(index(step), Sample { mean_ns, ..Sample::default() });
        column
    }

    #[test]
    fn a_column_is_a_line_and_absent_ones_are_named() {
        let mut shm = Column::new(ColumnName::Shm, true);
        for (_, step) in &shown()[..5] {
            let sample = Sample { p50_ns: Some(120), ops_per_s: 3e6, ..Sample::default() };
            shm.add(index(*step), sample);
        }
        let absent = |name, requested| {
            let mut column = Column::new(name, requested);
            column.error = Some("there is no mpirun".to_owned());
            column
        };
        let columns = [shm, absent(ColumnName::OscSm, false), absent(ColumnName::Mpich, true)];
        let lines = lines(&columns, 2);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        let times = ["120", "ns"].repeat(4);
        assert_eq!(words, [&["shm"], &times[..], &["3.00", "M/s", "-"]].concat());
        assert_eq!(lines[3], "mpich: failed: there is no mpirun");
        assert_eq!(lines[4], "not measured: osc-sm (reasons: --full)");
    }

    #[test]
    fn shm_is_compared_with_the_fastest_component() {
        let step = mixed(true);
        let columns = [
            measured(ColumnName::Shm, step, 100.0),
            measured(ColumnName::OscUcx, step, 9_000.0),
            measured(ColumnName::OscSm, step, 2_000.0),
            measured(ColumnName::Mpich, step, 1_000.0),
        ];
        let [line] = &targets(&columns, 2)[..] else { panic!("{:?}", targets(&columns, 2)) };
        assert!(line.contains("pipelined: shm has 20.00 x the rate of osc-sm"));
        assert!(targets(&columns, 3).is_empty() && targets(&columns[..1], 2).is_empty());
    }

    #[test]
    fn inserts_over_verbs_are_compared_with_those_over_osc_ucx() {
        let mut columns = [(ColumnName::Verbs, 300.0), (ColumnName::OscUcx, 1_000.0)]
            .map(|(name, ns)| measured(name, polled(What::Inserted), ns));
        assert!(targets(&columns, 2).is_empty());
        let sleeps = index(Step { what: What::Inserted, owner: OwnerDoes::Sleep });
        for (column, mean_ns) in columns.iter_mut().zip([300.0, 50_000.0]) {
            column.add(sleeps, Sample { mean_ns, ..Sample::default() });
        }
        let text = targets(&columns, 2).concat();
        assert!(text.contains("verbs takes 0.300 of the time of osc-ucx (target: 0.5)"));
        assert!(text.contains(", 0.006 while the owner sleeps"), "{text}");
    }
}
