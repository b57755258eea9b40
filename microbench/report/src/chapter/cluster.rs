//! Plots of simulated clusters by machines: throughput and speedup (paper Fig. 3).

use super::{Sample, rows, series};
use crate::distinct;
use crate::number::{plain, ranks_name};
use crate::origin::Origins;
use crate::plot::{Guide, Kind, Plot, Series, Spec};
use crate::run::{Fields, Run};

const COMMANDS: [&str; 1] = ["simulate"];
/// Parameters without effect on values that are not truncated to whole microseconds.
const UNCUT: [&str; 1] = ["truncate_us"];

/// Returns a series for each number of ranks on a machine from runs of `simulate`: the `value` of
/// each row of a workload. `idle` are parameters without effect on it.
pub(super) fn by_machines(
    runs: &[Run],
    workload: &str,
    idle: &[&str],
    value: impl Fn(&Run, &Fields) -> Option<f64>,
) -> Vec<Series> {
    series(
        runs,
        &COMMANDS,
        |used| Origins::unique(used, idle),
        |run, row| {
            row.text("workload").filter(|of| *of == workload)?;
            let point = [row.number("machines")?, value(run, row)?];
            let sample =
                Sample::new(ranks_per_machine_name(row.count("ranks_per_machine")?), point);
            Some(Sample { chunk_buckets: run.chunk_buckets(row), ..sample })
        },
    )
}

/// Names a series by its number of ranks on each machine.
pub(super) fn ranks_per_machine_name(ranks: u64) -> String {
    format!("{} a machine", ranks_name(ranks))
}

pub(super) fn workloads(runs: &[Run]) -> Vec<&str> {
    distinct(rows(runs, &COMMANDS).filter_map(|(_, row)| row.text("workload")))
}

fn millions(_: &Run, row: &Fields) -> Option<f64> {
    row.number("ops_per_s").filter(|rate| *rate > 0.0).map(|rate| rate / 1e6)
}

/// Completes the description of a plot by machines.
pub(super) fn spec([id, title, caption]: [String; 3], y: (&'static str, Kind)) -> Spec {
    let (x, guide) = (("machines", Kind::Counts), Guide::None);
    Spec { id, title, caption, x, y, guide }
}

/// Adds plots of throughput and speedup for each workload.
pub(super) fn throughput(runs: &[Run], plots: &mut Vec<Plot>, missing: &mut Vec<String>) {
    let mut one_cluster = false;
    for workload in workloads(runs) {
        let rates = by_machines(runs, workload, &UNCUT, millions);
        let speedup = speedup_plot(workload, &rates);
        let texts = [
            format!("simulated-{workload}"),
            format!("Throughput of simulated clusters, {workload}"),
            "Million find-or-puts per second of all ranks of all machines, in virtual time. \
             Operation times are not truncated to microseconds."
                .to_owned(),
        ];
        let rates = spec(texts, ("million per second", Kind::Fitting)).plot(rates);
        one_cluster |= rates.is_some() && speedup.is_none();
        plots.extend(rates.into_iter().chain(speedup));
    }
    if one_cluster {
        missing.push(
            "Speedup of simulated clusters: each run has only one cluster. A run of several, such \
             as `probeline simulate --machines 2,8,48 --json FILE`, adds it."
                .to_owned(),
        );
    }
}

/// The base of a line's speedups. As in the paper, it is the cluster of the same run with the
/// fewest ranks.
struct Base<'s> {
    line: &'s str,
    ranks: f64,
    machines: f64,
    rate: f64,
}

impl<'s> Base<'s> {
    /// Returns the base, or `None` for a line of one cluster, which has no speedup.
    fn of(rates: &'s [Series], line: &'s str) -> Option<Self> {
        let of_line = || rates.iter().filter(|series| series.line == line);
        if of_line().map(|series| series.points.len()).sum::<usize>() < 2 {
            return None;
        }
        let clusters = of_line().filter_map(|series| {
            let of_each: f64 = series.hue.split(' ').next()?.parse().ok()?;
            let [machines, rate] = *series.points.first()?;
            Some(Self { line, ranks: machines * of_each, machines, rate })
        });
        clusters.min_by(|one, other| one.ranks.total_cmp(&other.ranks))
    }

    fn cluster(&self) -> String {
        let machines = plain(self.machines);
        let noun = if machines == "1" { "machine" } else { "machines" };
        format!("{} on {machines} {noun}", plain(self.ranks))
    }
}

