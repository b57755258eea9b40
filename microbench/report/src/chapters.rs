//! The chapters of the page: the charts of each, declared by the fields of rows.

mod paper;

use serde_json::Value;

use crate::axis::Kind;
use crate::chart::{Chapter, Chart};
use crate::distinct;
use crate::number::ranks_name;
use crate::origin::cell;
use crate::plot::{Form, Series};
use crate::run::{Fields, Run};

const LOAD_FACTOR: (&str, Kind) = ("load factor", Kind::FromZero);
const MILLIONS: (&str, Kind) = ("million per second", Kind::Fitting);
const NAMES: (&str, Kind) = ("measured", Kind::Names(Vec::new()));

/// Returns all chapters, including those without plots. A line looks the same in all plots; a plot of
/// markers only has none.
pub(crate) fn all(runs: &[Run]) -> Vec<Chapter> {
    let mut all =
        [comparison(runs), latency(runs), distribution(runs), throughput(runs), programs(runs)];
    let mut lines = Vec::new();
    let plots = all.iter_mut().flat_map(|chapter| &mut chapter.plots);
    for series in plots.filter(|plot| plot.form == Form::Lines).flat_map(|plot| &mut plot.series) {
        series.line_at = lines.iter().position(|line| *line == series.line).unwrap_or(lines.len());
        if series.line_at == lines.len() {
            lines.push(series.line.clone());
        }
    }
    all.into()
}

/// Plots the time of other programs relative to `probeline` (programs/bench-peers), and that of
/// each transport relative to the fastest one.
fn comparison(runs: &[Run]) -> Chapter {
    let texts = [
        "peers",
        "How many times as long as probeline other programs take",
        "The same work by turns on two cores of one machine, medians of the rounds: at 1 a program is as fast as probeline.",
    ];
    let x = ("times as long as probeline", Kind::FromZero);
    let peers = Chart::new(texts, x, NAMES, &["bench-peers"], |_, row| {
        let (work, system) = (row.text("measured")?, row.text("system")?);
        let times = row.number("times_probeline").filter(|_| !system.starts_with("probeline"))?;
        Some(Series::named(format!("{work}: {system}"), "other programs", times))
    });
    let transports = |unit: &'static str, texts| {
        let x = ("times the fastest", Kind::Fitting);
        Chart::new(texts, x, NAMES, &["compare"], move |_, row| {
            row.text("unit").filter(|of| *of == unit)?;
            let times = row.number("times_fastest").filter(|times| *times > 0.0)?;
            Some(Series::named(row.text("measured")?, row.text("column")?, times))
        })
    };
    let operations = [
        "compare-latency",
        "Time of an operation, relative to the fastest transport",
        "The median of the rounds' p50, one operation at a time, divided by that of the row's \
         fastest transport. Simulated transports have virtual time and are left out.",
    ];
    let rates = [
        "compare-rate",
        "Time of a find-or-put of all ranks at once, relative to the fastest transport",
        "From the rate, the median of the rounds, divided by that of the row's fastest transport. \
         Simulated transports have virtual time and are left out.",
    ];
    let charts = [peers, transports("ns", operations), transports("ops/s", rates)];
    let lead = "The same work by other programs, and over every transport by turns over rounds.";
    Chapter::new(["comparison", "Side by side", lead], runs, charts)
}

