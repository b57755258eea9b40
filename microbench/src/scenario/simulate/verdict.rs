//! The summary and the notes of a report.

use probeline_profile::{Kind, Profile};
use probeline_report::distinct;

use super::SimulateArgs;
use super::row::SimulateRow;
use crate::options::Options;
use crate::run_report::some_of;
use crate::units::{rate, time};

/// The profile of the paper's network; then C, M and the initial load factor, in percent, of the
/// paper's throughputs, and M of its latencies.
const PROFILE: &str = "das5-fdr";
const PARAMETERS: (u32, u32, u32) = (32, 64, 1);
const LATENCY: f64 = 0.05;
const ROUNDTRIPS: f64 = 0.02;
const THROUGHPUT: f64 = 0.15;
const MAX_NAMED: usize = 3;
/// The smallest share of the paper's throughput at which a line quotes the paper's.
const COMPARABLE: f64 = 0.1;
/// The maximum number of lines of the summary, and of rows of each kind that it quotes.
const MAX_LINES: usize = 12;
const MAX_QUOTED: usize = 6;

/// Reports how close the model is to the paper's figures, if the cluster is the paper's; then the
/// simulated rows.
pub(super) fn summary(args: &SimulateArgs, profile: &Profile, rows: &[SimulateRow]) -> Vec<String> {
    let title = format!("simulate: {}, virtual time", profile.name());
    let fits = if is_papers_setup(args, profile) { fits(rows) } else { Vec::new() };
    let (latencies, throughputs): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.workload.is_none());
    let latencies: Vec<_> = latencies.into_iter().filter(|row| !row.is_detail(rows)).collect();
    let quoted = [some_of(&throughputs, MAX_QUOTED), some_of(&latencies, MAX_QUOTED)].concat();
    let fits = fits.into_iter().map(|(line, _)| line);
    let lines = [title].into_iter().chain(fits).chain(quoted.into_iter().map(SimulateRow::line));
    lines.take(MAX_LINES).collect()
}

pub(super) fn notes(args: &SimulateArgs, profile: &Profile, rows: &[SimulateRow]) -> Vec<String> {
    let mut notes = vec![numbers(profile)];
    let mut add = |note: &str| notes.push(note.to_owned());
    if Options::given().tuning.is_some() {
        add(
            "tuned: READs and claims alone; where direct = true, nothing chose C, M and read-ahead",
        );
    }
    if args.truncates() {
        add("cut M op/s: operations truncated to whole microseconds, as in the authors' program");
    }
    if is_papers_setup(args, profile) {
        notes.extend(fits(rows).into_iter().filter_map(|(_, missed)| missed));
    }
    notes.extend(bounds(rows));
    notes.extend(full(args, rows));
    notes
}

fn numbers(profile: &Profile) -> String {
    let kinds = [Kind::Fitted, Kind::Measured, Kind::Published, Kind::Assumed];
    let count = |kind: &Kind| profile.given().filter(|(_, given)| given.kind == *kind).count();
    let given = kinds.iter().map(|kind| (kind, count(kind))).filter(|(_, count)| *count > 0);
    let given: Vec<_> = given.map(|(kind, count)| format!("{count} {kind}")).collect();
    format!(
        "numbers: {}; --full prints the sources; other numbers have no effect",
        given.join(", ")
    )
}

/// A line on how close the model is, and which figures it misses.
type Fit = (String, Option<String>);

fn fits(rows: &[SimulateRow]) -> Vec<Fit> {
    let mut fits = Vec::new();
    let latencies = rows.iter().filter(|row| row.experiment == "latency");
    for (machines, name) in [(2, "two machines"), (1, "one machine")] {
        let of = latencies.clone().filter(|row| row.machines == machines);
        let what = format!("mean latency, {name}");
        fits.extend(fit(&what, LATENCY, of, |row| row.by_paper));
    }
    fits.extend(fit("roundtrips", ROUNDTRIPS, latencies, |row| row.roundtrips_by_paper));
    for workload in ["mixed", "read-intensive", "write-intensive"] {
        for (runs, name) in [(3, "three runs"), (1, "single runs")] {
            let of = rows.iter().filter(|row| {
                row.workload.as_deref() == Some(workload) && row.paper_runs == Some(runs)
            });
            let what = format!("{workload}, {name}");
            fits.extend(fit(&what, THROUGHPUT, of, |row| row.by_paper));
        }
    }
    fits
}

