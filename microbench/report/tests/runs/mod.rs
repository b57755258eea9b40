//! Synthetic runs with known numbers.

use std::fs;
use std::path::PathBuf;

use probeline_report::results::SCHEMA;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const LOADS: [f64; 4] = [0.1, 0.5, 0.7, 0.9];
pub(crate) const CHUNKS: [u32; 3] = [8, 32, 128];

/// Creates a run of this command with these rows.
pub(crate) fn run(command: &str, transport: &str, parameters: Value, rows: Value) -> Value {
    let mut all = json!({ "transport": transport, "seed": 1 });
    for (name, value) in parameters.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!({
        "schema": SCHEMA,
        "command": command,
        "version": "0.1.0",
        "parameters": all,
        "machine": { "cpu": "A CPU", "cpus_online": "0-3", "virtual_machine": true },
        "transport": [format!("{transport}, made up")],
        "rows": rows,
        "notes": ["Nobody measured this."],
    })
}

/// Returns the mean latency of an insert in nanoseconds, `times` that of the fastest.
pub(crate) fn mean_ns(times: f64, c: u32, load: f64) -> f64 {
    times * (90.0 + f64::from(c) / 8.0 + 8.0 / f64::from(c) * 20.0 / (1.05 - load))
}

pub(crate) fn latency(transport: &str, times: f64) -> Value {
    let mut rows = Vec::new();
    let histogram =
        |ns: f64| json!([[ns.floor(), 6_000], [ns.floor() * 2.0, 3_990], [ns.floor() * 90.0, 10]]);
    for name in ["READ 8 B", "READ 64 B", "CAS random word"] {
        rows.push(json!({
            "operation": name, "chunk_buckets": null, "load_factor": null, "operations": 10_000,
            "mean_ns": 60.0 * times, "p50_ns": 60, "histogram": histogram(60.0 * times),
        }));
    }
    for c in CHUNKS {
        for load in LOADS {
            for (operation, share) in [("inserted", 1.0), ("found", 0.7)] {
                let ns = mean_ns(times * share, c, load);
                rows.push(json!({
                    "operation": operation, "chunk_buckets": c, "load_factor": load,
                    "effective_roundtrips": 1.0 + load / f64::from(c),
                    "outgoing_roundtrips": 2.0 + load / f64::from(c),
                    "operations": 10_000, "mean_ns": ns,
                    "histogram": histogram(ns),
                }));
            }
        }
    }
    let parameters = json!({ "ranks": 2, "table_bytes": 33_554_432, "direct": "false" });
    run("bench-latency", transport, parameters, Value::from(rows))
}

pub(crate) fn throughput(transport: &str, ranks: u32, per_rank: f64) -> Value {
    let rate = per_rank * f64::from(ranks).powf(0.9);
    let row = |(workload, times): (&str, f64)| json!({ "workload": workload, "ranks": ranks, "median_ops_per_s": rate * times });
    let workloads = [("mixed", 1.0), ("read-intensive", 1.5), ("write-intensive", 0.8)];
    let rows: Vec<Value> = workloads.into_iter().map(row).collect();
    let parameters = json!({
        "ranks": ranks, "table_bytes": u64::from(ranks) << 26, "chunk_buckets": 32, "batch": 1024
    });
    run("bench-throughput", transport, parameters, Value::from(rows))
}

pub(crate) fn explore() -> Value {
    let rows = json!([{ "model": "kanban:3", "ranks": 2, "states_per_s": 584_000.0 }]);
    run("explore", "shm", json!({ "ranks": 2, "chunk_buckets": 8 }), rows)
}

