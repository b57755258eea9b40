//! The entries that are put and checked, with the paper's sizes.

use probeline::map::{Map, Operation, Stats, Written};
use probeline::transport::Exchange;
use probeline_programs::Timed;

use super::Workload;
use crate::failure::{Failure, Result};
use crate::series::Run;

/// 80 and 104 bytes.
pub(super) type Key = [u64; 10];
pub(super) type Value = [u64; 13];

/// Words of a bucket: the control word, the key and the value fill three cache lines.
pub(super) const BUCKET_WORDS: u32 = 24;
pub(super) const LINE_WORDS: u64 = 8;

fn key(number: u64) -> Key {
    core::array::from_fn(|at| number.wrapping_mul(2 * at as u64 + 1))
}

/// Returns a value that identifies its key and the put that has written it.
fn value(number: u64, put: u64) -> Value {
    core::array::from_fn(|at| if at == 0 { put } else { number ^ put.wrapping_mul(at as u64) })
}

/// The map of a rank, and the buffers of one batch.
pub(super) struct Client<'e> {
    pub(super) map: Map<&'e mut dyn Timed, Vec<Operation<Key, Value>>, Key, Value>,
    keys: Vec<Key>,
    values: Vec<Value>,
    found: Vec<Option<Value>>,
    written: Vec<Written>,
    puts: u64,
}

impl<'e> Client<'e> {
    pub(super) fn new(
        map: Map<&'e mut dyn Timed, Vec<Operation<Key, Value>>, Key, Value>,
        batch: usize,
    ) -> Self {
        let (found, written) = (vec![None; batch], vec![Written::Dropped; batch]);
        Self { map, keys: Vec::new(), values: Vec::new(), found, written, puts: 0 }
    }

    /// Runs one workload of all ranks.
    pub(super) fn once(
        &mut self,
        workload: Workload,
        numbers: &[u64],
        exchange: &mut dyn Exchange,
    ) -> Result<Run<Stats>> {
        self.map.reset_stats();
        exchange.barrier()?;
        let start_ns = self.map.transport().now_ns();
        for (nth, numbers) in numbers.chunks(self.found.len()).enumerate() {
            let (gets, puts) = numbers.split_at(workload.gets(numbers.len(), nth));
            self.get_all(gets)?;
            self.put_all(puts)?;
        }
        let plus = |one: Stats, other| one.plus(&other);
        Run::gather(self.map.transport(), start_ns, *self.map.stats(), plus, exchange)
    }

    /// Gets the keys of these numbers in one call and checks the values.
    fn get_all(&mut self, numbers: &[u64]) -> Result<()> {
        if let &[number] = numbers {
            return check(number, self.map.get(&key(number))?.as_ref());
        }
        self.keys.clear();
        self.keys.extend(numbers.iter().map(|number| key(*number)));
        let found = self.found.get_mut(..numbers.len()).unwrap_or_default();
        self.map.get_batch(&self.keys, found)?;
        numbers.iter().zip(found).try_for_each(|(number, found)| check(*number, found.as_ref()))
    }

    /// Puts the keys of these numbers in one call.
    fn put_all(&mut self, numbers: &[u64]) -> Result<()> {
        self.puts += 1;
        let put = self.puts;
        if let &[number] = numbers {
            self.map.put(&key(number), &value(number, put))?;
            return Ok(());
        }
        self.keys.clear();
        self.keys.extend(numbers.iter().map(|number| key(*number)));
        self.values.clear();
        self.values.extend(numbers.iter().map(|number| value(*number, put)));
        let written = self.written.get_mut(..numbers.len()).unwrap_or_default();
        Ok(self.map.put_batch(&self.keys, &self.values, written)?)
    }
}

fn check(number: u64, found: Option<&Value>) -> Result<()> {
    match found {
        Some(found) if *found != value(number, found[0]) => Err(Failure::new(format!(
            "a get of key {number} returned a value that was not put for it: {found:x?}; report this"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_values_never_put() {
        assert!(check(7, None).is_ok());
        assert!(check(7, Some(&value(7, 9))).is_ok());
        assert!(check(7, Some(&value(8, 9))).is_err());
        let mut torn = value(7, 9);
        torn[12] = value(7, 10)[12];
        assert!(check(7, Some(&torn)).is_err());
    }
}
