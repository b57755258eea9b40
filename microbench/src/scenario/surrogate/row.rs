//! The row of a run, and the summary of all.

use probeline_programs::reactive::Grid;
use probeline_programs::surrogate::{FIELD_COUNT, Tally};
use probeline_report::results::format::{fixed, formatted, percent, text};
use probeline_report::results::row;
use serde::Serialize;

use crate::units::{counted, significant, thousands, time};

row! {
    pub(crate) struct SurrogateRow {
        digits: Option<u8> = "significant digits of the inputs of the chemistry"
            => {"digits", SurrogateRow::digits_name, note()},
        ranks: u32 => ("ranks", text, full()),
        results: u64 = "results of the chemistry, one a cell and step" => ("results", text, full().note()),
        hits: u64 = "results that the cache had",
        hit_share: Option<f64> = "results that were not computed / results" => ("hit rate", percent, note()),
        computed: u64 = "results that were computed" => ("computed", text),
        evictions: u64 = "results that made room for others; a larger --table-size keeps more"
            => ("evictions", text, only_if(|row| row.evictions > 0).note()),
        seconds: f64 = "time of the slowest rank, with the flow" => ("s", fixed::<3>),
        times_faster: Option<f64> = "time without the cache / time with it" => ("times faster", fixed::<2>, note()),
        seconds_at_206_us: Option<f64> = "if each computed result took 206 us more; null if `work_us` is 206 or more",
        times_faster_at_206_us: Option<f64> = "times faster if a computed result took 206 us more, as the paper's"
            => ("at 206 us", fixed::<2>, full().note()),
        compute_ns: Option<f64> = "mean; the cache has the results of cells at rest, which cost more"
            => ("ns computed", fixed::<0>, note()),
        lookup_ns: Option<f64> = "rounding, get and put, mean of all results"
            => ("ns looked up", fixed::<0>, note()),
        rms_error: Option<f64> = "root mean square of the errors of all cells, as max error"
            => ("RMS error", small, full().note()),
        max_error: Option<f64> = "of the worst cell, against no cache / largest value of the field; of the worst field" => ("max error", small, note()),
        charge: f64 = "largest charge of a cell's water, in equivalents per litre"
            => ("charge", small, full().note()),
        drift: f64 = "change of an element's amount in the grid that no flow explains / the amount"
            => ("drift", small, full().note()),
        digest: String = "hash of all cells after the last step" => ("digest", text, full().note()),
    }
}

impl SurrogateRow {
    /// Creates the row of a run, which is compared with that without the cache.
    pub(super) fn new(
        digits: Option<u8>,
        ranks: u32,
        tally: &Tally,
        without: Option<&Self>,
    ) -> Self {
        let seconds_at_206_us = tally.at_206_us_ns.map(|ns| ns as f64 / 1e9);
        let seconds = tally.took_ns as f64 / 1e9;
        let per = |ns: u64, count: u64| (count > 0).then(|| ns as f64 / count as f64);
        let cached = digits.is_some();
        let [max, rms] = tally.errors();
        let largest =
            |errors: [f64; FIELD_COUNT]| cached.then(|| errors.into_iter().fold(0.0, f64::max));
        Self {
            digits,
            ranks,
            results: tally.inputs,
            hits: tally.hits,
            hit_share: cached.then(|| 1.0 - tally.solved as f64 / tally.inputs.max(1) as f64),
            computed: tally.solved,
            evictions: tally.evictions,
            seconds,
            times_faster: without.map(|without| without.seconds / seconds.max(1e-9)),
            seconds_at_206_us,
            times_faster_at_206_us: without.and_then(|without| {
                Some(without.seconds_at_206_us? / seconds_at_206_us?.max(1e-9))
            }),
            compute_ns: per(tally.solve_ns, tally.solved),
            lookup_ns: per(tally.chemistry_ns.saturating_sub(tally.solve_ns), tally.inputs)
                .filter(|_| cached),
            max_error: largest(max),
            rms_error: largest(rms),
            charge: tally.charge,
            drift: tally.drift(),
            digest: format!("{:016x}", tally.digest),
        }
    }

    fn digits_name(&self) -> String {
        self.digits.map_or("no cache".to_owned(), |digits| digits.to_string())
    }

    pub(super) fn summary(rows: &[Self], grid: Grid) -> Vec<String> {
        let Some(without) = rows.first() else { return Vec::new() };
        let first = format!(
            "{} x {} cells on {}: {} results of the chemistry take {} without the cache",
            grid.columns,
            grid.rows,
            counted(without.ranks.into(), "rank"),
            thousands(without.results),
            time(without.seconds * 1e9),
        );
        let with = rows.iter().filter_map(|row| {
            Some(format!(
                "{}: {} times as fast ({}), hit rate {:.1} %, error at most {}",
                counted(row.digits?.into(), "digit"),
                significant(row.times_faster?),
                saved(row.times_faster?),
                row.hit_share? * 100.0,
                small(&row.max_error),
            ))
        });
        [first].into_iter().chain(with).collect()
    }
}

/// Describes the time that the cache saves or costs: the paper's gain.
fn saved(times_faster: f64) -> String {
    let percent = (1.0 - 1.0 / times_faster) * 100.0;
    format!("{:.0} % {} time", percent.abs(), if percent < 0.0 { "more" } else { "less" })
}

/// Formats a number of any magnitude with two digits.
fn small(number: &impl Serialize) -> String {
    formatted(number, |number| format!("{number:.1e}"))
}
