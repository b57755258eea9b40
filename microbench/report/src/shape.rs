//! The fields that the page needs of each command's rows.

use crate::fields::Fields;
use crate::run::Run;

use Field::{Number, Text};

/// A field and its type.
#[derive(Clone, Copy)]
enum Field {
    Text(&'static str),
    Number(&'static str),
}

/// The required fields by command; `doctor` has findings and no rows.
const LEAST: [(&str, &[Field]); 10] = [
    ("bench-latency", &[Text("operation"), Number("mean_ns")]),
    ("bench-throughput", &[Text("workload"), Number("ranks"), Number("median_ops_per_s")]),
    (
        "roundtrips",
        &[Number("chunk_buckets"), Number("load_factor"), Number("effective_roundtrips")],
    ),
    ("explore", &[Text("model"), Number("ranks"), Number("states_per_s")]),
    ("limits", &[Text("limit"), Number("median_ops_per_s")]),
    ("compare", &[Text("measured"), Text("column"), Number("median")]),
    ("simulate", &[Number("machines"), Number("mean_latency_ns")]),
    ("tune", &[Text("candidate"), Number("ops_per_s")]),
    ("topology", &[Number("rank")]),
    ("doctor", &[]),
];

impl Field {
    fn name(self) -> &'static str {
        match self {
            Text(name) | Number(name) => name,
        }
    }

    fn is_in(self, row: &Fields) -> bool {
        match self {
            Text(name) => row.text(name).is_some(),
            Number(name) => row.number(name).is_some(),
        }
    }
}

/// Returns whether this crate knows the command.
pub(crate) fn is_known(command: &str) -> bool {
    LEAST.iter().any(|(name, _)| *name == command)
}

/// Returns a field that rows of this command have, and that no row of this run has with the right
/// type.
pub(crate) fn lacking(run: &Run) -> Option<&'static str> {
    let (_, fields) = LEAST.iter().find(|(name, _)| *name == run.command)?;
    let nowhere = |field: &&Field| !run.rows.iter().any(|row| field.is_in(row));
    fields.iter().find(nowhere).map(|field| field.name())
}
