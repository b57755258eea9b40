//! Short runs of the table that calibrate what measurements of the transport cannot show.

use probeline::table::{OneRoundtrip, ReadAhead};
use probeline::transport::Exchange;
use probeline_tune::{Candidate, Model, Timing};

use super::bench::Bench;
use super::verification::PAPER_DEPTH;
use super::{CHUNK_BUCKETS, TuneArgs};
use crate::failure::Result;
use crate::timed::Timed;

/// C of the short run that always reads the next chunk ahead.
const AHEAD_CHUNK: u32 = 32;

impl TuneArgs {
    /// Calibrates `model` with short runs at each depth, and returns the runs. Where the CPU
    /// executes a batch itself, the candidate that uses READs only is the paper's algorithm, one
    /// operation at a time.
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

    /// Returns the runs of a depth: one plain and one with a cache. Unless the CPU can load all
    /// buckets, also runs with each other C, with claims along with the first READ, and with
    /// read-ahead.
    pub(super) fn calibration(&self, direct: bool, depth: u32) -> Vec<Candidate> {
        let space = self.space(direct);
        let of = |chunk_buckets| Candidate {
            chunk_buckets,
            max_chunks: space.max_chunks(chunk_buckets),
            read_ahead: ReadAhead::Never,
            one_roundtrip: OneRoundtrip::Off,
            depth,
            cache_entries: 0,
            direct,
        };
        let [least, others @ ..] = CHUNK_BUCKETS;
        let plain = of(least);
        let mut runs = vec![plain, Candidate { cache_entries: space.cache_entries, ..plain }];
        if !direct {
            runs.extend(others.map(of));
            // With a smaller C a CPU has prefetched the whole next chunk, and with a larger one
            // the next chunk is rarely needed.
            runs.push(Candidate { read_ahead: ReadAhead::Always, ..of(AHEAD_CHUNK) });
            runs.push(Candidate { one_roundtrip: OneRoundtrip::On, ..plain });
        }
        runs
    }
}
