//! Names runs by the parameters in which they differ.

use serde_json::Value;

use crate::number::{bytes, plain};
use crate::run::Run;

/// Parameters that determine how long or how often was measured, and not what.
const EFFORT: [&str; 9] = [
    "transport",
    "profile",
    "seed",
    "ops",
    "ops_per_rank",
    "seconds_per_measurement",
    "rounds",
    "runs",
    "buckets_per_rank",
];
/// Maximum differences that a name lists.
const MOST: usize = 2;

pub(crate) struct Origins {
    names: Vec<(usize, String)>,
}

impl Origins {
    /// Names each run by its transport and its differing parameters, or by its number. `idle` are
    /// parameters without effect on the plot.
    pub(crate) fn unique(runs: &[&Run], idle: &[&str]) -> Self {
        let mut origins =
            Self::named(runs, |run, name| !idle.contains(&name) && has_effect(run, name));
        let names: Vec<String> = origins.names.iter().map(|(_, name)| name.clone()).collect();
        for (number, name) in &mut origins.names {
            if names.iter().filter(|other| *other == name).count() > 1 {
                *name = format!("{name}, run {number}");
            }
        }
        origins
    }

    /// Names runs so that those that differ only in `axes` and effort share a name, because a plot
    /// combines them. All other parameters must be equal, even those without effect.
    pub(crate) fn grouped(runs: &[&Run], axes: &[&str]) -> Self {
        Self::named(runs, |_, name| !axes.contains(&name))
    }

    /// Names each run by its transport and the parameters that `counts` accepts.
    fn named(runs: &[&Run], counts: impl Fn(&Run, &str) -> bool) -> Self {
        let name = |run: &&Run| (run.number, name(run, runs, |name| counts(run, name)));
        Self { names: runs.iter().map(name).collect() }
    }

    pub(crate) fn name(&self, run: &Run) -> String {
        let found = self.names.iter().find(|(number, _)| *number == run.number);
        found.map_or_else(|| format!("run {}", run.number), |(_, name)| name.clone())
    }
}

fn name(run: &Run, all: &[&Run], counts: impl Fn(&str) -> bool) -> String {
    let transport = way(run);
    let alike = all.iter().filter(|other| way(other) == transport);
    let alike: Vec<&&Run> = alike.collect();
    let differs = |name: &str| {
        alike.iter().any(|other| other.parameters.get(name) != run.parameters.get(name))
    };
    let is_listed = |name: &str, value: &Value| {
        // A run where the parameter is null has no value to name; the other runs name theirs.
        !EFFORT.contains(&name) && counts(name) && !value.is_null() && differs(name)
    };
    let differing = run.parameters.iter().filter(|(name, value)| is_listed(name, value));
    let differing: Vec<String> = differing.map(|(name, value)| parameter(name, value)).collect();
    match differing.len() {
        0 => transport,
        n if n <= MOST => format!("{transport}, {}", differing.join(", ")),
        // Too many differences to list.
        _ => format!("{transport}, run {}", run.number),
    }
}

/// Returns whether a parameter affects its run at all.
fn has_effect(run: &Run, name: &str) -> bool {
    // Over other transports a CPU accesses only its own window, and posts operations for all
    // others.
    let reaches_all = run.parameters.text("transport") == Some("shm");
    let posts = !reaches_all || run.parameters.text("direct") != Some("true");
    match name {
        // Follows from other parameters.
        "of_the_papers" => false,
        // These parameters affect READs and claims, which a CPU that accesses all buckets itself
        // does not post.
        "read_ahead" | "one_roundtrip" | "adaptive_chunks" => posts,
        // Blocking calls have one operation in flight.
        "in_flight" => posts && run.parameters.count("batch") != Some(1),
        _ => true,
    }
}

/// Returns the transport and, for a simulated cluster beyond the paper's algorithm, the way.
fn way(run: &Run) -> String {
    let transport = transport(run);
    match run.parameters.text("way") {
        None | Some("paper") => transport,
        Some("beyond") => format!("{transport}, beyond the paper"),
        Some(way) => format!("{transport}, {way}"),
    }
}

/// Returns the name of the transport, the same on the whole page.
pub(crate) fn transport(run: &Run) -> String {
    run.transport().unwrap_or_else(|| run.command.clone())
}

