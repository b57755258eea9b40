//! The command `probeline` over verbs, as its users start it.

use super::trial::{LIMIT, Ranks, SECRET, command, median, port};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::programs::{Build, program};

const PROBELINE: &[Build] = &[Build::Release(&["--package", "probeline-cli"])];

/// Of its floor of one READ, or READ and compare-and-swap, a find-or-put takes so much at most.
const MOST: f64 = 1.15;

/// States and arcs as the Model Checking Contest publishes them.
pub(super) const FMS: [&str; 2] = ["3444", "16311"];
pub(super) const PHILOSOPHERS: [&str; 1] = ["2187"];

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "ranks_of_mpirun_explore", under_mpirun).needs(PROBELINE),
    Case::new(Layer::Loopback, "ranks_of_srun_explore", under_srun).needs(PROBELINE),
    Case::new(Layer::Loopback, "throughput_is_measured", throughput).needs(PROBELINE),
    Case::new(Layer::Two, "two_machines_explore", |bed| {
        explored(&explore(bed, "fms:2")?, &FMS)?;
        explored(&explore(bed, "philosophers:7")?, &PHILOSOPHERS)
    })
    .needs(PROBELINE),
    Case::new(Layer::Two, "roundtrips_are_those_of_the_simulator", roundtrips).needs(PROBELINE),
    Case::new(Layer::Two, "two_nodes_measure_latency", two_nodes).needs(PROBELINE),
    Case::new(Layer::Icount, "find_or_put_is_near_its_floor", near_the_floor).needs(PROBELINE),
];

fn explore(bed: &Bed, model: &str) -> Result<String, Failure> {
    let arguments = format!("explore {model} --transport verbs --allow-remote --pin none");
    Ranks::start(bed, "probeline", 2, &arguments)?.finish()
}

/// The row of a model has these figures.
pub(super) fn explored(output: &str, figures: &[&str]) -> Result<(), Failure> {
    let rows = output.lines().map(str::split_whitespace).map(Iterator::collect::<Vec<_>>);
    let found =
        rows.into_iter().any(|row| row.get(2..).is_some_and(|row| row.starts_with(figures)));
    ensure(found, || format!("no {figures:?} in: {output}"))
}

/// Ranks by the launcher's variables, the meeting over TCP.
fn under_mpirun(bed: &Bed) -> Result<(), Failure> {
    let meeting = format!("--rendezvous 127.0.0.1:{}", port());
    let explore = format!("explore fms:2 --transport verbs --pin none {meeting}");
    let start = "mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 -x PROBELINE_SECRET";
    let probeline = program("probeline")?;
    let explore = format!("export {SECRET}; {start} {probeline} {explore}");
    let output = bed.machine(1).output(&explore, LIMIT)?;
    explored(&output, &FMS)
}

/// There is no Slurm here: its variables are set by hand, as srun sets them.
fn under_srun(bed: &Bed) -> Result<(), Failure> {
    let meeting = format!("--rendezvous 127.0.0.1:{}", port());
    let explore =
        command("probeline", &format!("explore fms:2 --transport verbs --pin none {meeting}"))?;
    let rank = |rank| {
        let step = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=2";
        bed.machine(1).start(&format!("{step} SLURM_PROCID={rank} {explore}"), LIMIT)
    };
    let (first, second) = (rank(0)?, rank(1)?);
    second.wait()?.good()?;
    explored(&first.wait()?.good()?, &FMS)
}

fn throughput(bed: &Bed) -> Result<(), Failure> {
    let arguments =
        "bench-throughput --transport verbs --table-size 1MiB --ops 2000 --repeat 1 --pin none";
    let output = bed.machine(1).output(&command("probeline", arguments)?, LIMIT)?;
    ensure(output.contains("zipf"), || output.clone())
}

/// The paper's left table at the size that a virtual machine holds: what is counted does not
/// depend on the transport, to the last digit.
fn roundtrips(bed: &Bed) -> Result<(), Failure> {
    let arguments = "roundtrips --full --table-size 128KiB -C 8,32,128";
    let verbs = format!("{arguments} --transport verbs --allow-remote --pin none");
    let verbs = Ranks::start(bed, "probeline", 2, &verbs)?.finish()?;
    let sim = command("probeline", &format!("{arguments} --transport sim --ranks 2"))?;
    let sim = bed.machine(1).output(&sim, LIMIT)?;
    let (verbs, sim) = (counted(&verbs), counted(&sim));
    println!("{} rows", verbs.len());
    ensure(verbs.len() > 100 && verbs == sim, || format!("{verbs:?}\n{sim:?}"))
}

/// The rows of the report: those that start with a C.
fn counted(output: &str) -> Vec<Vec<&str>> {
    let rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() == 6 && row.iter().all(|cell| cell.parse::<f64>().is_ok()))
        .collect()
}

