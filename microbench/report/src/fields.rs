//! A JSON object whose fields keep their order, which is that of a table's columns.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The largest number that is shown: 10^30 ns are two thousand times the age of the universe.
/// Arithmetic on such numbers stays finite.
const MAX_NUMBER: f64 = 1e30;

/// Names and values in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a number that a plot can show.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64().filter(|number| number.abs() <= MAX_NUMBER)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Returns C, if the row has one.
    pub(crate) fn chunk_buckets(&self) -> Option<u32> {
        u32::try_from(self.count("chunk_buckets")?).ok()
    }
}