pub(crate) fn parameter(name: &str, value: &Value) -> String {
    match (name, value) {
        ("ranks", Value::Number(ranks)) => format!("{ranks} ranks"),
        ("table_bytes", value) if value.is_u64() => {
            format!("table {}", bytes(value.as_u64().unwrap_or(0)))
        }
        ("chunk_buckets", value) => format!("C = {value}"),
        ("throughput_chunk_buckets", value) => format!("C = {value} of throughputs"),
        ("max_chunks", value) => format!("M = {value}"),
        (name, value) => format!("{} {}", name.replace('_', " "), cell(value)),
    }
}

/// Formats a value for the cell of a table.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "\u{2013}".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), plain),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(object) => {
            let pairs = object.iter().map(|(name, value)| format!("{name} {}", cell(value)));
            pairs.collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::made_up;

    #[test]
    fn a_simulated_cluster_is_named_by_its_way() {
        let run = |number, way| {
            let parameters = json!({ "profile": "das5-fdr", "way": way });
            let rows = json!([{ "experiment": "latency" }]);
            made_up(
                &json!({ "schema": 1, "command": "simulate", "rows": rows, "parameters": parameters }),
                number,
            )
        };
        let runs: Vec<Run> =
            (1..).zip(["paper", "beyond", "tuned"]).map(|(number, way)| run(number, way)).collect();
        let origins = Origins::unique(&runs.iter().collect::<Vec<_>>(), &[]);
        let names: Vec<String> = runs.iter().map(|run| origins.name(run)).collect();
        let paper = transport(&runs[0]);
        let named = |way| format!("{paper}, {way}");
        assert_eq!(names, [paper.clone(), named("beyond the paper"), named("tuned")]);
    }

    /// Returns the names of runs of bench-throughput with these parameters.
    fn names(parameters: &[Value]) -> Vec<String> {
        let run = |(number, parameters): (usize, &Value)| {
            let rows = json!([{ "workload": "mixed" }]);
            let command = "bench-throughput";
            made_up(
                &json!({ "schema": 1, "command": command, "rows": rows, "parameters": parameters }),
                number,
            )
        };
        let runs: Vec<Run> = (1..).zip(parameters).map(run).collect();
        let all: Vec<&Run> = runs.iter().collect();
        let origins = Origins::unique(&all, &["idle"]);
        runs.iter().map(|run| origins.name(run)).collect()
    }

    #[test]
    fn absent_parameters_are_not_in_names() {
        let of = |range: Value| json!({ "transport": "shm", "key_range": range });
        let names = names(&[of(Value::Null), of(json!(5000)), json!({ "transport": "shm" })]);
        assert_eq!(names, ["shm, run 1", "shm, key range 5000", "shm, run 3"]);
    }

    #[test]
    fn parameters_without_effect_are_not_in_names() {
        let of = |batch: u32, in_flight: &str, direct: &str, ahead: &str| {
            json!({
                "transport": "shm", "batch": batch, "in_flight": in_flight, "direct": direct,
                "read_ahead": ahead, "idle": ahead,
            })
        };
        let names = |one, other| names(&[one, other]);
        let direct = names(of(8, "32", "true", "likely"), of(8, "32", "false", "never"));
        assert_eq!(direct, ["shm, direct true", "shm, direct false, read ahead never"]);
        let blocking = names(of(1, "32", "false", "never"), of(8, "16", "false", "never"));
        assert_eq!(blocking, ["shm, batch 1", "shm, batch 8, in flight 16"]);
    }
    #[test]
    fn a_cpu_with_access_to_one_window_posts_for_the_others() {
        for transport in ["verbs", "ucx", "mpi"] {
            let of = |in_flight: &str, ahead: &str| {
                json!({
                    "transport": transport, "batch": 64, "in_flight": in_flight, "direct": "true",
                    "read_ahead": ahead,
                })
            };
            let names = names(&[of("1", "never"), of("64", "likely")]);
            let named = |in_flight, ahead| {
                format!("{transport}, in flight {in_flight}, read ahead {ahead}")
            };
            assert_eq!(names, [named("1", "never"), named("64", "likely")]);
        }
    }
}
