//! `compare`: measures one-sided operations and the table over every transport of the machine in
//! one run. A column is a transport with its settings. The columns are measured in turn at each
//! step.

mod args;
mod barrier;
mod bench;
mod column;
mod launch;
mod measured;
mod one_job;
mod processes;
mod row;
mod step;
mod summary;
mod worker;

use probeline_results::Note;

pub(crate) use self::args::CompareArgs;
use self::args::{BATCH, TABLE_SIZE, TABLE_SIZE_ONE_JOB};
use self::column::ColumnName;
use self::measured::{Column, Sample};
use self::row::rows;
use self::step::steps;
use self::worker::Turn;
use super::peer;
use crate::failure::{Failure, Result};
use crate::findings::{Device, Findings};
use crate::progress::Progress;
use crate::run_report::{Files, RunReport};
use crate::table;

pub(crate) fn run(mut args: CompareArgs) -> Result<()> {
    let chunk_buckets = [args.chunks.chunk_buckets];
    if args.serve {
        args.job.settle(TABLE_SIZE, TABLE_SIZE, &chunk_buckets)?;
        return worker::serve(&args);
    }
    args.check()?;
    args.one_job = args.is_one_job()?;
    let table_size = if args.one_job { TABLE_SIZE_ONE_JOB } else { TABLE_SIZE };
    let transports = args.transports();
    args.job.settle_columns(&transports, args.one_job, table_size, &chunk_buckets)?;
    args.check_ranks()?;
    let files = Files::of_job(&args.job)?;
    // Created before the run, so that the reported load of the machine excludes it.
    let mut report = RunReport::new("compare");
    let (columns, doctor) = if args.one_job {
        let Some(compared) = one_job::compare_in_one_job(&args)? else { return Ok(()) };
        compared
    } else {
        let columns = processes::compare_processes(&args);
        let found = device(&columns).map(|device| device.examine(probeline_doctor::ANSWER));
        (columns, Findings::here(found.unwrap_or_default()))
    };
    report.transport = columns.iter().map(Column::line).collect();
    report.transport.extend(columns.iter().filter_map(Column::includes));
    report.columns = columns.iter().map(Column::value).collect();
    report.doctor.extend(doctor);
    report.rows = rows(&columns);
    report.sizes(&args.job);
    report.parameter("chunk_buckets", args.chunks.chunk_buckets);
    report.parameter("max_chunks", args.chunks.max_chunks);
    report.parameter("rounds", args.rounds());
    report.parameter("ops", args.operations());
    report.parameter("seconds_per_measurement", args.time().as_secs_f64());
    report.parameter("sleep", args.sleep().as_secs_f64());
    report.parameters(table::of_algorithm(&args.config()));
    report.summary = summary::lines(&columns, args.job.ranks);
    report.notes = notes(&args, &columns);
    report.publish(files)?;
    let failed = columns.iter().filter(|column| column.requested && column.has_failed());
    let failed: Vec<String> = failed.map(Column::line).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(failed.join("; "))),
    }
}

fn device(columns: &[Column]) -> Option<Device> {
    let verbs = columns.iter().find(|column| column.name == ColumnName::Verbs && column.is_up())?;
    Device::in_lines(&verbs.transport)
}

/// Measures every step over every column in each round, the columns in turn. Each round starts with
/// another column. `measure` returns the sample or the reason why the column has failed.
fn take_turns(
    args: &CompareArgs,
    columns: &mut [Column],
    mut measure: impl FnMut(Turn) -> core::result::Result<Sample, String>,
) {
    let (steps, rounds) = (steps(), u64::from(args.rounds()));
    let mut progress = Progress::new(rounds * steps.len() as u64, true);
    for round in 0..rounds {
        for (at, step) in steps.iter().enumerate() {
            let done = round * steps.len() as u64 + at as u64;
            let first = usize::try_from(round).unwrap_or(0) % columns.len().max(1);
            for turn in (first..columns.len()).chain(0..first) {
                let column = &mut columns[turn];
                if !column.is_up() {
                    continue;
                }
                let doing = format!("{} over {}", step.name(), column.name.name());
                progress.expecting(done, &doing, args.time());
                match measure((turn, at, round)) {
                    Ok(sample) => column.add(at, sample),
                    Err(error) => {
                        let step = format!("{}, owner {}", step.name(), step.owner.name());
                        column.error = Some(format!("in round {}, {step}: {error}", round + 1));
                    }
                }
            }
        }
    }
}

fn notes(args: &CompareArgs, columns: &[Column]) -> Vec<Note> {
    if !columns.iter().any(Column::has_measured) {
        return Vec::new();
    }
    let (rounds, peer, depth) = (args.rounds(), peer(args.job.ranks), step::DEPTH);
    let (sleep, operations) = (args.sleep().as_secs_f64(), args.operations());
    vec![
        format!("x: time / time of the fastest column; median of {rounds} rounds").into(),
        format!(
            "READ, CAS, FAA: rank 0 on words of {peer}; p50 with 1 in flight, rates with {depth} in \
             flight"
        )
        .into(),
        Note::on(
            &["owner"],
            format!(
                "polls its engine, sleeps for {sleep} s outside of any library, or works like rank 0"
            ),
        ),
        "waits, some wait: most, or some, operations took at least a quarter of that sleep".into(),
        "found, inserted: find-or-put by rank 0, one at a time, of keys whose home is that owner"
            .into(),
        format!(
            "mixed, read-, write-intensive: {operations} find-or-puts of each rank, pipelined in \
             batches of {BATCH}"
        )
        .into(),
    ]
}
