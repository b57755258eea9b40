//! Measures the latency of one kind of operation: the mean over whole batches, and the
//! distribution.

use hdrhistogram::Histogram;

use super::row::LatencyRow;
use crate::failure::Result;

/// Warm-up operations before a measurement, as a divisor: a tenth of it.
pub(super) const WARM_UP_SHARE: usize = 10;
/// Maximum operations between two readings of the clock for the mean.
const BATCH: usize = 256;
/// A batch grows while it takes less than this share (1/16) of the time limit, so that the time
/// exceeds the limit by little.
const BATCH_SHARE: u64 = 16;
/// The longest latency of the histogram: an hour. Longer ones are recorded as this.
const MAX_NS: u64 = 3_600_000_000_000;
/// The share of the fastest and of the slowest operations that a trimmed mean omits.
const TRIMMED: f64 = 0.1;

/// Measures two kinds of batches in turn: whole ones for the mean, and batches of individually
/// timed operations for the distribution.
pub(super) struct Recorder {
    histogram: Histogram<u64>,
    batch_ns: u64,
    batch_operations: u64,
    max_ns: u64,
    clock_ns: u64,
    cut: bool,
}

/// Returns the cost of reading the clock: the median of many readings, in nanoseconds.
pub(super) fn clock_cost_ns(now: impl Fn() -> u64) -> u64 {
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
    /// Creates a recorder. It subtracts `clock_ns` from each individually timed operation and from
    /// each batch.
    pub(super) fn new(clock_ns: u64) -> Result<Self> {
        let mut histogram = Histogram::new_with_max(MAX_NS, 3)?;
        // A fixed size, so that the histogram does not allocate during a measurement.
        histogram.auto(false);
        let (batch_ns, batch_operations, max_ns) = (0, 0, 0);
        Ok(Self { histogram, batch_ns, batch_operations, max_ns, clock_ns, cut: false })
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        self.histogram.add(&other.histogram)?;
        self.batch_ns += other.batch_ns;
        self.batch_operations += other.batch_operations;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.cut |= other.cut;
        Ok(())
    }

    /// Runs one operation for each of `items`. Half of them, or one batch more, are for the mean.
    /// Stops early once `limit_ns` have passed. Operation and clock share `context`.
    pub(super) fn run<I, X>(
        &mut self,
        mut items: impl ExactSizeIterator<Item = I>,
        limit_ns: u64,
        context: &mut X,
        mut operation: impl FnMut(&mut X, I) -> Result<()>,
        now: impl Fn(&X) -> u64,
    ) -> Result<()> {
        let begin = now(context);
        let mut batch = 1;
        while items.len() > 0 {
            if now(context) - begin >= limit_ns {
                self.cut = true;
                break;
            }
            // If there are few operations, half of them are for the mean.
            let whole = batch.min(items.len().div_ceil(2));
            let start = now(context);
            for item in items.by_ref().take(whole) {
                operation(context, item)?;
            }
            let took = (now(context) - start).saturating_sub(self.clock_ns);
            self.batch_ns += took;
            self.batch_operations += whole as u64;
            for item in items.by_ref().take(batch) {
                let start = now(context);
                operation(context, item)?;
                let took = (now(context) - start).saturating_sub(self.clock_ns);
                self.max_ns = self.max_ns.max(took);
                self.histogram.saturating_record(took);
            }
            if took < limit_ns / BATCH_SHARE {
                batch = (2 * batch).min(BATCH);
            }
        }
        Ok(())
    }

    /// Records one operation for each of `items`, as [`run`](Self::run) does, after a warm-up with the
    /// first of them for at most a tenth of `limit_ns`. Subtracts `clock_ns` as [`new`](Self::new) says.
    pub(super) fn run_warm<I, X>(
        clock_ns: u64,
        mut items: impl ExactSizeIterator<Item = I>,
        limit_ns: u64,
        context: &mut X,
        mut operation: impl FnMut(&mut X, I) -> Result<()>,
        now: impl Fn(&X) -> u64,
    ) -> Result<Self> {
        let mut recorder = Self::new(clock_ns)?;
        // Items that a shortened warm-up leaves over are not measured either.
        let first = items.len() / (WARM_UP_SHARE + 1);
        let measured = items.len() - first;
        let start = now(context);
        for item in items.by_ref().take(first) {
            operation(context, item)?;
            if now(context) - start >= limit_ns / WARM_UP_SHARE as u64 {
                break;
            }
        }
        recorder.run(items.take(measured), limit_ns, context, operation, now)?;
        Ok(recorder)
    }

    /// Returns the mean of individually timed operations without the fastest and the slowest tenth,
    /// so that interruptions of a few operations do not count. `None` if there are none.
    pub(super) fn trimmed_mean_ns(&self) -> Option<f64> {
        let all = self.histogram.len() as f64;
        let (first, last) = (all * TRIMMED, all * (1.0 - TRIMMED));
        let (mut before, mut sum) = (0.0, 0.0);
        for at in self.histogram.iter_recorded() {
            let after = before + at.count_at_value() as f64;
            let kept = (after.min(last) - f64::max(before, first)).max(0.0);
            sum += kept * self.histogram.median_equivalent(at.value_iterated_to()) as f64;
            before = after;
        }
        (all > 0.0).then(|| sum / (last - first))
    }

    fn mean_ns(&self) -> f64 {
        match self.batch_operations {
            0 => self.histogram.mean(),
            operations => self.batch_ns as f64 / operations as f64,
        }
    }

    /// Returns the row of an operation without a table.
    pub(super) fn row(&self, operation: &str) -> LatencyRow {
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_ns);
        let recorded = self.histogram.iter_recorded();
        LatencyRow {
            operation: operation.to_owned(),
            operations: self.batch_operations + self.histogram.len(),
            min_ns: self.histogram.min().min(self.max_ns),
            mean_ns: self.mean_ns(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            max_ns: self.max_ns,
            histogram: recorded
                .map(|at| [at.value_iterated_to().min(self.max_ns), at.count_at_value()])
                .collect(),
            cut: self.cut,
            ..LatencyRow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ops::Range;

    use super::*;

    const UNLIMITED: u64 = u64::MAX;

    /// Records operations of these times. Returns the time of the clock then.
    fn run(
        operations: Range<usize>,
        each_ns: impl Fn(usize) -> u64,
        limit_ns: u64,
    ) -> (u64, Recorder) {
        let (mut clock, mut recorder) = (0, Recorder::new(0).unwrap());
        let tick = |clock: &mut u64, nth| {
            *clock += each_ns(nth);
            Ok(())
        };
        recorder.run(operations, limit_ns, &mut clock, tick, |clock| *clock).unwrap();
        (clock, recorder)
    }

    #[test]
    fn records_mean_and_distribution() {
        let each_ns = |nth| if nth % 100 == 99 { 5_000 } else { 100 };
        let (clock, recorder) = run(0..10_240, each_ns, UNLIMITED);
        let latency = recorder.row("READ");
        assert_eq!((latency.operations, clock), (10_240, 102 * 5_000 + 10_138 * 100));
        assert_eq!((latency.min_ns, latency.max_ns), (100, 5_000));
        assert!((latency.mean_ns - 149.0).abs() < 5.0, "{}", latency.mean_ns);
        assert_eq!(latency.p90_ns, 100);
        assert!(latency.p99_9_ns >= 4_990 && !latency.cut, "{}", latency.p99_9_ns);
        // The slow operations are fewer than the mean omits.
        let trimmed = recorder.trimmed_mean_ns().unwrap();
        assert!((trimmed - 100.0).abs() < 0.1, "{trimmed}");

        let [fast, slow] = latency.histogram[..] else { panic!("{:?}", latency.histogram) };
        assert_eq!((fast[0], slow[0]), (100, 5_000));
        let singles: u64 = latency.histogram.iter().map(|[_, count]| count).sum();
        assert!((4_900..5_200).contains(&singles), "{singles}");
        assert!((45..=55).contains(&slow[1]), "{}", slow[1]);
    }

    #[test]
    fn records_few_operations() {
        for operations in [2, 3, 100, BATCH + 1] {
            let latency = run(0..operations, |_| 100, UNLIMITED).1.row("READ");
            assert_eq!((latency.operations, latency.min_ns), (operations as u64, 100));
            assert_eq!((latency.mean_ns, latency.p50_ns, latency.max_ns), (100.0, 100, 100));
        }
    }

    #[test]
    fn stops_soon_after_limit() {
        for (each_ns, limit_ns) in [(500_000, 50_000_000), (20_000, 1_000_000), (100, 10)] {
            let (clock, recorder) = run(0..1_000_000, |_| each_ns, limit_ns);
            let latency = recorder.row("READ");
            assert!(latency.cut && latency.operations * each_ns == clock, "{latency:?}");
            assert!(clock >= limit_ns && clock <= limit_ns * 5 / 4 + 2 * each_ns, "{clock}");
        }
    }

    #[test]
    fn rounds_add_up() {
        let mut all = Recorder::new(0).unwrap();
        for each_ns in [100, 200, 700] {
            let (_, round) = run(0..10, |_| each_ns, UNLIMITED);
            assert!(
                round
                    .trimmed_mean_ns()
                    .is_some_and(|mean| (mean / each_ns as f64 - 1.0).abs() < 0.001)
            );
            all.add(&round).unwrap();
        }
        let latency = all.row("READ");
        assert_eq!((latency.operations, latency.min_ns, latency.max_ns), (30, 100, 700));
        assert_eq!(latency.histogram.len(), 3);
        assert_eq!(Recorder::new(0).unwrap().trimmed_mean_ns(), None);
    }
}