/// Plots latency and roundtrips by load factor and C (paper Fig. 2).
fn latency(runs: &[Run]) -> Chapter {
    const CAPTION: &str = "Nanoseconds from the call of one find-or-put to its result, one at a time, measured by \
         rank 0. They access the parts of all owners uniformly, this rank's own part included. \
         Means of whole batches; simulated runs have virtual time.";
    let mean = |id: &str, title: &str, operation| {
        let y = ("mean, ns", Kind::Fitting);
        let commands = &["bench-latency", "simulate"];
        Chart::new([id, title, CAPTION], LOAD_FACTOR, y, commands, move |run, row| {
            by_chunk(run, row, mean_ns(run, row, operation)?)
        })
    };
    let texts = [
        "roundtrips-effective",
        "Roundtrips of an insert, here and in the paper",
        "Chunk READs that an insert waits for before it finds its bucket (the paper's \
         roundtrips), mean of the inserts from 0.02 below the load factor up to it. The claim is \
         one more.",
    ];
    let y = ("READs per insert", Kind::FromZero);
    let commands = &["roundtrips", "bench-latency", "simulate"];
    let effective = Chart::new(texts, LOAD_FACTOR, y, commands, |run, row| {
        by_chunk(run, row, roundtrips(row)?)
    });
    let lead = format!(
        "The latency of one find-or-put, and the number of its chunk READs, by load factor. C is \
         the number of buckets that one READ transfers. Hollow markers are the paper's: {}. Its \
         latencies are means of three runs on 1 GB of each process; those on one machine stand \
         beside runs over shared memory or simulated on one machine, those on two beside all others.",
        paper::SOURCE
    );
    Chapter::new(
        ["latency", "Latency and roundtrips by load factor", &lead],
        runs,
        [
            mean(
                "latency-inserted",
                "Mean latency of an insert, here and in the paper",
                "inserted",
            )
            .with_paper_series(paper::latencies(runs)),
            mean("latency-found", "Mean latency of a find-or-put that finds its key", "found"),
            effective.with_paper_series(paper::roundtrips),
        ],
    )
}

/// Returns a sample by load factor, with the cluster that was simulated in the name of its line.
fn by_chunk(run: &Run, row: &Fields, value: f64) -> Option<Series> {
    let sample =
        Series::with_chunk(run.chunk_buckets(row)?, vec![[row.number("load_factor")?, value]]);
    let line = cluster(row).map(|[machines, ranks]| format!(", {machines} x {ranks}"));
    Some(Series { line: line.unwrap_or_default(), ..sample })
}

/// Returns the machines and the ranks on each; `None` for a row that was not simulated.
fn cluster(row: &Fields) -> Option<[u64; 2]> {
    Some([row.count("machines")?, row.count("ranks_per_machine")?])
}

/// Returns the mean latency of `operation`. Simulated ones are of inserts.
fn mean_ns(run: &Run, row: &Fields, operation: &str) -> Option<f64> {
    if run.command == "bench-latency" {
        return (row.text("operation")? == operation).then(|| row.number("mean_ns")).flatten();
    }
    // A simulated row with a given C and load factor may also be a throughput.
    let is_insert = operation == "inserted" && row.text("workload").is_none();
    is_insert.then(|| row.number("mean_latency_ns")).flatten()
}

/// Returns the chunk READs that an insert waits for. A table whose CPU accesses all buckets itself has
/// none.
fn roundtrips(row: &Fields) -> Option<f64> {
    let insert = row.text("operation").unwrap_or("inserted") == "inserted";
    let count = row.number("effective_roundtrips").filter(|count| *count > 0.0)?;
    (insert && row.text("workload").is_none()).then_some(count)
}

/// Returns a chart of the histograms that `take` selects.
fn curves(
    id: &str,
    title: &str,
    take: impl Fn(&Run, &Fields) -> Option<Series> + 'static,
) -> Chart {
    const CAPTION: &str = "Nanoseconds. One operation at a time by rank 0, each timed individually. The first point is \
         the fastest operation, and the last one the slowest; latencies below the clock's \
         resolution are shown as 1 ns.";
    let (x, y) = (("share of operations that were faster", Kind::Nines), ("ns", Kind::Fitting));
    Chart::new([id, title, CAPTION], x, y, &["bench-latency"], move |run, row| {
        Some(Series { points: curve(row)?, ..take(run, row)? })
    })
}

