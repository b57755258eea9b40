//! Summarizes a run of `simulate` in a sentence.

use serde_json::Value;

use crate::number::{rate, significant, time};
use crate::run::{Fields, Run};

/// Accepted deviations from the paper's figures, as in the command's own notes.
const NEAR: [(&str, &str, f64); 3] = [
    ("throughputs", "by_paper", 0.15),
    ("latencies", "by_paper", 0.05),
    ("roundtrips", "roundtrips_by_paper", 0.02),
];
/// The minimum number of figures to count; the sentence contains a single figure anyway.
const SEVERAL: usize = 2;

/// Describes the largest cluster with the mixed workload, or with the first one. Without
/// throughputs, describes the latency at the paper's load factor and C.
pub(crate) fn finding(run: &Run) -> Option<String> {
    let mut said = throughput(run).or_else(|| latency(run))?;
    if of_the_papers(run) {
        NEAR.into_iter().filter_map(|kind| near(run, kind)).for_each(|near| said.push_str(&near));
    }
    Some(said)
}

fn throughput(run: &Run) -> Option<String> {
    let of = |workload: &str| {
        let rows = run.rows.iter().filter(|row| row.text("workload") == Some(workload));
        rows.max_by(|one, other| ranks(one).total_cmp(&ranks(other)))
    };
    let first = || run.rows.iter().find_map(|row| row.text("workload"));
    let row = of("mixed").or_else(|| of(first()?))?;
    // Only results of the paper's algorithm are compared in truncated form.
    let cut = if is_papers(run) && row.number("truncated_ops_per_s").is_some() {
        " with times cut to microseconds as there"
    } else {
        ""
    };
    let bound = match (row.text("bound"), row.number("bound_share")) {
        (Some(bound), Some(share)) => {
            format!(", {} of what the profile allows ({bound})", significant(share))
        }
        _ => String::new(),
    };
    Some(format!(
        "{}, {}, {} in virtual time{}{bound}",
        row.text("workload")?,
        way(run),
        does(row.count("machines")?, row.count("ranks_per_machine")?, row.number("ops_per_s")?),
        times(row).map_or_else(String::new, |times| format!("{times}{cut}"))
    ))
}

fn does(machines: u64, ranks: u64, ops_per_s: f64) -> String {
    let counted = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let each = if machines == 1 { "does" } else { "each do" };
    let (machines, ranks) = (counted(machines, "machine"), counted(ranks, "rank"));
    format!("{machines} with {ranks} {each} {}", rate(ops_per_s))
}

fn latency(run: &Run) -> Option<String> {
    let row = Fields::nearest_to_papers(run.rows.iter())?;
    Some(format!(
        "{}, an insert at load factor {} and C = {} takes {} in virtual time{}",
        way(run),
        row.number("load_factor")?,
        row.chunk_buckets()?,
        time(row.number("mean_latency_ns")?),
        times(row).unwrap_or_default()
    ))
}

fn ranks(row: &Fields) -> f64 {
    row.number("machines").unwrap_or(0.0) * row.number("ranks_per_machine").unwrap_or(0.0)
}

fn times(row: &Fields) -> Option<String> {
    let times = row.number("by_paper")?;
    Some(format!(", {} times the paper's", significant(times)))
}

/// Returns whether the run has the cluster and the parameters of the paper. Other runs, and files
/// that do not state it, are not comparable to the paper's figures.
fn of_the_papers(run: &Run) -> bool {
    run.parameters.get("of_the_papers") == Some(&Value::Bool(true))
}

fn is_papers(run: &Run) -> bool {
    run.parameters.text("way").is_none_or(|way| way == "paper")
}

fn way(run: &Run) -> &str {
    match run.parameters.text("way") {
        None | Some("paper") => "by the paper's algorithm",
        Some("beyond") => "beyond the paper",
        Some(way) => way,
    }
}

