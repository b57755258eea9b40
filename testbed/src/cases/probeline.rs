//! The command `probeline` over verbs, as its users run it.

use anyhow::{Context, Result, bail, ensure};

use super::PROBELINE;
use super::ranks::{JOB_TIMEOUT, Ranks, command};
use crate::case::{Case, Layer};
use crate::programs::program;
use crate::testbed::Testbed;

/// The latency of a find-or-put that ends in its first chunk is at most this multiple of its floor:
/// one READ, or a READ and a compare-and-swap.
const MAX_FLOOR_RATIO: f64 = 1.15;

/// Two machines on a busy host may be silent for seconds: with timeout 19 requests are sent for 15 s.
const OVER_VERBS: &str = "--transport verbs --allow-remote --pin none --qp-timeout 19";

/// States, and arcs, as the Model Checking Contest publishes them.
pub(super) const FMS_2: [&str; 2] = ["3444", "16311"];
pub(super) const PHILOSOPHERS_7: [&str; 1] = ["2187"];

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Loopback, "bench_throughput_runs", throughput).needs(PROBELINE),
    Case::test(Layer::Two, "explore_on_two_machines", |testbed| {
        check_exploration(&explore(testbed, "fms:2")?, &FMS_2)?;
        check_exploration(&explore(testbed, "philosophers:7")?, &PHILOSOPHERS_7)
    })
    .needs(PROBELINE),
    Case::test(Layer::Two, "roundtrips_equal_those_of_the_simulator", roundtrips).needs(PROBELINE),
    Case::test(Layer::Two, "bench_latency_on_two_nodes", two_nodes).needs(PROBELINE),
    Case::test(Layer::Two, "bench_map_on_two_machines", bench_map).needs(PROBELINE),
    Case::test(Layer::Two, "kmers_and_contigs_on_two_machines", kmers).needs(PROBELINE),
    Case::test(Layer::Two, "isx_and_bale_on_two_machines", |testbed| {
        programs_print(testbed, ISX_AND_BALE)
    })
    .needs(PROBELINE),
    Case::test(Layer::Two, "dsm_on_two_machines", |testbed| programs_print(testbed, DSM))
        .needs(PROBELINE),
    Case::test(Layer::Two, "surrogate_on_two_machines", surrogate).needs(PROBELINE),
    Case::test(Layer::Icount, "find_or_put_is_near_its_floor", near_the_floor).needs(PROBELINE),
    Case::test(Layer::Two, "tune_over_soft_roce", |testbed| {
        // Enough rounds for a check that the command works.
        tune(testbed, "--rounds 1 --ops 100 --in-flight 4")
    })
    .needs(PROBELINE),
];

fn explore(testbed: &Testbed, model: &str) -> Result<String> {
    let arguments = format!("explore {model} {OVER_VERBS}");
    Ranks::start(testbed, "probeline", 2, &arguments)?.finish()
}

/// Checks that the row of a model starts with these figures, after its name and number of ranks.
pub(super) fn check_exploration(output: &str, figures: &[&str]) -> Result<()> {
    let mut rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = rows.any(|row| row.windows(figures.len()).any(|cells| cells == figures));
    ensure!(found, "no {figures:?} in: {output}");
    Ok(())
}

fn throughput(testbed: &Testbed) -> Result<()> {
    let arguments =
        "bench-throughput --transport verbs --table-size 1MiB --ops 2000 --rounds 1 --pin none";
    let output = testbed.machine(1).output(&command("probeline", arguments)?, JOB_TIMEOUT)?;
    ensure!(output.contains("zipf"), "{output}");
    Ok(())
}

/// Checks that the counts of roundtrips over verbs equal those in the simulator, which follow from the
/// keys, in a table that is small enough for a virtual machine.
fn roundtrips(testbed: &Testbed) -> Result<()> {
    let arguments = "roundtrips --full --table-size 32KiB -C 8,32,128";
    let verbs = format!("{arguments} {OVER_VERBS}");
    let verbs = Ranks::start(testbed, "probeline", 2, &verbs)?.finish()?;
    let sim = command("probeline", &format!("{arguments} --transport sim --ranks 2"))?;
    let sim = testbed.machine(1).output(&sim, JOB_TIMEOUT)?;
    let (verbs, sim) = (table_rows(&verbs), table_rows(&sim));
    println!("{} rows", verbs.len());
    ensure!(verbs.len() > 100 && verbs == sim, "{verbs:?}\n{sim:?}");
    Ok(())
}

/// Returns the rows of the report's table: six numbers each.
fn table_rows(output: &str) -> Vec<Vec<&str>> {
    let rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() == 6 && row.iter().all(|cell| cell.parse::<f64>().is_ok()))
        .collect()
}

