//! Short runs of the table, which say what the transport does not.

use probeline::table::{FirstClaim, ReadAhead};
use probeline::transport::Exchange;
use probeline_tune::{Candidate, Model, Timing};

use super::bench::Bench;
use super::verification::PAPER_DEPTH;
use super::{CHUNK_BUCKETS, TuneArgs};
use crate::failure::Result;
use crate::timed::Timed;

/// C of the short run with the next chunk always ahead.
const AHEAD_CHUNK: u32 = 32;

impl TuneArgs {
    /// Has `model` know what short runs with each number in flight take; all of them. By the CPU
    /// itself, all that goes by READs is the paper's algorithm, one operation at a time.
    pub(super) fn calibrate<T: Timed>(
        &self,
        model: &mut Model,
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<Timing>> {
        let mut all = Vec::new();
        for direct in [false, true].into_iter().filter(|direct| !direct || self.direct()) {
            let depths = match self.direct() && !direct {
                true => vec![PAPER_DEPTH],
                false => self.space(direct).depths,
            };
            let runs: Vec<_> = depths.iter().map(|&at| self.calibration(direct, at)).collect();
            let ns = bench.rounds(&runs.concat(), self.rounds, "short runs", exchange)?;
            let each = ns.chunks(runs.first().map_or(1, Vec::len));
            let own = runs.iter().zip(each).map(|(runs, ns)| model.calibrated(runs, ns));
            let overhead = depths.into_iter().zip(own).collect();
            match direct {
                true => model.direct = overhead,
                false => model.by_reads = overhead,
            }
            all.extend(runs.concat().into_iter().zip(ns));
        }
        Ok(all)
    }

    /// The runs of a depth: plain, and with a cache; where the CPU does not reach all buckets, also
    /// with each other C, with claims along with the first READ, and with the next chunk ahead.
    pub(super) fn calibration(&self, direct: bool, depth: u32) -> Vec<Candidate> {
        let space = self.space(direct);
        let of = |chunk_buckets| Candidate {
            chunk_buckets,
            max_chunks: space.max_chunks(chunk_buckets),
            read_ahead: ReadAhead::Never,
            first_claim: FirstClaim::Off,
            depth,
            cache_entries: 0,
            direct,
        };
        let [least, others @ ..] = CHUNK_BUCKETS;
        let plain = of(least);
        let mut runs = vec![plain, Candidate { cache_entries: space.cache_entries, ..plain }];
        if !direct {
            runs.extend(others.map(of));
            // Neither where a CPU has fetched all of the next chunk nor where it is hardly needed.
            runs.push(Candidate { read_ahead: ReadAhead::Always, ..of(AHEAD_CHUNK) });
            runs.push(Candidate { first_claim: FirstClaim::On, ..plain });
        }
        runs
    }
}