/// Returns whether the cluster and the parameters are the paper's. For other ones, the deviation
/// from the paper's figures is meaningless.
pub(super) fn is_papers_setup(args: &SimulateArgs, profile: &Profile) -> bool {
    let given = (args.throughput_chunk_buckets, args.max_chunks, args.throughput_load_factor);
    profile.name() == PROFILE
        && profile.given().all(|(_, given)| given.kind != Kind::Assumed)
        && args.is_paper()
        && given == PARAMETERS
}

fn fit<'r>(
    what: &str,
    within: f64,
    rows: impl Iterator<Item = &'r SimulateRow>,
    ratio: fn(&SimulateRow) -> Option<f64>,
) -> Option<Fit> {
    let ratios: Vec<_> = rows.filter_map(|row| Some((row, ratio(row)?))).collect();
    let least = ratios.iter().map(|(_, ratio)| *ratio).reduce(f64::min)?;
    let most = ratios.iter().map(|(_, ratio)| *ratio).reduce(f64::max)?;
    let off = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let missed: Vec<_> = ratios.iter().filter(|(_, ratio)| (ratio - 1.0).abs() > within).collect();
    let line = format!(
        "{what}: model by paper {} to {}; {} of {} figures within {:.0} %",
        off(least),
        off(most),
        ratios.len() - missed.len(),
        ratios.len(),
        within * 100.0
    );
    let places = named(missed.iter().map(|(row, ratio)| row.place(*ratio)));
    let missed = (!missed.is_empty()).then(|| format!("missed: {what}: {places}"));
    Some((line, missed))
}

fn named(places: impl ExactSizeIterator<Item = String>) -> String {
    let others = places.len().saturating_sub(MAX_NAMED);
    let named = places.take(MAX_NAMED).collect::<Vec<_>>().join(", ");
    if others > 0 { format!("{named} and {others} others") } else { named }
}

/// Names the resources that set the bounds of throughputs.
fn bounds(rows: &[SimulateRow]) -> Option<String> {
    let names = distinct(rows.iter().filter_map(|row| row.bound.as_deref()));
    (!names.is_empty()).then(|| format!("bound by: {}", names.join("; ")))
}

/// Names the rows where operations found no room within M chunks, which mean values do not show.
fn full(args: &SimulateArgs, rows: &[SimulateRow]) -> Option<String> {
    let full: Vec<_> = rows.iter().filter(|row| row.full_share() > 0.0).collect();
    let place =
        |row: &&SimulateRow| format!("{} {:.1} %", row.cells_name(), row.full_share() * 100.0);
    let places = named(full.iter().map(place));
    let most = args.max_chunks;
    (!full.is_empty())
        .then(|| format!("no room: within M = {most}, counted in the means: {places}"))
}

impl SimulateRow {
    fn line(&self) -> String {
        let cluster = self.cluster();
        let Some((workload, ops_per_s)) = self.workload.as_ref().zip(self.ops_per_s) else {
            let paper = self.paper_mean_latency_ns.map(|ns| format!(", the paper's {}", time(ns)));
            let paper = paper.unwrap_or_default();
            return format!(
                "insert on {cluster}, {}: {}{paper}",
                self.cells_name(),
                time(self.mean_latency_ns)
            );
        };
        let paper = self
            .paper_ops_per_s
            .filter(|paper| ops_per_s / paper >= COMPARABLE)
            .map(|paper| format!(", {:.2} x the paper's {}", ops_per_s / paper, rate(paper)));
        let (paper, limit) = (paper.unwrap_or_default(), self.verdict());
        format!("{workload} on {cluster}: {}{paper}; {limit}", rate(ops_per_s))
    }

    fn place(&self, ratio: f64) -> String {
        let off = format!("{:+.1} %", (ratio - 1.0) * 100.0);
        match self.workload {
            Some(_) => format!("{} x {} {off}", self.machines, self.ranks_per_machine),
            None => format!("{} {off}", self.cells_name()),
        }
    }
}