/// Creates runs of commands whose rates have charts by ranks.
pub(crate) fn by_ranks(ranks: u32) -> [Value; 3] {
    let rate = 1e6 * f64::from(ranks);
    let queue = json!([
        { "rings": "one", "batch": 1, "ranks": ranks, "pushes_per_s": rate, "pops_per_s": 1e6 },
        { "rings": "each", "batch": 32, "ranks": ranks, "pushes_per_s": 9.0 * rate, "pops_per_s": 8.0 * rate },
    ]);
    let isx = json!([{ "carrier": "lanes", "ranks": ranks, "keys_per_s": 7.0 * rate }]);
    let speedup = f64::from(ranks) * 0.75;
    let dsm =
        json!([{ "program": "lu", "protocol": "one-sided", "ranks": ranks, "speedup": speedup }]);
    let parameters = json!({ "ranks": ranks, "table_bytes": ranks << 20 });
    [("bench-queue", queue), ("isx", isx), ("dsm", dsm)]
        .map(|(command, rows)| run(command, "sim", parameters.clone(), rows))
}

pub(crate) fn compare() -> Value {
    let mut rows = Vec::new();
    for (measured, unit) in
        [("READ 8 B", "ns"), ("CAS random word", "ns"), ("mixed, in batches", "ops/s")]
    {
        for (column, times) in [("shm", 1.0), ("ucx", 3.5), ("osc-sm", 12.0)] {
            rows.push(json!({
                "measured": measured, "column": column, "unit": unit,
                "median": 100.0 * times, "times_fastest": times,
            }));
        }
    }
    run("compare", "", json!({ "chunk_buckets": 8 }), Value::from(rows))
}

/// Creates a run of simulated clusters.
pub(crate) fn simulate() -> Value {
    let mut rows = Vec::new();
    for machines in [2_u32, 8, 48] {
        for ranks in [1_u32, 16] {
            let rate = 0.7e6 * f64::from(machines) * f64::from(ranks).powf(0.8);
            rows.push(json!({
                "experiment": "throughput", "machines": machines,
                "ranks_per_machine": ranks, "workload": "mixed", "chunk_buckets": 32,
                "load_factor": 0.01, "mean_latency_ns": 4e3, "ops_per_s": rate,
                "truncated_ops_per_s": rate * 1.1,
            }));
        }
    }
    for load in LOADS {
        rows.push(json!({
            "experiment": "latency", "machines": 2, "ranks_per_machine": 1,
            "workload": null, "chunk_buckets": 8, "load_factor": load, "mean_latency_ns": 3.7e3,
            "effective_roundtrips": 1.0 + load, "outgoing_roundtrips": 2.0 + load,
        }));
    }
    let mut run = run("simulate", "", json!({}), Value::from(rows));
    run["parameters"] = json!({ "profile": "das5-fdr", "truncate_us": true });
    run
}

/// Creates a run of each command, and several to compare ranks. The last has findings.
pub(crate) fn all() -> Vec<Value> {
    let mut all = vec![latency("shm", 1.0), latency("verbs", 30.0)];
    for ranks in [1, 2, 4, 8] {
        all.extend(by_ranks(ranks));
        all.push(throughput("shm", ranks, 30e6));
        all.push(throughput("verbs", ranks, 2e6));
    }
    all.extend([explore(), compare(), simulate()]);
    let mut last =
        run("from-the-future", "shm", json!({}), json!([{ "what": "a row", "much": 7 }]));
    last["doctor"] = json!([
        { "check": "memlock", "subject": "machine", "verdict": "broken", "seen": "64 KiB",
          "consequence": "a window cannot be registered", "command": "ulimit -l unlimited",
          "note": "memlock.md" },
        { "check": "governor", "subject": "machine", "verdict": "fine", "seen": "performance" },
    ]);
    all.push(last);
    all
}

/// Files in a temporary folder, which is deleted when dropped.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file for each run.
    pub(crate) fn runs(&self, runs: &[Value]) -> Vec<PathBuf> {
        let file =
            |(at, run): (usize, &Value)| self.file(&format!("run-{at}.json"), run.to_string());
        runs.iter().enumerate().map(file).collect()
    }
}