/// Measures the map in each mode, which checks every value that a get returns. All gets hit.
fn bench_map(testbed: &Testbed) -> Result<()> {
    let options =
        "--table-size 128KiB --ops 64 --rounds 1 --batch 32 --key-distribution uniform --full";
    let arguments = format!("bench-map {options} {OVER_VERBS}");
    let output = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    let (summary, _) = output.split_once("\n\n").context("no summary")?;
    println!("{summary}");
    for mode in ["claims", "part-locks", "bucket-locks", "unlocked"] {
        let rows = output.lines().filter(|line| line.split_whitespace().next() == Some(mode));
        let read = rows.filter(|row| row.contains(" read ") && row.contains('%')).count();
        ensure!(read == 1, "no row of gets by {mode}: {output}");
    }
    Ok(())
}

/// Counts the k-mers of a file that both machines share, and finds its unitigs. Each machine has the counters of a
/// part.
fn kmers(testbed: &Testbed) -> Result<()> {
    let bases = "GATTACAGATTACAGGCCTTAAGGACGTACGTTTTTTTTTTTTTTTTTTACC";
    let file = format!("for i in $(seq 400); do echo '>read'; echo {bases}; done >$SHARE/reads.fa");
    testbed.machine(1).output(&file, JOB_TIMEOUT)?;
    let options = format!("-k 16 --table-size 64KiB {OVER_VERBS}");
    let arguments = format!("kmers $SHARE/reads.fa {options} --out $SHARE/kmers.txt");
    let output = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    ensure!(output.contains("16-mers of 14,800 in"), "{output}");
    let lines = testbed.machine(1).output("sort $SHARE/kmers.txt | head -1", JOB_TIMEOUT)?;
    ensure!(lines.trim() == "AAAAAAAAAAAAAAAA\t1200", "{lines}");
    let arguments = format!("contigs $SHARE/reads.fa {}", options.replace("16", "17"));
    let output = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    ensure!(output.contains("3 unitigs of 35 17-mers"), "{output}");
    Ok(())
}

/// Runs programs on both machines, each of which verifies its results and then prints a text.
fn programs_print(testbed: &Testbed, rows: &[(&str, &str)]) -> Result<()> {
    for (arguments, expected) in rows {
        let arguments = format!("{arguments} {OVER_VERBS}");
        let output = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
        ensure!(output.contains(expected), "{arguments}: {output}");
    }
    Ok(())
}

const ISX_AND_BALE: &[(&str, &str)] = &[
    ("isx --keys 20000", "40,000 keys sorted"),
    ("isx --keys 2000 --carrier queues", "4,000 keys sorted"),
    ("bale histogram --size 100 --ops 500", "1,000 operations"),
    ("bale index-gather --size 100 --ops 2000 --aggregated", "4,000 operations"),
    ("bale randperm --size 200", VERIFIED),
    ("bale toposort --size 60 --degree 4 --aggregated", VERIFIED),
    ("bale triangles --kron 1:3x4x5", "287 triangles"),
    ("bale triangles --kron 1:3x4x5 --aggregated", "287 triangles"),
];

const DSM: &[(&str, &str)] = &[
    ("dsm is --class s", VERIFIED),
    ("dsm lu --side 64 --in-rows", VERIFIED),
    ("dsm ocean --side 34 --page-size 512", VERIFIED),
    ("dsm barnes --bodies 100", VERIFIED),
    ("dsm lu --side 32 --in-rows --protocol pipe", VERIFIED),
];

const VERIFIED: &str = "the result was verified";

/// Simulates with a cache over both machines, whose results both use.
fn surrogate(testbed: &Testbed) -> Result<()> {
    let options = "--rows 8 --columns 20 --steps 10 --digits 4 --table-size 256KiB";
    let arguments = format!("surrogate {options} {OVER_VERBS}");
    let output = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    let row = output.lines().rfind(|line| line.trim_start().starts_with("4 "));
    let row = row.with_context(|| format!("no row of 4 digits: {output}"))?;
    println!("{row}");
    let share = row.split_whitespace().nth(1).and_then(|share| share.strip_suffix('%'));
    let share: f64 = share.context("no hit rate")?.parse()?;
    ensure!(share > 50.0, "{share} % of the results were found: {output}");
    Ok(())
}

/// Runs `bench-latency --two-nodes` on the first node, and the command that it prints on the second.
/// The first node's JSON has the doctor's findings there.
fn two_nodes(testbed: &Testbed) -> Result<()> {
    let (first, second) = (testbed.machine(1), testbed.machine(2));
    let program = program("probeline")?;
    let options = "--table-size 128KiB -C 8,64 --load-factor 0.1,0.5 --ops 200 --pin none";
    let files = "--full --json $SHARE/two.json";
    let command = format!("{program} bench-latency --two-nodes {options} {files}");
    let started = first.start(&command, JOB_TIMEOUT)?;
    let printed = started.wait_for_line("PROBELINE_SECRET=")?;
    let joined = second.output(printed.trim(), JOB_TIMEOUT)?;
    ensure!(joined.contains("prints the report"), "{joined}");
    let report = started.wait()?.success()?;
    let json = first.output("tr -d '\\n ' <$SHARE/two.json", JOB_TIMEOUT)?;
    check_findings(&json)?;
    has_operations(&report)?;
    floor_ratios(&report)?.iter().for_each(|row| println!("{row}"));
    Ok(())
}

