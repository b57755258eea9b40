//! The benchmarks that each column runs, and the figures that are taken from their JSON.

use serde_json::Value;

use super::CompareArgs;

/// The unit of times; the other one is of rates.
pub(super) const NS: &str = "ns";
/// The share of the table that holds keys when find-or-puts are timed one by one.
const LOAD_FACTOR: &str = "0.1";
const WORKLOADS: &str = "mixed,read-intensive,write-intensive";

/// A command of this program, and the fields of its rows that are compared.
pub(super) struct Benchmark {
    pub(super) command: &'static str,
    /// Distinguishes the rows of two runs of the same command.
    how: &'static str,
    /// The field that names a row.
    key: &'static str,
    /// Returns the value of a row that is compared.
    value: fn(&Value) -> &Value,
    pub(super) unit: &'static str,
    /// Options of this run in addition to those of all runs.
    options: &'static [(&'static str, &'static str)],
}

pub(super) const BENCHMARKS: [Benchmark; 3] = [
    Benchmark {
        command: "bench-latency",
        how: "",
        key: "operation",
        value: latency,
        unit: NS,
        options: &[("load-factor", LOAD_FACTOR), ("rounds", "1")],
    },
    Benchmark {
        command: "bench-throughput",
        how: ", one at a time",
        key: "workload",
        value: |row| &row["median_ops_per_s"],
        unit: "ops/s",
        options: &[("workload", WORKLOADS), ("rounds", "1"), ("batch", "1")],
    },
    Benchmark {
        command: "bench-throughput",
        how: ", in batches",
        key: "workload",
        value: |row| &row["median_ops_per_s"],
        unit: "ops/s",
        options: &[("workload", WORKLOADS), ("rounds", "1")],
    },
];

/// Returns the p50, or the mean of find-or-puts: part of these are on the rank's own words, and with
/// two ranks the p50 is between both parts.
fn latency(row: &Value) -> &Value {
    if row["load_factor"].is_null() { &row["p50_ns"] } else { &row["mean_ns"] }
}

impl Benchmark {
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.command, self.how)
    }

    pub(super) fn options(&self, args: &CompareArgs) -> Vec<(&'static str, String)> {
        let mut options = vec![
            ("ranks", args.job.ranks.to_string()),
            ("table-size", args.job.table_size.to_string()),
            ("chunk-buckets", args.chunks.chunk_buckets.to_string()),
            ("max-chunks", args.chunks.max_chunks.to_string()),
            ("ops", args.ops.to_string()),
            ("seed", args.job.seed.to_string()),
        ];
        let tuning = args.job.tuning_file.as_ref();
        options.extend(tuning.map(|file| ("tuning", file.path.clone())));
        if self.command == "bench-latency" {
            let seconds = args.seconds_per_measurement.to_string();
            options.push(("seconds-per-measurement", seconds));
        }
        options.extend(self.options.iter().map(|&(name, value)| (name, value.to_owned())));
        options
    }

    /// Returns the name and the figure of each row of a report of this benchmark. Floors are the
    /// same operations as READ and CAS, and are left out.
    pub(super) fn figures(&self, report: &Value) -> Vec<(String, f64)> {
        let rows = report["rows"].as_array().into_iter().flatten();
        let figure = |row: &Value| {
            let name = row[self.key].as_str().filter(|name| !name.starts_with("floor"))?;
            Some((format!("{name}{}", self.how), (self.value)(row).as_f64()?))
        };
        rows.filter_map(figure).collect()
    }

    /// Returns the find-or-puts of a report that neither found nor inserted their keys.
    pub(super) fn full(report: &Value) -> u64 {
        let rows = report["rows"].as_array().into_iter().flatten();
        rows.filter_map(|row| row["full"].as_u64()).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_figures_by_row() {
        let [latency, blocking, _] = &BENCHMARKS;
        let row = |name: &str, load_factor: Option<f64>| json!({ "operation": name, "load_factor": load_factor, "p50_ns": 120, "mean_ns": 140.5 });
        let rows = [row("READ 8 B", None), row("floor READ 64 B", None), row("found", Some(0.1))];
        let report = json!({ "rows": rows });
        let named = [("READ 8 B".to_owned(), 120.0), ("found".to_owned(), 140.5)];
        assert_eq!(latency.figures(&report), named);
        let report = json!({ "rows": [{ "workload": "mixed", "median_ops_per_s": 5e6 }] });
        assert_eq!(blocking.figures(&report), [("mixed, one at a time".to_owned(), 5e6)]);
        assert_eq!(latency.figures(&json!({})), []);
    }
}
