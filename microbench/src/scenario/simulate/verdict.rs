//! What a report says below its table.

use profile::{Kind, Profile};
use simulate::Way;

use super::SimulateArgs;
use super::row::SimulateRow;

/// The network of the paper's figures; C, M and the filling, in hundredths, of its throughputs, and M
/// of its latencies.
const PROFILE: &str = "das5-fdr";
const PARAMETERS: (u32, u32, u32) = (32, 64, 1);
/// What the paper's figures are to be met within (ratios off 1).
const LATENCY: f64 = 0.05;
const ROUNDTRIPS: f64 = 0.02;
const THROUGHPUT: f64 = 0.15;
/// The most misses that are named.
const MOST_NAMED: usize = 12;

pub(super) fn notes(args: &SimulateArgs, profile: &Profile, rows: &[SimulateRow]) -> Vec<String> {
    let mut notes = vec![
        "Virtual time: the table is the real one over the simulator's transport, and what operations \
         take is the profile's. out: chunk READs posted; eff: waited for. M op/s: find-or-puts a \
         second, the sum over the ranks; limit: which of the profile's limits is met, being used to 90 % \
         or more, or none, and then the nearest and how much of it is used; what is waited for where \
         none is met are roundtrips."
            .to_owned(),
    ];
    if matches!(args.way(), Way::Beyond(_)) {
        notes.push(
            "C: the most, of which each operation chooses its own; of latencies that are the same with \
             several, beside the same figure of the paper, those with the least are printed. mean C: \
             what a READ brought."
                .to_owned(),
        );
    }
    if matches!(args.way(), Way::Tuned(_)) {
        notes.push(
            "tuned: the tuning's table. What a CPU would do itself it does by READs and claims here, \
             so that the tuning's direct is without effect; of latencies, which are of blocking \
             calls, so is what it has in flight."
                .to_owned(),
        );
    }
    if args.tuned.as_ref().is_some_and(|tuned| tuned.direct) {
        notes.push(
            "direct = true: the tuning was found where the CPU does all itself, so that nothing chose \
             its C, M, read-ahead and one-roundtrip inserts, which are without effect there and have \
             one here. For a tuning of READs: probeline tune --direct off, or probeline tune \
             --transport sim --sim-profile P."
                .to_owned(),
        );
    }
    if args.truncates() {
        notes.push(
            "cut: as the program of the paper's authors adds times up, each operation cut to whole \
             microseconds; M op/s is the true throughput beside it, without that."
                .to_owned(),
        );
    }
    let names = |kind: Kind| {
        let of = profile.given().filter(|(_, given)| given.kind == kind);
        of.map(|(quantity, _)| quantity.name).collect::<Vec<_>>().join(", ")
    };
    for kind in [Kind::Fitted, Kind::Measured, Kind::Published, Kind::Assumed] {
        let names = names(kind);
        if !names.is_empty() {
            notes.push(format!("{kind}: {names}."));
        }
    }
    let absent: Vec<_> = profile::QUANTITIES
        .iter()
        .filter(|quantity| profile.get(quantity.name).is_none())
        .map(|quantity| quantity.name)
        .collect();
    if !absent.is_empty() {
        notes.push(format!("No source gives, so without effect here: {}.", absent.join(", ")));
    }
    if of_the_papers(args, profile) {
        let latencies = rows.iter().filter(|row| row.experiment == "latency");
        for (machines, name) in [(2, "two machines"), (1, "one machine")] {
            let of = latencies.clone().filter(|row| row.machines == machines);
            let what = format!("mean latency, {name}");
            notes.extend(summary(&what, LATENCY, of, |row| row.by_paper));
        }
        notes.extend(summary("roundtrips", ROUNDTRIPS, latencies, |row| row.roundtrips_by_paper));
        for workload in ["mixed", "read-intensive", "write-intensive"] {
            for (runs, name) in [(3, "means of three runs"), (1, "single runs")] {
                let of = rows
                    .iter()
                    .filter(|row| row.workload == Some(workload) && row.paper_runs == Some(runs));
                let what = format!("throughput, {workload}, {name} by the authors");
                notes.extend(summary(&what, THROUGHPUT, of, |row| row.by_paper));
            }
        }
    }
    notes.extend(spared(rows));
    notes.extend(full(args, rows));
    notes.extend(rows.iter().filter(|_| args.way() != Way::Paper).filter_map(beyond));
    notes
}

