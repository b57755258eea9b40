//! Latencies of one kind of operation: the mean of whole batches, and the distribution.

use hdrhistogram::Histogram;

use crate::failure::Result;

/// Operations between two readings of the clock for the mean. The clock's cost, tens of
/// nanoseconds, then adds less than a nanosecond to each.
const BATCH: u64 = 256;
/// The longest latency kept: an hour. What is longer is counted as that.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Measures in two kinds of batches that take turns: whole ones for the mean, and ones in which
/// each operation is timed by itself for the distribution.
pub(crate) struct Recorder {
    histogram: Histogram<u64>,
    batch_ns: u64,
    batch_operations: u64,
    longest_ns: u64,
    clock_ns: u64,
}

/// What was measured, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(crate) operations: u64,
    pub(crate) min_ns: u64,
    pub(crate) mean_ns: f64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p99_9_ns: u64,
    pub(crate) max_ns: u64,
}

/// The clock's own cost: the median of many readings, in nanoseconds.
pub(crate) fn clock_cost_ns(now: impl Fn() -> u64) -> u64 {
    let mut costs: Vec<u64> = (0..1001)
        .map(|_| {
            let start = now();
            now() - start
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

impl Recorder {
    /// `clock_ns` is taken off each operation that is timed by itself.
    pub(crate) fn new(clock_ns: u64) -> Result<Self> {
        let mut histogram = Histogram::new_with_max(LONGEST_NS, 3)?;
        // So that nothing grows while it measures.
        histogram.auto(false);
        Ok(Self { histogram, batch_ns: 0, batch_operations: 0, longest_ns: 0, clock_ns })
    }

    /// Runs `operations` operations, half of them or a batch more for the mean.
    /// `context` is what operation and clock share.
    pub(crate) fn run<X>(
        &mut self,
        operations: u64,
        context: &mut X,
        mut operation: impl FnMut(&mut X) -> Result<()>,
        now: impl Fn(&X) -> u64,
    ) -> Result<()> {
        // Of few operations half go to the mean as well.
        let batch = BATCH.min(operations.div_ceil(2));
        let mut left = operations;
        while left > 0 {
            let whole = left.min(batch);
            let start = now(context);
            for _ in 0..whole {
                operation(context)?;
            }
            self.batch_ns += now(context) - start;
            self.batch_operations += whole;
            left -= whole;
            let single = left.min(batch);
            for _ in 0..single {
                let start = now(context);
                operation(context)?;
                let took = (now(context) - start).saturating_sub(self.clock_ns);
                self.longest_ns = self.longest_ns.max(took);
                self.histogram.saturating_record(took);
            }
            left -= single;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn latency(&self) -> Latency {
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.longest_ns);
        Latency {
            operations: self.batch_operations + self.histogram.len(),
            min_ns: self.histogram.min().min(self.longest_ns),
            mean_ns: self.batch_ns as f64 / self.batch_operations.max(1) as f64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns: self.longest_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_distribution_are_of_what_was_run() {
        let mut clock = 0_u64;
        let mut recorder = Recorder::new(0).unwrap();
        let mut count = 0_u64;
        let operation = |clock: &mut u64| {
            count += 1;
            *clock += if count.is_multiple_of(100) { 5_000 } else { 100 };
            Ok(())
        };
        recorder.run(10_240, &mut clock, operation, |clock| *clock).unwrap();
        let latency = recorder.latency();
        assert_eq!((latency.operations, count), (10_240, 10_240));
        assert_eq!((latency.min_ns, latency.max_ns), (100, 5_000));
        assert!((latency.mean_ns - 149.0).abs() < 3.0, "{}", latency.mean_ns);
        assert_eq!(latency.p90_ns, 100);
        assert!(latency.p99_9_ns >= 4_990, "{}", latency.p99_9_ns);
    }

    #[test]
    fn few_operations_have_a_distribution_too() {
        for operations in [2, 3, 100, BATCH + 1] {
            let (mut clock, mut recorder) = (0, Recorder::new(0).unwrap());
            let tick = |clock: &mut u64| {
                *clock += 100;
                Ok(())
            };
            recorder.run(operations, &mut clock, tick, |clock| *clock).unwrap();
            let latency = recorder.latency();
            assert_eq!((latency.operations, latency.min_ns), (operations, 100));
            assert_eq!((latency.mean_ns, latency.p50_ns, latency.max_ns), (100.0, 100, 100));
        }
    }
}
