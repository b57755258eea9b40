//! A JSON object whose fields keep their order, which is that of a table's columns.

use core::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Nothing that is measured is more: 10^30 ns are two thousand times the age of the universe. What is
/// worked out of such numbers is still finite.
const MOST: f64 = 1e30;

/// Names and values in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields(Vec<(String, Value)>);

impl Fields {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number that a plot can show.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64().filter(|number| number.abs() <= MOST)
    }

    /// The first of these names that has a number.
    pub(crate) fn any_number(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| self.number(name))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// C, if the row has one.
    pub(crate) fn chunk_buckets(&self) -> Option<u32> {
        let found = self.number("chunk_buckets")?;
        // Of clusters simulated before schema 5 had means of their own it is one, which is no C.
        (0..=16)
            .map(|power| 8_u32 << power)
            .find(|&c| f64::from(c) == found)
            .or_else(|| u32::try_from(self.count("chunk_buckets")?).ok())
    }

    /// Of a row of `simulate`: the limit that is met. Until schema 5 rows without one had the
    /// roundtrips in its place, which are none.
    pub(crate) fn limit_met(&self) -> Option<&str> {
        self.text("limit").filter(|limit| *limit != "roundtrips")
    }

    pub(crate) fn push(&mut self, name: String, value: Value) {
        self.0.push((name, value));
    }
}

/// The fields of a whole file, not yet read any further.
pub(crate) struct RawFields(pub(crate) Vec<(String, Box<RawValue>)>);

struct Pairs<V>(core::marker::PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
    type Value = Vec<(String, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs(core::marker::PhantomData)).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs(core::marker::PhantomData)).map(Self)
    }
}