/// Whether it is the paper's cluster, and what the paper's authors ran there: how near the model is
/// says nothing of other networks and parameters.
pub(super) fn of_the_papers(args: &SimulateArgs, profile: &Profile) -> bool {
    let given = (args.throughput_chunk_buckets, args.max_chunks, args.filled);
    profile.name() == PROFILE
        && profile.given().all(|(_, given)| given.kind != Kind::Assumed)
        && args.way() == Way::Paper
        && given == PARAMETERS
}

/// How many of the figures are near enough, and which are not.
fn summary<'r>(
    what: &str,
    within: f64,
    rows: impl Iterator<Item = &'r SimulateRow>,
    ratio: fn(&SimulateRow) -> Option<f64>,
) -> Option<String> {
    let ratios: Vec<_> = rows.filter_map(|row| Some((row, ratio(row)?))).collect();
    let least = ratios.iter().map(|(_, ratio)| *ratio).reduce(f64::min)?;
    let most = ratios.iter().map(|(_, ratio)| *ratio).reduce(f64::max)?;
    let off = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let missed: Vec<_> = ratios.iter().filter(|(_, ratio)| (ratio - 1.0).abs() > within).collect();
    let named = missed.iter().take(MOST_NAMED).map(|(row, ratio)| row.place(*ratio));
    let mut note = format!(
        "{what}: model by paper {} to {}; {} of {} figures within {:.0} %",
        off(least),
        off(most),
        ratios.len() - missed.len(),
        ratios.len(),
        within * 100.0
    );
    if !missed.is_empty() {
        note += &format!(", not: {}", named.collect::<Vec<_>>().join(", "));
    }
    if missed.len() > MOST_NAMED {
        note += " and others";
    }
    Some(note + ".")
}

/// Where inserts take two roundtrips because a NIC has too few atomics for one.
fn spared(rows: &[SimulateRow]) -> Option<String> {
    let mut places: Vec<_> = rows
        .iter()
        .filter(|row| row.spares_claims)
        .map(|row| format!("{} x {}", row.machines, row.ranks_per_machine))
        .collect();
    places.dedup();
    (!places.is_empty()).then(|| {
        format!(
            "--one-roundtrip auto: off of throughputs on {}, where NICs take fewer atomics than ranks \
             have roundtrips for; on has a claim along with each first READ all the same.",
            places.join(", ")
        )
    })
}

/// Where M chunks had no room, which the means tell nothing of.
fn full(args: &SimulateArgs, rows: &[SimulateRow]) -> Option<String> {
    let full: Vec<_> = rows.iter().filter(|row| row.full_share() > 0.0).collect();
    let place =
        |row: &&SimulateRow| format!("{} {:.1} %", row.cells_name(), row.full_share() * 100.0);
    let mut places = full.iter().take(MOST_NAMED).map(place).collect::<Vec<_>>().join(", ");
    if full.len() > MOST_NAMED {
        places += " and others";
    }
    (!full.is_empty()).then(|| {
        format!(
            "full: of latencies, operations that found no room within M = {} chunks and are in the \
             means: {places}. Give a larger -M.",
            args.max_chunks
        )
    })
}

fn beyond(row: &SimulateRow) -> Option<String> {
    let (workload, ops_per_s, paper) = (row.workload?, row.ops_per_s?, row.paper_ops_per_s?);
    let verdict = row.verdict();
    Some(format!(
        "{workload} on {} machines of {} ranks: {:.1} M op/s, {:.2} times the paper's {:.2}. {verdict}; \
         a machine's NIC has {:.2} M READs and {:.2} M atomics a second.",
        row.machines,
        row.ranks_per_machine,
        ops_per_s / 1e6,
        ops_per_s / paper,
        paper / 1e6,
        row.nic_reads_per_s? / 1e6,
        row.nic_atomics_per_s? / 1e6,
    ))
}

impl SimulateRow {
    fn place(&self, ratio: f64) -> String {
        let off = format!("{:+.1} %", (ratio - 1.0) * 100.0);
        match self.workload {
            Some(_) => format!("{} x {} {off}", self.machines, self.ranks_per_machine),
            None => format!("{} {off}", self.cells_name()),
        }
    }
}
