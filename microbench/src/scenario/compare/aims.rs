//! What is asked of the comparison, and what came out.

use super::column::ColumnName;
use super::plan::{OwnerDoes, Step, steps};
use super::row::{cost, times};
use super::standing::Standing;
use crate::scenario::latency::median;
use crate::scenario::throughput::Workload;

/// find-or-puts a second over shm by those over the best component of Open MPI, two ranks, mixed.
const BLOCKING_TIMES: f64 = 5.0;
const PIPELINED_TIMES: f64 = 15.0;
/// The time of an insert over verbs by that over osc-ucx.
const INSERT_SHARE: f64 = 0.5;

/// A line for each that the columns can answer.
pub(super) fn lines(columns: &[Standing], ranks: u32) -> Vec<String> {
    let mut lines = Vec::new();
    if ranks == 2 {
        lines.extend(against_osc(columns, false, BLOCKING_TIMES));
        lines.extend(against_osc(columns, true, PIPELINED_TIMES));
    }
    lines.extend(insert(columns));
    lines
}

fn against_osc(columns: &[Standing], batched: bool, aim: f64) -> Option<String> {
    let step = at(Step::Workload { workload: Workload::Mixed, batched })?;
    let cost_of = |column: &&Standing| median(column.samples(step).iter().map(cost).collect());
    let best = columns.iter().filter(|column| column.name.is_osc());
    let best = best.filter(|column| cost_of(column).is_some());
    let best = best.min_by(|one, other| {
        cost_of(one).unwrap_or(f64::MAX).total_cmp(&cost_of(other).unwrap_or(f64::MAX))
    })?;
    let by = |name| times(best.samples(step), named(columns, name)?.samples(step));
    let shm = by(ColumnName::Shm)?;
    let posted = by(ColumnName::ShmPosted)
        .map_or_else(String::new, |times| format!(", shm-posted {times:.2} x"));
    Some(format!(
        "mixed, {}: shm does {shm:.2} x{posted} the rate of {}, the best of Open MPI (aim: {aim})",
        if batched { "pipelined" } else { "blocking" },
        best.name.name()
    ))
}

fn insert(columns: &[Standing]) -> Option<String> {
    let share = |owner| {
        let step = at(Step::Inserted { owner })?;
        let of = |name| Some(named(columns, name)?.samples(step));
        times(of(ColumnName::Verbs)?, of(ColumnName::OscUcx)?)
    };
    let (polls, sleeps) = (share(OwnerDoes::Poll)?, share(OwnerDoes::Sleep)?);
    Some(format!(
        "inserted: verbs takes {polls:.3} of the time of osc-ucx (aim: {INSERT_SHARE}), {sleeps:.3} while the owner sleeps"
    ))
}

fn named(columns: &[Standing], name: ColumnName) -> Option<&Standing> {
    columns.iter().find(|column| column.name == name)
}

fn at(step: Step) -> Option<usize> {
    steps().iter().position(|other| *other == step)
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::*;

    fn column(name: ColumnName, step: Step, mean_ns: f64) -> Standing {
        let mut column = Standing::new(name, true);
        column.add(at(step).unwrap(), Sample { mean_ns, ..Sample::default() });
        column
    }

    #[test]
    fn shm_is_held_against_the_best_component() {
        let step = Step::Workload { workload: Workload::Mixed, batched: true };
        let columns = [
            column(ColumnName::Shm, step, 100.0),
            column(ColumnName::OscUcx, step, 9_000.0),
            column(ColumnName::OscSm, step, 2_000.0),
            column(ColumnName::Mpich, step, 1_000.0),
        ];
        let [line] = &lines(&columns, 2)[..] else { panic!("{:?}", lines(&columns, 2)) };
        assert!(line.contains("pipelined: shm does 20.00 x the rate of osc-sm"));
        assert!(lines(&columns, 3).is_empty() && lines(&columns[..1], 2).is_empty());
    }

    #[test]
    fn inserts_over_verbs_are_held_against_those_over_osc_ucx() {
        let mut columns = [(ColumnName::Verbs, 300.0), (ColumnName::OscUcx, 1_000.0)]
            .map(|(name, ns)| column(name, Step::Inserted { owner: OwnerDoes::Poll }, ns));
        assert!(lines(&columns, 2).is_empty());
        let sleeps = at(Step::Inserted { owner: OwnerDoes::Sleep }).unwrap();
        for (column, mean_ns) in columns.iter_mut().zip([300.0, 50_000.0]) {
            column.add(sleeps, Sample { mean_ns, ..Sample::default() });
        }
        let said = lines(&columns, 2).concat();
        assert!(said.contains("verbs takes 0.300 of the time of osc-ucx (aim: 0.5)"));
        assert!(said.contains(", 0.006 while the owner sleeps"), "{said}");
    }
}
