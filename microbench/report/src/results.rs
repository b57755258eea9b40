//! Results of the command `probeline`.
//!
//! [`row!`] declares a row: one struct whose fields are written as JSON and CSV ([`csv`]), printed
//! as the columns of a table ([`Row`]) and read back by the report. [`printable`] makes text from files and arguments safe to
//! show.

/// The version of the JSON that commands write and the report reads: `docs/output.md`.
pub const SCHEMA: u32 = 1;

mod csv;
pub mod printable;
mod row;

pub use crate::row;
pub use csv::csv;
pub use row::{Column, Field, Fields, Layout, Note, Row, fields, format};

#[doc(hidden)]
pub use serde;