fn speedup_plot(workload: &str, rates: &[Series]) -> Option<Plot> {
    let lines = distinct(rates.iter().map(|series| series.line.as_str()));
    let bases: Vec<Base> = lines.into_iter().filter_map(|line| Base::of(rates, line)).collect();
    let scaled = rates.iter().filter_map(|series| {
        let base = bases.iter().find(|base| base.line == series.line)?;
        series.map(|[_, rate]| Some(rate / base.rate))
    });
    let texts = [
        format!("simulated-{workload}-speedup"),
        format!("Speedup of simulated clusters, {workload}"),
        format!(
            "Throughput divided by that of the cluster with the fewest ranks of the same run: {}.",
            named(&bases)
        ),
    ];
    spec(texts, ("times", Kind::Fitting)).plot(scaled.collect())
}

/// Names the base of all lines if they share it, otherwise that of each line.
fn named(bases: &[Base]) -> String {
    match &distinct(bases.iter().map(Base::cluster))[..] {
        [one] => one.clone(),
        _ => {
            let each = bases.iter().map(|base| format!("{} of {}", base.cluster(), base.line));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chapter::Chapter;
    use crate::run::made_up;

    /// Creates a run over a profile of this name, with a million operations per second for each
    /// rank.
    fn run(number: usize, profile: &str, clusters: &[[u32; 2]]) -> Run {
        run_of(number, json!({ "profile": profile, "way": "paper" }), clusters)
    }

    fn run_of(number: usize, parameters: Value, clusters: &[[u32; 2]]) -> Run {
        let row = |[machines, ranks]: &[u32; 2]| {
            json!({
                "experiment": "throughput", "machines": machines, "ranks_per_machine": ranks,
                "workload": "mixed", "ops_per_s": 1e6 * f64::from(machines * ranks),
            })
        };
        let rows: Vec<Value> = clusters.iter().map(row).collect();
        made_up(
            &json!({ "schema": 1, "command": "simulate", "rows": rows, "parameters": parameters }),
            number,
        )
    }

    fn chapter(runs: &[Run]) -> Chapter {
        let (mut plots, mut missing) = (Vec::new(), Vec::new());
        throughput(runs, &mut plots, &mut missing);
        Chapter { id: "", title: "", lead: String::new(), plots, missing }
    }

    fn speedup(chapter: &Chapter) -> Option<&Plot> {
        chapter.plots.iter().find(|plot| plot.id == "simulated-mixed-speedup")
    }

    #[test]
    fn a_speedup_needs_several_clusters() {
        let several = run(1, "one", &[[2, 1], [48, 1], [48, 16]]);
        let here = chapter(&[several.clone(), run(2, "two", &[[64, 16]])]);
        let plot = speedup(&here).unwrap();
        let shown: Vec<_> =
            plot.series.iter().map(|series| (&*series.line, &series.points)).collect();
        let (first, second) = (vec![[2.0, 1.0], [48.0, 24.0]], vec![[48.0, 384.0]]);
        assert_eq!(shown, [("model one", &first), ("model one", &second)]);
        assert!(plot.caption.ends_with("same run: 2 on 2 machines."), "{}", plot.caption);
        assert!(here.missing.is_empty());

        let here = chapter(&[several, run(2, "two", &[[1, 4], [64, 16]])]);
        let bases = "same run: 2 on 2 machines of model one; 4 on 1 machine of model two.";
        assert!(speedup(&here).unwrap().caption.ends_with(bases), "{:?}", speedup(&here));
    }

    #[test]
    fn truncation_is_named_only_where_it_has_an_effect() {
        let runs = [(1, [2, 1], true), (2, [4, 1], false)].map(|(number, cluster, cut)| {
            run_of(
                number,
                json!({ "profile": "one", "way": "paper", "truncate_us": cut }),
                &[cluster],
            )
        });
        let lines = |idle: &[&str]| {
            let series = by_machines(&runs, "mixed", idle, millions);
            series.into_iter().map(|series| series.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(&UNCUT), ["model one, run 1", "model one, run 2"]);
        assert_eq!(lines(&[]), ["model one, truncate us yes", "model one, truncate us no"]);
    }

    #[test]
    fn single_clusters_have_no_speedup() {
        let here = chapter(&[run(1, "one", &[[48, 16]]), run(2, "two", &[[64, 16]])]);
        assert!(speedup(&here).is_none() && here.plots.len() == 1);
        assert!(here.missing[0].starts_with("Speedup of simulated clusters"), "{:?}", here.missing);
    }
}
