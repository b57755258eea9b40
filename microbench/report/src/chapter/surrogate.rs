//! Plots simulations of reactive transport with a cache: gain and error by digits.

use super::{Chapter, Sample, series_of_runs};
use crate::plot::{Guide, Kind, Plot, Series, Spec};
use crate::run::Run;

const COMMANDS: [&str; 1] = ["surrogate"];

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let plots = [gain(runs), hits(runs), errors(runs)];
    Chapter::new(
        [
            "surrogate",
            "A cache of chemistry",
            "A simulation of reactive transport, without a cache of the chemistry's results and with \
             one, by the digits to which the chemistry's inputs are rounded.",
        ],
        plots.into_iter().flatten(),
        "A cache of chemistry: no run of surrogate was given. `probeline surrogate --json FILE` writes \
         one.",
    )
}

/// Returns the points of a field of the rows by digits.
fn by_digits(runs: &[Run], hue: &str, field: &str) -> Vec<Series> {
    series_of_runs(runs, &COMMANDS, |_, row| {
        let point = [row.number("digits")?, row.number(field)?];
        Some(Sample::new(hue.to_owned(), point))
    })
}

fn gain(runs: &[Run]) -> Option<Plot> {
    Spec {
        id: "surrogate-gain".to_owned(),
        title: "Gain of the cache".to_owned(),
        caption: "Time of the simulation without the cache / time with it.".to_owned(),
        x: ("significant digits", Kind::Counts),
        y: ("times faster", Kind::FromZero),
        guide: Guide::Level,
    }
    .plot(by_digits(runs, "times faster", "times_faster"))
}

fn hits(runs: &[Run]) -> Option<Plot> {
    Spec {
        id: "surrogate-hits".to_owned(),
        title: "Results that were not computed".to_owned(),
        caption: "Share of all results that were not computed.".to_owned(),
        x: ("significant digits", Kind::Counts),
        y: ("share", Kind::FromZero),
        guide: Guide::None,
    }
    .plot(by_digits(runs, "hit rate", "hit_share"))
}

fn errors(runs: &[Run]) -> Option<Plot> {
    let of = |hue: &str, field: &str| {
        let series = by_digits(runs, hue, field);
        let in_ppm = |series: &Series| series.map(|[_, error]| Some(error * 1e6));
        series.iter().filter_map(in_ppm).collect::<Vec<_>>()
    };
    let all = [of("root mean square", "rms_error"), of("largest", "max_error")];
    Spec {
        id: "surrogate-errors".to_owned(),
        title: "Error of the cache".to_owned(),
        caption:
            "Difference from the run without the cache after the last time step, relative to the \
                  largest value of the field, of the field in which it is largest."
                .to_owned(),
        x: ("significant digits", Kind::Counts),
        y: ("parts per million", Kind::Log),
        guide: Guide::None,
    }
    .plot(all.concat())
}