/// Checks that the report of `bench-latency` has a row for each operation, and prints the rows.
pub(super) fn has_operations(report: &str) -> Result<()> {
    println!();
    for name in ["READ 8 B", "READ 4096 B", "WRITE 4096 B", "CAS", "FAA", "inserted", "found"] {
        let row = report.lines().find(|line| line.trim_start().starts_with(name));
        println!("{}", row.with_context(|| format!("no row {name} in: {report}"))?);
    }
    Ok(())
}

/// Checks that the JSON has the doctor's findings on the first node and its device.
fn check_findings(json: &str) -> Result<()> {
    let (_, doctor) = json.split_once(r#""doctor":["#).unwrap_or_default();
    let tried = r#"{"check":"atomics-tried","subject":"rxe0","verdict":"fine""#;
    let memory = r#"{"check":"locked-memory","subject":"machine","#;
    let complete = [tried, memory].iter().all(|part| doctor.contains(part));
    ensure!(complete && json.contains(r#""host":"node1""#), "findings: {json}");
    Ok(())
}

/// Checks that a find-or-put that ends in its first chunk takes little longer than its READ and
/// claim.
fn near_the_floor(testbed: &Testbed) -> Result<()> {
    let options = "--table-size 256KiB -C 32,64,128 --load-factor 0.1,0.3 --ops 200 --pin none";
    let features = "--direct off --one-roundtrip off";
    let arguments = format!("bench-latency --full --transport verbs {options} {features}");
    let report = testbed.machine(1).output(&command("probeline", &arguments)?, JOB_TIMEOUT)?;
    let rows = floor_ratios(&report)?;
    println!();
    rows.iter().for_each(|row| println!("{row}"));
    for row in &rows {
        ensure!(row.ratio <= MAX_FLOOR_RATIO, "{row} is more than {MAX_FLOOR_RATIO}");
    }
    Ok(())
}

/// A row of find-or-put in the report of `bench-latency`.
struct FloorRatio {
    operation: String,
    chunk_buckets: u32,
    load_factor: f64,
    ratio: f64,
}

impl core::fmt::Display for FloorRatio {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { operation, chunk_buckets, load_factor, ratio } = self;
        write!(f, "{operation}, C = {chunk_buckets}, load factor {load_factor}: {ratio:.3} floors")
    }
}

/// Parses the rows: operation, C, load factor, seven figures, max, floor and ratio to the floor.
fn floor_ratios(report: &str) -> Result<Vec<FloorRatio>> {
    let rows = report.lines().filter_map(|line| {
        let cells: Vec<_> = line.split_whitespace().collect();
        let (&operation, figures) = cells.split_first()?;
        ["found", "inserted"].contains(&operation).then_some(())?;
        Some(FloorRatio {
            operation: operation.to_owned(),
            chunk_buckets: figures.first()?.parse().ok()?,
            load_factor: figures.get(1)?.parse().ok()?,
            ratio: figures.get(11)?.parse().ok()?,
        })
    });
    let rows: Vec<_> = rows.collect();
    ensure!(!rows.is_empty(), "no ratios to the floor in: {report}");
    Ok(rows)
}

/// Runs `probeline tune` on both machines, then checks that other commands accept its file.
fn tune(testbed: &Testbed, options: &str) -> Result<()> {
    let files = "--out $SHARE/tuning.toml";
    let arguments = format!("tune {OVER_VERBS} --table-size 256KiB {options} {files}");
    let output = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    let row = output.lines().find(|line| line.trim_start().starts_with("recommended"));
    let row = row.with_context(|| format!("no recommendation in: {output}"))?;
    println!("\n{}", row.trim());
    measure_with_tuning(testbed, row)
}

/// Checks that `bench-latency --tuning` uses the recommendation.
fn measure_with_tuning(testbed: &Testbed, recommended: &str) -> Result<()> {
    let options = "--table-size 256KiB --load-factor 0.5 --ops 50 --rounds 1 \
        --seconds-per-measurement 0.01 --tuning $SHARE/tuning.toml --full";
    let arguments = format!("bench-latency {OVER_VERBS} {options}");
    let report = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    // Columns: candidate, C, M, read-ahead, one-roundtrip, in flight, cache.
    let cells: Vec<_> = recommended.split_whitespace().collect();
    let [_, c, m, read_ahead, one_roundtrip, _, cache, ..] = cells[..] else {
        bail!("unexpected columns: {recommended}");
    };
    for setting in [
        "tuning.toml".to_owned(),
        format!("max_chunks {m}"),
        format!("read_ahead {read_ahead}"),
        format!("one_roundtrip {one_roundtrip}"),
        format!("cache_entries {cache}"),
    ] {
        ensure!(report.contains(&setting), "no {setting} in: {report}");
    }
    for operation in ["inserted", "found"] {
        let mut rows = report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = rows.any(|row| row.starts_with(&[operation, c, "0.50"]));
        ensure!(found, "no {operation} with C = {c} in: {report}");
    }
    Ok(())
}