/// The first node says what to run on the second, which does so; the first reports, and its file
/// has what the doctor says of both.
fn two_nodes(bed: &Bed) -> Result<(), Failure> {
    let (first, second) = (bed.machine(1), bed.machine(2));
    let program = program("probeline")?;
    let options = "--table-size 128KiB -C 8,64 --load-factors 0.1,0.5 --ops 200 --pin none";
    let files = "--full --json $SHARE/two.json";
    let command = format!("{program} bench-latency --two-nodes {options} {files}");
    let started = first.start(&command, LIMIT)?;
    let said = started.wait_for("PROBELINE_SECRET=")?;
    let joined = second.output(said.trim(), LIMIT)?;
    ensure(joined.contains("prints the report"), || joined.clone())?;
    let report = started.wait()?.good()?;
    let json = first.output("tr -d '\\n ' <$SHARE/two.json", LIMIT)?;
    examined(&json, ["node1", "node2"])?;
    for operation in ["READ 8 B", "READ 4096 B", "WRITE 4096 B", "CAS", "FAA", "inserted", "found"]
    {
        let row = report.lines().find(|line| line.trim_start().starts_with(operation));
        ensure(row.is_some(), || format!("no {operation} in: {report}"))?;
    }
    println!();
    multiples(&report)?.iter().for_each(|row| println!("{row}"));
    Ok(())
}

/// The doctor has looked at each node, of which one rank is, and at the device that it has tried.
fn examined(json: &str, hosts: [&str; 2]) -> Result<(), Failure> {
    let (_, doctor) = json.split_once(r#""doctor":["#).unwrap_or_default();
    let (doctor, _) = doctor.split_once(r#"],"transport""#).unwrap_or_default();
    let all: Vec<&str> = doctor.split(r#"{"host":"#).skip(1).collect();
    ensure(all.len() == hosts.len(), || format!("{} machines in: {doctor}", all.len()))?;
    for (rank, (machine, host)) in all.into_iter().zip(hosts).enumerate() {
        let begin = format!(r#""{host}","ranks":[{rank}],"findings":[{{"check":"#);
        let tried = r#"{"check":"atomics-tried","subject":"rxe0","verdict":"fine""#;
        let memory = r#"{"check":"locked-memory","subject":"machine","#;
        let told =
            machine.starts_with(&begin) && [tried, memory].iter().all(|has| machine.contains(has));
        ensure(told, || format!("not of {host}: {machine}"))?;
    }
    Ok(())
}

/// A find-or-put that ends in its first chunk costs what its READ costs, and its claim.
fn near_the_floor(bed: &Bed) -> Result<(), Failure> {
    let options = "--table-size 256KiB -C 32,64,128 --load-factors 0.1,0.3 --ops 200 --pin none";
    let measure = |means: &str| -> Result<Vec<Multiple>, Failure> {
        let arguments = format!("bench-latency --full --transport verbs {options} {means}");
        multiples(&bed.machine(1).output(&command("probeline", &arguments)?, LIMIT)?)
    };
    let rows = measure("--direct off --one-roundtrip off")?;
    println!();
    rows.iter().for_each(|row| println!("{row}"));
    for row in &rows {
        ensure(row.multiple <= MOST, || format!("{row} is more than {MOST}"))?;
    }
    // On a machine whose one CPU does everything, a READ or a claim ahead of need is paid for: a
    // record, no gate.
    for means in ["--direct off --one-roundtrip on", "--direct on", "--paper"] {
        let rows = measure(means)?;
        let of = |operation: &str| {
            let rows = rows.iter().filter(|row| row.operation == operation);
            median(rows.map(|row| row.multiple).collect())
        };
        println!("{means}: found {:.3}, inserted {:.3}", of("found"), of("inserted"));
    }
    Ok(())
}

/// A row of find-or-put in the report of latencies.
struct Multiple {
    operation: String,
    chunk_buckets: u32,
    load_factor: f64,
    multiple: f64,
}

impl core::fmt::Display for Multiple {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { operation, chunk_buckets, load_factor, multiple } = self;
        write!(
            f,
            "{operation}, C = {chunk_buckets}, load factor {load_factor}: {multiple:.3} floors"
        )
    }
}

/// All rows with a multiple: operation, C, load factor, seven figures, max, floor and multiple.
fn multiples(report: &str) -> Result<Vec<Multiple>, Failure> {
    let rows = report.lines().filter_map(|line| {
        let cells: Vec<_> = line.split_whitespace().collect();
        let (&operation, figures) = cells.split_first()?;
        ["found", "inserted"].contains(&operation).then_some(())?;
        Some(Multiple {
            operation: operation.to_owned(),
            chunk_buckets: figures.first()?.parse().ok()?,
            load_factor: figures.get(1)?.parse().ok()?,
            multiple: figures.get(11)?.parse().ok()?,
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Err(Failure(format!("no multiples in: {report}")));
    }
    Ok(rows)
}