/// Counts the paper's figures of a kind that the run matches.
fn near(run: &Run, (kind, field, within): (&str, &str, f64)) -> Option<String> {
    let of_throughput = kind == "throughputs";
    let rows = run.rows.iter().filter(|row| row.text("workload").is_some() == of_throughput);
    let off: Vec<f64> = rows.filter_map(|row| Some((row.number(field)? - 1.0).abs())).collect();
    let met = off.iter().filter(|off| **off <= within).count();
    (off.len() >= SEVERAL).then(|| {
        format!("; {met} of {} {kind} are within {:.0} % of the paper's", off.len(), within * 100.0)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::made_up;

    fn run(way: &str, rows: &[Value]) -> Run {
        run_of(&json!({ "profile": "das5-fdr", "way": way, "of_the_papers": way == "paper" }), rows)
    }

    fn run_of(parameters: &Value, rows: &[Value]) -> Run {
        let run =
            json!({ "schema": 1, "command": "simulate", "rows": rows, "parameters": parameters });
        made_up(&run, 1)
    }

    fn throughput(workload: &str, machines: u32, ops_per_s: f64, by_paper: f64) -> Value {
        json!({
            "experiment": "throughput", "machines": machines, "ranks_per_machine": 16,
            "workload": workload, "ops_per_s": ops_per_s, "by_paper": by_paper,
            "bound": "bandwidth", "bound_share": 0.4,
        })
    }

    fn latency(c: u32, load: f64, by_paper: f64) -> Value {
        json!({
            "experiment": "latency", "machines": 2, "ranks_per_machine": 1, "workload": null,
            "chunk_buckets": c, "load_factor": load, "mean_latency_ns": 3.7e3,
            "by_paper": by_paper, "roundtrips_by_paper": 1.0,
        })
    }

    #[test]
    fn the_mixed_workload_on_the_largest_cluster_comes_first() {
        let rows = [
            throughput("read-intensive", 48, 900e6, 1.5),
            throughput("mixed", 2, 500e6, 3.0),
            throughput("mixed", 48, 86.1e6, 0.75),
        ];
        let said = finding(&run("beyond", &rows)).unwrap();
        assert_eq!(
            said,
            "mixed, beyond the paper, 48 machines with 16 ranks each do 86.1 M/s in virtual time, \
             0.750 times the paper's, 0.400 of what the profile allows (bandwidth)"
        );
        let said = finding(&run("tuned", &rows[..1])).unwrap();
        assert!(said.starts_with("read-intensive, tuned, 48 machines"), "{said}");
    }

    #[test]
    fn the_papers_algorithm_counts_matching_figures() {
        let mut cut = throughput("mixed", 48, 86.1e6, 1.01);
        cut["truncated_ops_per_s"] = json!(116e6);
        let rows = [
            latency(8, 0.9, 1.2),
            latency(8, 0.5, 1.01),
            latency(128, 0.5, 0.97),
            cut,
            throughput("mixed", 2, 1e6, 0.8),
        ];
        let said = finding(&run("paper", &rows)).unwrap();
        for part in [
            "mixed, by the paper's algorithm, 48 machines",
            ", 1.01 times the paper's with times cut to microseconds as there, 0.400",
            "; 1 of 2 throughputs are within 15 % of the paper's",
            "; 2 of 3 latencies are within 5 % of the paper's",
            "; 3 of 3 roundtrips are within 2 % of the paper's",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // With `--set`, or in a file that does not state it.
        for parameters in [
            json!({ "way": "beyond", "of_the_papers": false }),
            json!({ "way": "paper", "of_the_papers": false }),
            json!({ "way": "paper" }),
        ] {
            let said = finding(&run_of(&parameters, &rows)).unwrap();
            assert!(!said.contains("within"), "{parameters}: {said}");
            assert!(said.contains(", 1.01 times the paper's"), "{parameters}: {said}");
        }
    }

    #[test]
    fn one_machine_and_one_rank_are_singular() {
        let mut row = throughput("mixed", 1, 86.1e6, 1.01);
        for (machines, ranks, said) in [
            (1, 1, "1 machine with 1 rank does 86.1 M/s"),
            (1, 16, "1 machine with 16 ranks does 86.1 M/s"),
            (2, 1, "2 machines with 1 rank each do 86.1 M/s"),
        ] {
            (row["machines"], row["ranks_per_machine"]) = (json!(machines), json!(ranks));
            let found = finding(&run("paper", &[row.clone()])).unwrap();
            assert!(found.contains(said), "{said}: {found}");
        }
    }

    #[test]
    fn latencies_alone_are_described_as_in_a_benchmark() {
        let rows = [latency(32, 0.5, 1.0), latency(8, 0.9, 1.2), latency(8, 0.5, 1.01)];
        let said = finding(&run("beyond", &rows)).unwrap();
        assert_eq!(
            said,
            "beyond the paper, an insert at load factor 0.5 and C = 8 takes 3.70 \u{b5}s in virtual \
             time, 1.01 times the paper's"
        );
    }
}
