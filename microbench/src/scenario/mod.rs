//! The subcommands. Each module has the options, the work, the rows and the output of one.

pub(crate) mod bale;
pub(crate) mod bench_map;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod contigs;
pub(crate) mod doctor;
pub(crate) mod explore;
pub(crate) mod isx;
pub(crate) mod kmers;
pub(crate) mod latency;
pub(crate) mod limits;
pub(crate) mod report;
pub(crate) mod roundtrips;
pub(crate) mod simulate;
pub(crate) mod surrogate;
pub(crate) mod throughput;
pub(crate) mod topology;
pub(crate) mod tune;

use probeline::table::Config;
use probeline::transport::{Exchange, Owner};
pub(crate) use probeline_results::gather;
use probeline_results::gather_values;
use probeline_results::{Note, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::{JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::job::{self, Scenario};
use crate::run_report::{Files, RunReport};

/// Operations of blocking calls: one operation, and a previous one whose read-ahead may still
/// complete.
const OPERATIONS: u32 = 2;

/// Returns the owner whose words rank 0 accesses when it measures single operations.
fn peer(owners: u32) -> Owner {
    Owner(1 % owners.max(1))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// Returns rank 0's value. All ranks call it.
fn of_rank_0<V: Serialize + DeserializeOwned>(exchange: &mut dyn Exchange, mine: &V) -> Result<V> {
    let first = gather_values(exchange, mine)?.into_iter().next();
    first.ok_or_else(|| Failure::new("the job has no rank"))
}

/// A report without its rows, its files, and the output of a scenario.
type Reported<R, O> = (RunReport<R>, Files, O);

/// Runs a scenario of a job, whose result rank 0 reports.
fn report_job<S: Scenario, R: Row>(
    command: &'static str,
    job: &JobArgs,
    scenario: &S,
) -> Result<Option<Reported<R, S::Output>>> {
    let files = Files::of_job(job)?;
    // Created before the run, so that the reported load of the machine excludes it.
    let mut report = RunReport::new(command);
    let Some(ended) = job::run(job, scenario)? else { return Ok(None) };
    report.transport = ended.transport;
    report.doctor.extend(ended.doctor);
    report.job(job);
    Ok(Some((report, files, ended.output)))
}

/// Returns the note of times over the simulator that exclude the work of CPUs.
fn without_cpu_time(job: &JobArgs) -> Option<Note> {
    let is_virtual = job.transport == TransportName::Sim;
    is_virtual.then(|| "sim: time is virtual, and the work of CPUs takes none".into())
}

/// Returns the advice of a larger M, if an operation does not examine all buckets.
fn or_more_chunks(config: &Config, owners: u32) -> String {
    let buckets = config.buckets_per_owner * u64::from(owners);
    if u64::from(config.chunk_buckets) * u64::from(config.max_chunks) < buckets {
        format!(", or with a larger --max-chunks than {}", config.max_chunks)
    } else {
        String::new()
    }
}

/// Creates the failure of a table that is filled to a given load factor, so that a larger one would
/// be as full.
fn too_few_chunks(config: &Config, owners: u32, held: u64) -> Failure {
    Failure::new(format!(
        "{}. Start again with a larger --max-chunks than {}, or without C = {}",
        no_room(config, owners, held),
        config.max_chunks,
        config.chunk_buckets
    ))
}

fn no_room(config: &Config, owners: u32, held: u64) -> String {
    let buckets = config.buckets_per_owner * u64::from(owners);
    let seen = u64::from(config.chunk_buckets) * u64::from(config.max_chunks);
    format!(
        "the table is full: an operation found {} buckets in a row occupied, {held} of {buckets} \
         are",
        seen.min(buckets)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }
}
