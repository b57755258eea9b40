//! Plots each measurement as a share of the limit of the transport or of memory.

use super::{Chapter, cluster, distinct, of, rows};
use crate::fields::Fields;
use crate::origin::{Origins, transport};
use crate::plot::{Axis, Form, Guide, Plot, Series, Table, all, chunk_name, span};
use crate::run::Run;

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let mut chapter = Chapter {
        id: "limit",
        title: "Fraction of the limit",
        lead:
            "What was reached, beside what the same run found that the transport or the memory can \
               do at best; 1 is the limit itself."
                .to_owned(),
        plots: Vec::new(),
        missing: Vec::new(),
    };
    chapter.plots.extend(rates(runs));
    for (operation, title) in
        [("inserted", "Inserts beside their floor"), ("found", "Finds beside their floor")]
    {
        chapter.plots.extend(floors(runs, operation, title));
    }
    chapter.plots.extend(cluster::limits(runs));
    if chapter.plots.is_empty() {
        chapter.missing.push(
            "Fraction of the limit: no run here has measured its limit. `probeline \
             bench-throughput --json FILE` makes one that has."
                .to_owned(),
        );
    }
    chapter
}

/// Plots workloads and explorations, a line for each.
fn rates(runs: &[Run]) -> Option<Plot> {
    let used = of(runs, &["bench-throughput", "explore"]);
    let share = |row: &Fields| row.number("limit_share").filter(|share| *share > 0.0);
    let used: Vec<&Run> =
        used.into_iter().filter(|run| run.rows.iter().any(|row| share(row).is_some())).collect();
    let origins = Origins::grouped(&used, &super::throughput::AXES);
    let name = |row: &Fields| {
        let what = row.text("workload").or_else(|| row.text("model"))?;
        Some(format!("{what}, {}", counted(row.count("ranks")?)))
    };
    let named = rows(&used).filter_map(|(_, row)| share(row).and_then(|_| name(row)));
    let names = distinct(named);
    let mut series: Vec<Series> = Vec::new();
    for (run, row) in rows(&used) {
        let (Some(share), Some(name)) = (share(row), name(row)) else { continue };
        let place = names.iter().position(|other| *other == name);
        let Some(place) = place.and_then(|place| u32::try_from(place).ok()) else { continue };
        let (hue, chunk_buckets) = (origins.name(run), run.chunk_buckets(row));
        let point = [share, f64::from(place)];
        let (line, transport) = (String::new(), transport(run));
        Series { hue, line, transport, chunk_buckets, points: vec![point] }.join(&mut series);
    }
    let last = f64::from(u32::try_from(names.len()).unwrap_or(u32::MAX)) - 0.5;
    Plot {
        id: "limit-share".to_owned(),
        title: "Throughput as a share of its limit".to_owned(),
        caption: "Operations a second by the most that the transport, or the memory where the CPU \
                  reaches the table itself, did of the reads and claims that the same operations \
                  need; measured at the start of each run, on the table's own windows. Nothing else \
                  an operation does is in the limit."
            .to_owned(),
        form: Form::Dots,
        x: Axis::from_zero("of the limit", all(&series, 0).chain([1.0])),
        y: Axis::names(&names),
        table: Table::by_name("workload", &names, &series),
        guide: Some(Guide { from: [1.0, -0.5], to: [1.0, last] }),
        series,
    }
    .within_axes()
}

fn counted(ranks: u64) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

/// Plots the floor's time / the time of find-or-put, by load factor and C.
fn floors(runs: &[Run], operation: &str, title: &str) -> Option<Plot> {
    let used = of(runs, &["bench-latency"]);
    let value = |row: &Fields| {
        let this = row.text("operation")? == operation;
        let times = row.number("times_floor").filter(|times| *times > 0.0)?;
        this.then_some([row.number("load_factor")?, 1.0 / times])
    };
    let used: Vec<&Run> =
        used.into_iter().filter(|run| run.rows.iter().any(|row| value(row).is_some())).collect();
    let origins = Origins::unique(&used, &[]);
    let mut series: Vec<Series> = Vec::new();
    for (run, row) in rows(&used) {
        let (Some(point), Some(chunk_buckets)) = (value(row), row.chunk_buckets()) else {
            continue;
        };
        let one = Series {
            hue: chunk_name(chunk_buckets),
            line: origins.name(run),
            transport: transport(run),
            chunk_buckets: Some(chunk_buckets),
            points: vec![point],
        };
        one.join(&mut series);
    }
    series.sort_by_key(|series| series.chunk_buckets);
    let loads = || all(&series, 0);
    let [first, last] = span(loads());
    let floor = match operation {
        "inserted" => "one READ of C buckets and then one CAS",
        _ => "one READ of C buckets",
    };
    Plot {
        id: format!("floor-{operation}"),
        title: title.to_owned(),
        caption: format!(
            "The time of {floor}, going to the same owners in the same order, by that of the \
             find-or-put: medians of rounds in which both take turns. Above 1 it needs less than \
             its floor, as where the CPU itself looks at the bytes that it needs and no more."
        ),
        form: Form::Lines,
        x: Axis::between("load factor", loads()),
        y: Axis::from_zero("floor by find-or-put", all(&series, 1).chain([1.0])),
        table: Table::by_x("load factor", &series),
        guide: (first <= last).then_some(Guide { from: [first, 1.0], to: [last, 1.0] }),
        series: series.clone(),
    }
    .within_axes()
}
