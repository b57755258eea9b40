//! Results of the command `probeline`.
//!
//! [`row!`] declares a row: one struct whose fields are written as JSON and CSV ([`csv()`]), printed
//! as the columns of a table ([`Row`]) and read back by the report. [`printable`] makes text from files and arguments safe to
//! show.

use std::io;

use serde_json::Value;

pub use crate::row;
pub use row::{Column, Field, Fields, Layout, Note, Row, fields, format};

#[doc(hidden)]
pub use serde;

pub mod printable;
mod row;

/// The version of the JSON that commands write and the report reads: `docs/output.md`.
pub const SCHEMA: u32 = 1;

/// Formats the rows as CSV: a header with the names of the fields, then one line for each row.
/// Omits fields that are lists, which only JSON can represent.
///
/// # Errors
/// An error of the CSV writer. Writing to memory does not fail.
pub fn csv(rows: &[Fields]) -> io::Result<String> {
    let mut out = csv::Writer::from_writer(Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let fields = || row.0.iter().filter(|(_, value)| !value.is_array() && !value.is_object());
        if at == 0 {
            out.write_record(fields().map(|(name, _)| name))?;
        }
        out.write_record(fields().map(|(_, value)| cell(value)))?;
    }
    let bytes = out.into_inner().map_err(|error| error.into_error())?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
