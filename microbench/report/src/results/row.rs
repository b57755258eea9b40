//! Rows of results and the columns of their tables.

use core::fmt;

use serde::ser::{Error, SerializeMap};
use serde::{Serialize, Serializer};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, to_value};

/// A declared field of a row: of the JSON and, unless it is a list, a column of the CSV.
#[derive(Clone, Copy, Debug)]
pub struct Field<R> {
    /// The name, whose suffix is its unit.
    pub name: &'static str,
    /// The meaning, or an empty text if the name says it.
    pub meaning: &'static str,
    /// Its column of the table, if it has one.
    pub column: Option<Column<R>>,
}

/// A column of the table that a terminal shows.
#[derive(Clone, Copy, Debug)]
pub struct Column<R> {
    head: &'static str,
    cell: fn(&R) -> String,
    /// Whether the short table needs the column for this row.
    matters: fn(&R) -> bool,
    /// Whether a note below the table has the field's meaning.
    is_noted: bool,
}

impl<R> Column<R> {
    /// Creates a column with this head, whose cells `cell` formats.
    #[must_use]
    pub const fn new(head: &'static str, cell: fn(&R) -> String) -> Self {
        Self { head, cell, matters: |_| true, is_noted: false }
    }

    /// Shows the column with `--full` only.
    #[must_use]
    pub const fn full(self) -> Self {
        Self { matters: |_| false, ..self }
    }

    /// Shows the column without `--full` only if it matters for one of the rows.
    #[must_use]
    pub const fn only_if(self, matters: fn(&R) -> bool) -> Self {
        Self { matters, ..self }
    }

    /// Prints the field's meaning as a note below the table.
    #[must_use]
    pub const fn note(self) -> Self {
        Self { is_noted: true, ..self }
    }

    /// Returns the head.
    #[must_use]
    pub const fn head(&self) -> &'static str {
        self.head
    }
}

/// The head of a table, and its lines.
pub type Layout = (Vec<String>, Vec<Vec<String>>);

/// A row of results, which [`row!`](crate::row!) declares.
pub trait Row: Serialize + Sized + 'static {
    /// The fields in the order of the JSON.
    const FIELDS: &'static [Field<Self>];

    /// Returns the columns from left to right.
    fn columns() -> impl Iterator<Item = &'static Column<Self>> + Clone {
        Self::FIELDS.iter().filter_map(|field| field.column.as_ref())
    }

    /// Returns the full table: every row and every column.
    fn full(rows: &[Self]) -> Layout {
        lay_out(rows, Self::columns())
    }

    /// Returns the table without `--full`: the columns that matter for one of the rows.
    fn brief(rows: &[Self]) -> Layout {
        let matters = |column: &&Column<Self>| rows.iter().any(column.matters);
        lay_out(rows, Self::columns().filter(matters))
    }

    /// Returns the notes on the columns.
    #[must_use]
    fn notes() -> Vec<Note> {
        let note = |field: &'static Field<Self>| {
            let column = field.column.as_ref().filter(|column| column.is_noted)?;
            Some(Note::on(core::slice::from_ref(&column.head), field.meaning))
        };
        Self::FIELDS.iter().filter_map(note).collect()
    }

    /// Returns whether the full table has a column with this head.
    #[must_use]
    fn has_column(head: &str) -> bool {
        Self::columns().any(|column| column.head == head)
    }
}

fn lay_out<'c, R: 'static>(
    rows: &[R],
    columns: impl Iterator<Item = &'c Column<R>> + Clone,
) -> Layout {
    let head = columns.clone().map(|column| column.head.to_owned()).collect();
    let line = |row: &R| columns.clone().map(|column| (column.cell)(row)).collect();
    (head, rows.iter().map(line).collect())
}

/// A note on the results. The JSON shows its text after the heads of its columns.
#[derive(Clone, Debug)]
pub struct Note {
    /// The note is printed if the table has one of these columns. If empty, it is always printed.
    columns: &'static [&'static str],
    text: String,
}

