//! The entries that are put and checked, with the sizes of the paper's, and the least work for one.

use probeline::map::{Map, Operation, Stats, Written};
use probeline::table::Config;
use probeline::transport::{Exchange, Transport};
use probeline_programs::Timed;

use super::Workload;
use crate::cli::{JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::scenario::limits::TableLimit;
use crate::series::Run;

/// 80 and 104 bytes.
pub(super) type Key = [u64; 10];
pub(super) type Value = [u64; 13];

/// Words of a bucket: the control word, the key and the value fill three cache lines.
pub(super) const BUCKET_WORDS: u32 = 24;
pub(super) const LINE_WORDS: u64 = 8;
const LINES: f64 = 3.0;

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

/// Operations per second of all ranks that the machine allows: gets, and puts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    get: f64,
    put: f64,
}

impl Limit {
    /// Returns the limit if this share of the operations are puts.
    pub(super) fn per_second(self, puts: f64) -> f64 {
        1.0 / ((1.0 - puts) / self.get + puts / self.put)
    }
}

/// Measures the limit on the words of the future map, which are 0 and stay 0. All ranks call it.
/// `None` if the windows are too small.
pub(super) fn limit<T: Timed>(
    engine: &mut T,
    buckets_per_owner: u64,
    job: &JobArgs,
    exchange: &mut dyn Exchange,
) -> Result<Option<Limit>> {
    let words = buckets_per_owner * u64::from(BUCKET_WORDS);
    let config = |words| Config { chunk_buckets: BUCKET_WORDS, ..Config::new(words) };
    // A table has words beside its buckets.
    let more = config(words).words().saturating_sub(engine.geometry().window_words);
    let config = config(words.saturating_sub(more.next_multiple_of(LINE_WORDS)));
    let Some(limit) = TableLimit::measure(engine, &config, job, exchange)? else { return Ok(None) };
    // A read of a line or of a bucket; and the same with a compare-and-swap.
    let (read, read_and_swap) = (limit.per_second(0.0), limit.per_second(1.0));
    Ok(Some(match job.transport {
        TransportName::Shm => {
            Limit { get: read / LINES, put: 1.0 / ((LINES - 1.0) / read + 1.0 / read_and_swap) }
        }
        _ => Limit { get: read, put: read_and_swap / 2.0 },
    }))
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

    #[test]
    fn sums_get_and_put_times() {
        let limit = Limit { get: 40.0, put: 10.0 };
        assert!((limit.per_second(0.0) - 40.0).abs() < 1e-9);
        assert!((limit.per_second(0.5) - 16.0).abs() < 1e-9);
    }
}
