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
    "buckets_per_rank",
    "of_the_papers",
];
/// Maximum differences that a name lists.
const MAX_DIFFERENCES: usize = 2;

/// Names each run by its transport and the parameters in which runs of that transport differ, or by
/// its number if these are many. Runs that differ only in `axes` and effort share a name, because a
/// chart joins them; without `axes` each name is of one run.
pub(crate) fn names(runs: &[&Run], axes: &[&str]) -> Vec<String> {
    let all: Vec<String> = runs.iter().map(|run| name(run, runs, axes)).collect();
    let unique = |(run, name): (&&Run, &String)| {
        let same = all.iter().filter(|other| *other == name).count();
        let number = (same > 1 && axes.is_empty()).then(|| format!(", run {}", run.number));
        name.clone() + &number.unwrap_or_default()
    };
    runs.iter().zip(&all).map(unique).collect()
}

fn name(run: &Run, all: &[&Run], axes: &[&str]) -> String {
    let transport = run.origin();
    let alike: Vec<&&Run> = all.iter().filter(|other| other.origin() == transport).collect();
    let differs = |name: &str, value: &Value| {
        // A run where the parameter is null has no value to name; the other runs name theirs.
        let of = |other: &&&Run| other.parameters.get(name) != Some(value);
        let counts = !EFFORT.contains(&name) && !axes.contains(&name) && !value.is_null();
        counts && alike.iter().any(of)
    };
    let differing = run.parameters.iter().filter(|(name, value)| differs(name, value));
    let differing: Vec<String> = differing.map(|(name, value)| parameter(name, value)).collect();
    match differing.len() {
        0 => transport,
        n if n <= MAX_DIFFERENCES => format!("{transport}, {}", differing.join(", ")),
        // Too many differences to list.
        _ => format!("{transport}, run {}", run.number),
    }
}

fn parameter(name: &str, value: &Value) -> String {
    match (name, value) {
        ("ranks", Value::Number(ranks)) => format!("{ranks} ranks"),
        ("table_bytes", value) if value.is_u64() => {
            format!("table {}", bytes(value.as_u64().unwrap_or(0)))
        }
        ("network", value) => cell(value),
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

    fn runs(parameters: &[Value]) -> Vec<Run> {
        let run = |(number, parameters): (usize, &Value)| {
            made_up(&json!({ "schema": 1, "command": "x", "parameters": parameters }), number)
        };
        (1..).zip(parameters).map(run).collect()
    }

    #[test]
    fn names_omit_absent_parameters() {
        let of = |range: Value| json!({ "transport": "shm", "key_range": range });
        let runs = runs(&[of(Value::Null), of(json!(5000)), json!({ "transport": "shm" })]);
        let runs: Vec<&Run> = runs.iter().collect();
        assert_eq!(names(&runs, &[]), ["shm, run 1", "shm, key range 5000", "shm, run 3"]);
    }

    #[test]
    fn run_names_omit_axes() {
        let of =
            |ranks: u32, batch: u32| json!({ "transport": "shm", "ranks": ranks, "batch": batch });
        let runs = runs(&[of(1, 64), of(2, 64), of(2, 1)]);
        let runs: Vec<&Run> = runs.iter().collect();
        assert_eq!(names(&runs, &["ranks"]), ["shm, batch 64", "shm, batch 64", "shm, batch 1"]);
    }
}