/// Plots percentile curves, from the histograms of the runs.
fn distribution(runs: &[Run]) -> Chapter {
    /// Operations without a table that the chart shows, if they were measured.
    const ALONE: [&str; 6] =
        ["READ 8 B", "READ 64 B", "READ 4096 B", "WRITE 8 B", "CAS random word", "FAA random word"];
    let title = "One-sided operations without a table, on random words of the peer";
    let alone = curves("distribution-one-sided", title, |_, row| {
        let hue = row.text("operation").filter(|name| ALONE.contains(name))?.to_owned();
        Some(Series { hue, ..Series::default() })
    });
    let loads = shown_loads(runs);
    let operations = [("inserted", "an insert"), ("found", "a find-or-put that finds its key")];
    let of_table = operations.into_iter().flat_map(|(operation, what)| {
        loads.iter().map(move |&load| {
            let id = format!("distribution-{operation}-{:02.0}", load * 100.0);
            let title = format!("Latency of {what} at load factor {load}");
            curves(&id, &title, move |run, row| {
                let is = row.text("operation")? == operation && row.number("load_factor")? == load;
                is.then(|| run.chunk_buckets(row).map(|c| Series::with_chunk(c, Vec::new())))?
            })
        })
    });
    let lead = "Percentile curves: the further right, the rarer and the slower. Each further nine of \
                the share (0.9, 0.99, ...) takes the same width. A flat curve means that nearly all \
                operations take the same time. The load factor nearest to 0.5 and the highest one are \
                shown; the JSON files have all.";
    let charts = [alone].into_iter().chain(of_table);
    Chapter::new(["distribution", "Latency distributions", lead], runs, charts)
}

/// Returns the load factor with histograms that is nearest to the middle, and the highest one.
fn shown_loads(runs: &[Run]) -> Vec<f64> {
    const MIDDLE: f64 = 0.5;
    let rows = runs.iter().flat_map(|run| &run.rows);
    let of_table = rows.filter(|row| row.text("operation").is_some() && curve(row).is_some());
    let of_table = of_table.filter_map(|row| row.number("load_factor"));
    let mut all = distinct(of_table.filter(|load| (0.0..=1.0).contains(load)));
    all.sort_by(f64::total_cmp);
    let off = |load: &f64| (load - MIDDLE).abs();
    let middle = all.iter().copied().min_by(|one, other| off(one).total_cmp(&off(other)));
    // The names of the plots have whole percents.
    let percent = |load: f64| (load * 100.0).round();
    let last = all.last().filter(|&&last| middle.map(percent) != Some(percent(last)));
    middle.into_iter().chain(last.copied()).collect()
}

/// Returns the latencies of a histogram at some shares of operations that were faster: the fastest,
/// percentiles, and the slowest.
fn curve(row: &Fields) -> Option<Vec<[f64; 2]>> {
    let pairs = row.get("histogram")?.as_array()?;
    let pair = |pair: &Value| Some([pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?]);
    let pairs: Vec<[f64; 2]> = pairs.iter().filter_map(pair).filter(|[_, n]| *n > 0.0).collect();
    let total: f64 = pairs.iter().map(|[_, count]| count).sum();
    let slowest = 1.0 - 1.0 / total.max(1.0);
    let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999].into_iter().filter(|share| *share < slowest);
    let at = |share: f64| {
        let mut faster = share * total;
        let slower = pairs.iter().find(|[_, count]| {
            faster -= count;
            faster < 0.0
        });
        // The latency may be below the resolution of the clock. A logarithmic axis has no 0.
        slower.or(pairs.last()).map(|[ns, _]| [share, ns.max(1.0)])
    };
    shares.chain([slowest]).map(at).collect()
}

/// Parameters that vary with the number of ranks.
const AXES: [&str; 3] = ["ranks", "table_bytes", "buckets_per_rank"];

/// Returns a chart of a field by ranks, with a series for each combination of the texts `hue`.
fn by_ranks(
    texts: [&str; 3],
    (y, unit): ((&'static str, Kind), f64),
    commands: &'static [&'static str],
    field: &'static str,
    hue: &'static [&'static str],
) -> Chart {
    let chart = Chart::new(texts, ("ranks", Kind::Counts), y, commands, move |_, row| {
        let point = [row.number("ranks")?, row.number(field)? / unit];
        let texts: Option<Vec<String>> = hue.iter().map(|name| row.get(name).map(cell)).collect();
        Some(Series::of(texts?.join(", "), point))
    });
    chart.joining(&AXES)
}