impl Note {
    /// Creates a note on these columns of the table.
    #[must_use]
    pub fn on(columns: &'static [&'static str], text: impl Into<String>) -> Self {
        Self { columns, text: text.into() }
    }

    /// Returns whether the note is printed below a table with this head.
    #[must_use]
    pub fn is_on(&self, head: &[String]) -> bool {
        let has = |column: &&str| head.iter().any(|printed| printed == column);
        self.columns.is_empty() || self.columns.iter().any(has)
    }

    /// Returns the heads of the columns.
    #[must_use]
    pub fn columns(&self) -> &'static [&'static str] {
        self.columns
    }
}

impl<T: Into<String>> From<T> for Note {
    /// Creates a note that is always printed.
    fn from(text: T) -> Self {
        Self::on(&[], text)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.columns.is_empty() {
            write!(f, "{}: ", self.columns.join(", "))?;
        }
        f.write_str(&self.text)
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The fields of a row in the order of the JSON. In an indented JSON, a list without objects takes one line.
#[derive(Clone, Debug)]
pub struct Fields(pub(super) Map<String, Value>);

/// Returns the fields of these rows.
///
/// # Errors
/// A row is not a JSON object.
pub fn fields<R: Serialize>(rows: &[R]) -> serde_json::Result<Vec<Fields>> {
    rows.iter().map(|row| serde_json::from_value(to_value(row)?).map(Fields)).collect()
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_flat = |value: &Value| match value {
            Value::Array(list) => !list.iter().any(Value::is_object),
            _ => false,
        };
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            match is_flat(value) {
                true => map.serialize_entry(name, &to_raw_value(value).map_err(Error::custom)?)?,
                false => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// Functions that format cells.
pub mod format {
    use serde::Serialize;
    use serde_json::to_value;

    /// Formats a value as the CSV does: empty for `None`.
    pub fn text(value: &impl Serialize) -> String {
        super::super::cell(&to_value(value).unwrap_or_default())
    }

    /// Formats a number with this number of digits after the point.
    pub fn fixed<const DIGITS: usize>(value: &impl Serialize) -> String {
        formatted(value, |value| format!("{value:.DIGITS$}"))
    }

    /// Formats a share as percent.
    pub fn percent(share: &impl Serialize) -> String {
        formatted(share, |share| format!("{:.1}%", share * 100.0))
    }

    /// Formats a rate in millions per second.
    pub fn millions(rate: &impl Serialize) -> String {
        formatted(rate, |rate| format!("{:.3}", rate / 1e6))
    }

    /// Formats a boolean as on or off.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn on_off(value: &bool) -> String {
        if *value { "on" } else { "off" }.to_owned()
    }

    /// Formats a number; `None` and infinity are empty.
    pub fn formatted(value: &impl Serialize, format: impl Fn(f64) -> String) -> String {
        to_value(value).ok().and_then(|value| value.as_f64()).map_or_else(String::new, format)
    }
}

/// Declares a row of results: a struct that is serialised with `serde`, and the columns of its
/// table.
///
/// A field is a [`Field`] of the JSON. Its meaning follows after `=`, and its column of the table
/// after `=>`: in parentheses the head and a function of [`format`](mod@crate::results::format) for
/// the field, or in braces the head and a function of the whole row; then calls of [`Column`]'s
/// methods. After the struct may follow functions of [`Row`] that differ from its own.
///
/// ```
/// use probeline_report::results::format::{fixed, text};
/// use probeline_report::results::{Row, row};
///
/// row! {
///     /// Finds of one rank.
///     struct Finds {
///         rank: u32 => ("rank", text),
///         operations: u64,
///         latency_ns: f64 = "mean of all finds" => ("ns", fixed::<1>, note()),
///         cache_hits: u64 = "finds that the cache answered" => {"cached", Finds::cached, full()},
///     }
/// }
///
/// impl Finds {
///     fn cached(&self) -> String {
///         format!("{} of {}", self.cache_hits, self.operations)
///     }
/// }
///
/// let row = Finds { rank: 0, operations: 8, latency_ns: 12.34, cache_hits: 2 };
/// assert_eq!(Finds::brief(&[row.clone()]).0, ["rank", "ns"]);
/// assert_eq!(Finds::full(&[row]).1, [["0", "12.3", "2 of 8"]]);
/// ```
#[macro_export]
macro_rules! row {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty $(= $meaning:literal)? $(=> $column:tt)?, )*
        }
        $($layout:item)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, $crate::results::serde::Serialize, $crate::results::serde::Deserialize)]
        #[serde(crate = "probeline_report::results::serde")]
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
        }

        impl $crate::results::Row for $name {
            const FIELDS: &'static [$crate::results::Field<Self>] = &[$( $crate::results::Field {
                name: stringify!($field),
                meaning: concat!($($meaning)?),
                column: $crate::column!($field $($column)?),
            }, )*];

            $($layout)*
        }
    };
}

