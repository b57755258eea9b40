//! The maximum rate of find-or-puts on this machine, measured in the run that reports it.

use core::sync::atomic::AtomicU64;
use core::time::Duration;

use probeline::table::Config;
use probeline::transport::{Exchange, Owner, RemoteWord, Segment};
use probeline_programs::{Timed, gather_values};

use super::operations;
use crate::cli::{JobArgs, TransportName};
use crate::failure::Result;
use crate::memory;
use crate::meter::{Meter, Operation, Plan};

/// The time for each of two limits of memory, on all ranks at once. Ranks do not poll during this
/// time, and a lost owner must be reported within a second.
const MEMORY: Duration = Duration::from_millis(100);
/// The time for each of four rates of a transport: 1.2 s for all.
const TRANSPORT: Duration = Duration::from_millis(300);

/// The maximum rates at which all ranks of a job together can access the memory of its table.
#[derive(Clone, Debug)]
pub(crate) struct TableLimit {
    /// Operations per second of each rank: the minimal accesses of a find, and of an insert.
    ranks: Vec<[f64; 2]>,
    over: TransportName,
}

impl TableLimit {
    /// The longest time that `measure` takes, approximately.
    pub(crate) const MAX_TIME: Duration = Duration::from_millis(1_500);

    /// Measures the limit on the words of the future table at the start of each window, which are 0
    /// and stay 0. All ranks call it before they open the table, and all get the same result.
    /// Returns `None` if the windows are too small to measure.
    pub(crate) fn measure<T: Timed>(
        engine: &mut T,
        config: &Config,
        job: &JobArgs,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Self>> {
        // All ranks measure at once; one core alone would have the whole memory bandwidth.
        exchange.barrier()?;
        let mine = match job.transport {
            TransportName::Shm => memory_rates(engine, config.words(), MEMORY),
            _ => transport_rates(engine, config, job)?,
        };
        // A rank opens the table only after all ranks have measured.
        let ranks: Option<Vec<_>> = gather_values(exchange, &mine)?.into_iter().collect();
        Ok(ranks.map(|ranks| Self { ranks, over: job.transport }))
    }

    /// Returns the find-or-puts per second of all ranks together if `inserted_share` of them, 0 to
    /// 1, insert and the others find.
    pub(crate) fn per_second(&self, inserted_share: f64) -> f64 {
        let inserted = inserted_share.clamp(0.0, 1.0);
        let of_rank =
            |[find, insert]: &[f64; 2]| 1.0 / ((1.0 - inserted) / find + inserted / insert);
        self.ranks.iter().map(of_rank).sum()
    }

    pub(crate) fn none() -> String {
        "of limit: not measured; the table is too small to measure the limit of its memory"
            .to_owned()
    }

    pub(crate) fn note(&self) -> String {
        let what = match self.over {
            TransportName::Shm => {
                "by independent reads of random lines (found), plus a CAS (inserted)"
            }
            _ => "by READs of C buckets (found), plus a CAS (inserted), all ranks at once",
        };
        format!("of limit: {what}")
    }
}

/// Returns the rates of the memory of all owners, if the CPU can load it.
pub(super) fn memory_rates<T: Timed>(engine: &T, words: u64, time: Duration) -> Option<[f64; 2]> {
    // At most 32 GiB of a window are measured; more would not change the rate.
    let words = u32::try_from(words).unwrap_or(u32::MAX);
    let window = |owner| {
        let start = RemoteWord { owner: Owner(owner), index: 0 };
        engine.direct(Segment { start, words })
    };
    let windows: Option<Vec<&[AtomicU64]>> = (0..engine.geometry().owners).map(window).collect();
    memory::rates(&windows?, time)
}

fn transport_rates<T: Timed>(
    engine: &mut T,
    config: &Config,
    job: &JobArgs,
) -> Result<Option<[f64; 2]>> {
    let owners: Vec<Owner> = (0..engine.geometry().owners).map(Owner).collect();
    let plan = Plan {
        owners: &owners,
        words: 0..config.words(),
        time: TRANSPORT,
        operations: operations(job),
    };
    let seed = job.seed ^ u64::from(engine.geometry().me.0) << 32;
    let mut meter = Meter::new(engine, plan, seed)?;
    let mut best = |operation| -> Result<f64> {
        let deepest = meter.deepest();
        let one = meter.rate(operation, 1)?;
        Ok(meter.rate(operation, deepest)?.max(one))
    };
    let read = best(Operation::Read { words: config.chunk_buckets })?;
    let swap = best(Operation::Swap)?;
    Ok(Some([read, 1.0 / (1.0 / read + 1.0 / swap)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_find_and_insert_times() {
        let limit = TableLimit { ranks: vec![[40.0, 10.0]; 3], over: TransportName::Shm };
        // Each of three ranks takes 1/10 s for an insert and 1/40 s for a find.
        for (inserted_share, expected) in [(0.0, 120.0), (1.0, 30.0), (0.5, 48.0)] {
            let per_second = limit.per_second(inserted_share);
            assert!((per_second - expected).abs() < 1e-9, "{inserted_share}: {per_second}");
        }
    }
}