/// Plots rates by ranks and by machines.
fn throughput(runs: &[Run]) -> Chapter {
    let find_or_puts = [
        "throughput",
        "Find-or-puts per second",
        "Million find-or-puts per second by all ranks at once, in a table that is empty at first; \
         the median of a run's repetitions, and of several runs of the same ranks.",
    ];
    let states = [
        "exploration",
        "States explored per second",
        "Million new states per second by all ranks at once, from the initial state to the last, \
         without the time to read the net.",
    ];
    let here = [
        by_ranks(
            find_or_puts,
            (MILLIONS, 1e6),
            &["bench-throughput"],
            "median_ops_per_s",
            &["workload"],
        ),
        by_ranks(states, (MILLIONS, 1e6), &["explore"], "states_per_s", &["model"]),
    ];
    let lead = "Operations per second of all ranks together, and of simulated clusters beside the paper's.";
    Chapter::new(
        ["throughput", "Throughput by ranks and machines", lead],
        runs,
        here.into_iter().chain(paper::throughputs()),
    )
}

/// Plots the map by mode and workload; queues, the integer sort and programs on shared pages by ranks.
fn programs(runs: &[Run]) -> Chapter {
    const QUEUE: &str = "Million 64-bit values per second by all ranks: all on one ring, or each rank on the ring of the \
                         next rank; the number is that of values per call.";
    let queue = |id, title, field| {
        let texts = [id, title, QUEUE];
        by_ranks(texts, (MILLIONS, 1e6), &["bench-queue"], field, &["rings", "batch"])
    };
    let sort = [
        "isx",
        "Integers sorted per second",
        "Million keys per second by all ranks together, as the benchmark ISx. Simulated time is that of sending the \
         keys.",
    ];
    let pages = [
        "dsm",
        "Speedup of programs on shared pages",
        "The time of the same program on the memory of one rank, divided by that of all ranks.",
    ];
    let counts = ["diffs", "messages", "waits"].map(|field| {
        let texts = [
            &*format!("dsm-{field}"),
            &format!("Programs on shared pages: {field} of a rank"),
            "Diffs are changed pages sent. The paper's are those of Noronha and Panda (2004), on 16 nodes: lu 1024, ocean \
             258, is 2^24, barnes 32,768.",
        ];
        let y = (field, Kind::Fitting);
        let chart = by_ranks(texts, (y, 1.0), &["dsm"], field, &["program", "protocol"]);
        if field == "diffs" { chart.with_paper_series(paper::diffs) } else { chart }
    });
    let y = ("speedup", Kind::Fitting);
    let charts = [
        map(),
        queue("queue-pushes", "Pushes to queues per second", "pushes_per_s"),
        queue("queue-pops", "Pops from queues per second", "pops_per_s"),
        by_ranks(sort, (MILLIONS, 1e6), &["isx"], "keys_per_s", &["carrier"]),
        by_ranks(pages, (y, 1.0), &["dsm"], "speedup", &["program", "protocol"]),
    ];
    let charts = charts.into_iter().chain(counts);
    Chapter::new(["programs", "The map, queues and programs", ""], runs, charts)
}

/// Returns a chart of gets and puts of the map, for each way to keep writers apart.
fn map() -> Chart {
    let texts = [
        "map-workload",
        "Gets and puts per second by workload",
        "Million operations per second by all ranks at once, keys of 80 and values of 104 bytes; \
         the median of a run's repetitions.",
    ];
    Chart::new(texts, MILLIONS, NAMES, &["bench-map"], |_, row| {
        let rate = row.number("median_ops_per_s").filter(|rate| *rate > 0.0)? / 1e6;
        let keys = row.text("keys").map(|keys| format!(" {keys}"));
        let load = row.number("load_factor").map(|load| format!(", load {load:.2}"));
        let ranks = row.count("ranks").map(|ranks| format!(", {}", ranks_name(ranks)));
        let [keys, load, ranks] = [keys, load, ranks].map(Option::unwrap_or_default);
        let name = format!("{}{keys}{load}{ranks}", row.text("workload")?);
        // The CPU runs the requests itself.
        let direct = if row.text("path") == Some("direct") { ", direct" } else { "" };
        Some(Series::named(name, format!("{}{direct}", row.text("mode")?), rate))
    })
}

