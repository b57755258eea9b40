//! Results of the command `probeline`.
//!
//! [`row!`] declares a row: one struct whose fields are gathered from the ranks
//! ([`gather_values`]), written as JSON and CSV ([`csv`]), printed as the columns of a table
//! ([`Row`]) and read back by the report. [`printable`] makes text from files and arguments safe to
//! show.
#![forbid(unsafe_code)]

// Lets code that `row!` generates refer to this crate by name, here too.
extern crate self as probeline_results;

/// The version of the JSON that commands write and the report reads: `docs/json.md`.
pub const SCHEMA: u32 = 1;

mod csv;
mod gather;
pub mod printable;
mod row;

pub use csv::csv;
pub use gather::{GatherError, gather, gather_values};
pub use row::{Column, Columns, Layout, Note, Row, format, one_line};

#[doc(hidden)]
pub use serde;