/// Creates a column from its description in [`row!`].
#[doc(hidden)]
#[macro_export]
macro_rules! column {
    ($field:ident) => {
        None
    };
    ($field:ident ($head:literal, $format:expr $(, $($option:tt)+)?)) => {
        Some($crate::results::Column::<Self>::new($head, |row: &Self| $format(&row.$field)) $(.$($option)+)?)
    };
    ($field:ident {$head:literal, $cell:expr $(, $($option:tt)+)?}) => {
        Some($crate::results::Column::<Self>::new($head, $cell) $(.$($option)+)?)
    };
}

#[cfg(test)]
mod tests {
    use super::format::{fixed, millions, percent, text};
    use super::*;

    row! {
        struct Sample {
            name: String => ("name", text),
            rate: f64 = "of all ranks" => ("M/s", millions, note()),
            share: Option<f64> => ("share", percent, only_if(|row| row.share.is_some())),
            times: Option<f64> = "times the floor" => ("x", fixed::<2>, full().note()),
            histogram: Vec<[u64; 2]>,
        }
    }

    fn sample(share: Option<f64>) -> Sample {
        let histogram = vec![[1, 2], [3, 4]];
        Sample { name: "a".to_owned(), rate: 2.5e6, share, times: Some(1.0), histogram }
    }

    #[test]
    fn brief_table_omits_empty_columns() {
        assert_eq!(Sample::full(&[sample(None)]).0, ["name", "M/s", "share", "x"]);
        assert_eq!(Sample::brief(&[sample(None)]).0, ["name", "M/s"]);
        let (head, lines) = Sample::brief(&[sample(None), sample(Some(0.25))]);
        assert_eq!(head, ["name", "M/s", "share"]);
        assert_eq!(lines, [["a", "2.500", ""], ["a", "2.500", "25.0%"]]);
    }

    #[test]
    fn lists_take_one_json_line() {
        let json = serde_json::to_string_pretty(&fields(&[sample(None)]).unwrap()[0]).unwrap();
        assert!(json.contains("\"histogram\": [[1,2],[3,4]]"), "{json}");
        let back: Sample = serde_json::from_str(&json).unwrap();
        assert_eq!(back.histogram, sample(None).histogram);
    }

    #[test]
    fn csv_keeps_field_order_omits_lists() {
        let rows = [Sample { name: "a,b".to_owned(), ..sample(Some(1.0)) }, sample(None)];
        let text = "name,rate,share,times\n\"a,b\",2500000.0,1.0,1.0\na,2500000.0,,1.0\n";
        assert_eq!(super::super::csv(&fields(&rows).unwrap()).unwrap(), text);
        assert_eq!(super::super::csv(&[]).unwrap(), "");
    }

    #[test]
    fn notes_follow_columns() {
        let notes = Sample::notes();
        let texts: Vec<String> = notes.iter().map(Note::to_string).collect();
        assert_eq!(texts, ["M/s: of all ranks", "x: times the floor"]);
        let (head, _) = Sample::brief(&[sample(None)]);
        assert!(notes[0].is_on(&head) && !notes[1].is_on(&head));
    }
}