#[cfg(test)]
mod tests {
    use probeline_profile::paper::{self, Latency as Figure};
    use serde_json::json;

    use super::*;
    use crate::plot::Plot;
    use crate::run::made_up;

    fn run(command: &str, number: usize, parameters: Value, rows: Value) -> Run {
        let run = json!({
            "schema": 1, "command": command, "parameters": parameters, "rows": rows,
        });
        made_up(&run, number)
    }

    fn plots(runs: &[Run]) -> Vec<Plot> {
        all(runs).into_iter().flat_map(|chapter| chapter.plots).collect()
    }

    fn plot<'p>(plots: &'p [Plot], id: &str) -> &'p Plot {
        plots.iter().find(|plot| plot.id == id).unwrap_or_else(|| panic!("{id}"))
    }

    fn rate(number: usize, transport: &str, ranks: u32, batch: u32, per_s: f64) -> Run {
        let row = json!({ "workload": "mixed", "ranks": ranks, "median_ops_per_s": per_s });
        let parameters = json!({
            "transport": transport, "ranks": ranks, "table_bytes": u64::from(ranks) << 20,
            "batch": batch, "chunk_buckets": 8,
        });
        run("bench-throughput", number, parameters, json!([row]))
    }

    /// Other programs, mixes of a map, and single points.
    #[test]
    fn names_rows_without_axis() {
        let peer = |system: &str, times: f64| json!({ "measured": "sort", "system": system, "times_probeline": times });
        let peers = json!([peer("probeline", 1.0), peer("other", 2.5)]);
        let map = json!([{
            "mode": "claims", "workload": "read", "keys": "uniform", "ranks": 2,
            "load_factor": 0.5, "median_ops_per_s": 4e6,
        }]);
        let rates = [rate(1, "shm", 2, 64, 3e6), rate(2, "verbs", 2, 64, 1e6)];
        let in_mix = "read uniform, load 0.50, 2 ranks";
        let of = |command, rows| vec![run(command, 1, json!({}), rows)];
        for (runs, id, form, label, point) in [
            (of("bench-peers", peers), "peers", Form::Bars, "sort: other", [2.5, 0.0]),
            (of("bench-map", map), "map-workload", Form::Dots, in_mix, [4.0, 0.0]),
            (rates.into(), "throughput", Form::Bars, "mixed, verbs, 2 ranks", [1.0, 1.0]),
        ] {
            let plots = plots(&runs);
            let plot = plot(&plots, id);
            let [.., last] = &plot.series[..] else { panic!("{id}") };
            assert_eq!((plot.form, &last.points[..]), (form, &[point][..]), "{id}");
            assert_eq!(plot.y.ticks.last().unwrap().1, label);
        }
    }

    #[test]
    fn ranks_alone_share_one_series() {
        let plots = plots(&[
            rate(1, "shm", 4, 64, 30e6),
            rate(2, "shm", 1, 64, 10e6),
            rate(3, "shm", 4, 64, 34e6),
            rate(4, "shm", 4, 64, 35e6),
            rate(5, "verbs", 2, 64, 1e6),
            rate(6, "shm", 2, 1, 5e6),
        ]);
        let [batched, verbs, blocking] = &plot(&plots, "throughput").series[..] else {
            panic!("{plots:?}")
        };
        assert_eq!((&*batched.line, &*blocking.line), ("shm, batch 64", "shm, batch 1"));
        // The median of three.
        assert_eq!(batched.points, [[1.0, 10.0], [4.0, 34.0]]);
        assert_eq!(verbs.line, "verbs");
    }

    fn inserts(loads: &[f64]) -> Run {
        let histogram = json!([[0, 0], [100, 6_000], [200, 3_990], [9_000, 9], [9_999, 1]]);
        let row = |load: &f64| {
            json!({
                "operation": "inserted", "chunk_buckets": 8, "load_factor": load,
                "histogram": histogram,
            })
        };
        let rows: Vec<Value> = loads.iter().map(row).collect();
        run("bench-latency", 1, json!({ "transport": "shm" }), Value::from(rows))
    }

    #[test]
    fn curve_spans_fastest_to_slowest() {
        let points = curve(&inserts(&[0.5]).rows[0]).unwrap();
        let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];
        let latencies = [100.0, 100.0, 200.0, 200.0, 9_000.0, 9_999.0];
        assert_eq!(points, [0, 1, 2, 3, 4, 5].map(|at| [shares[at], latencies[at]]));
        let same = run("x", 1, json!({}), json!([{ "histogram": [[7, 1_000]] }]));
        assert_eq!(curve(&same.rows[0]).unwrap().last(), Some(&[0.999, 7.0]));
    }

    #[test]
    fn plots_middle_and_highest_load() {
        for (loads, ids) in [
            (
                &[0.1, 0.4, 0.7, 0.9][..],
                &["distribution-inserted-40", "distribution-inserted-90"][..],
            ),
            (&[0.501, 0.504], &["distribution-inserted-50"]),
            (&[1e30, -1.0], &[]),
        ] {
            let plots = plots(&[inserts(loads)]);
            assert_eq!(plots.iter().map(|plot| plot.id.as_str()).collect::<Vec<_>>(), ids);
        }
    }

    #[test]
    fn compares_latencies_by_machine_count() {
        let row = |figure: &Figure| {
            json!({
                "operation": "inserted", "chunk_buckets": figure.chunk_buckets,
                "load_factor": figure.load_factor(), "mean_ns": figure.local_ns,
                "effective_roundtrips": figure.effective_roundtrips,
            })
        };
        let rows = Value::from(paper::latencies().iter().map(row).collect::<Vec<_>>());
        let lines = |plot: &Plot| -> Vec<String> {
            let lines = distinct(plot.series.iter().map(|series| series.line.clone()));
            lines.into_iter().filter(|line| line.starts_with("paper")).collect()
        };
        let (local, remote) = ("paper, 1 machine", "paper, 2 machines");
        for (transport, machines) in [("shm", local), ("sim", remote)] {
            let parameters = json!({ "transport": transport });
            let plots = plots(&[run("bench-latency", 1, parameters, rows.clone())]);
            for (id, line) in [("latency-inserted", machines), ("roundtrips-effective", remote)] {
                let plot = plot(&plots, id);
                assert_eq!(lines(plot), [line], "{id}");
                assert_eq!(plot.series.len(), 2 * 5, "{id}");
                assert!(plot.series.iter().all(|series| series.points.len() == 46), "{id}");
            }
        }
        let row = |machines: u64| {
            json!({
                "experiment": "latency", "machines": machines, "ranks_per_machine": 2 / machines,
                "chunk_buckets": 32, "load_factor": 0.5, "mean_latency_ns": 3e3,
            })
        };
        let simulated = json!([row(1), row(2)]);
        let plots = plots(&[run("simulate", 1, json!({ "profile": "das5-fdr" }), simulated)]);
        assert_eq!(lines(plot(&plots, "latency-inserted")), [local, remote]);
    }

    #[test]
    fn truncates_simulated_clusters_on_request() {
        let rows = json!([{
            "experiment": "throughput", "machines": 2, "ranks_per_machine": 16, "workload": "mixed",
            "chunk_buckets": 32, "ops_per_s": 9e6, "truncated_ops_per_s": 10e6,
        }]);
        for (truncate, millions) in [(true, 10.0), (false, 9.0)] {
            let parameters = json!({ "profile": "das5-fdr", "truncate_us": truncate });
            let plots = plots(&[run("simulate", 1, parameters, rows.clone())]);
            let [here, paper] = &plot(&plots, "paper-throughput-mixed").series[..] else {
                panic!("{plots:?}")
            };
            assert_eq!(here.points, [[2.0, millions]]);
            assert!(paper.points.iter().any(|[x, y]| *x == 48.0 && (y - 114.85).abs() < 0.01));
        }
    }
}
