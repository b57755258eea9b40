//! The subcommands. Each module has the options, the work, the rows and the output of one.

pub(crate) mod bale;
pub(crate) mod bench_map;
pub(crate) mod bench_queue;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod contigs;
pub(crate) mod doctor;
pub(crate) mod dsm;
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
use probeline_programs::gather_values;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::{JobArgs, TransportName};
use crate::failure::{Failure, Result};
use crate::job::{self, JobEngine, Needs};
use crate::run_report::{Files, RunReport};

/// Operations of blocking calls: one operation, and a previous one whose read-ahead may still
/// complete.
const OPERATIONS: u32 = 2;

/// Returns the owner whose words rank 0 accesses when it measures single operations.
fn peer(owners: u32) -> Owner {
    Owner(1 % owners.max(1))
}

/// Returns rank 0's value. All ranks call it.
fn broadcast<V: Serialize + DeserializeOwned>(exchange: &mut dyn Exchange, mine: &V) -> Result<V> {
    let first = gather_values(exchange, mine)?.into_iter().next();
    first.ok_or_else(|| Failure::new("the job has no rank"))
}

/// A report without its rows, its files, and the output of rank 0.
type Reported<O> = (RunReport, Files, O);

/// Runs `work` on all ranks of a job, whose result rank 0 reports.
fn report_job<O: Send + Sync>(
    command: &'static str,
    job: &JobArgs,
    needs: impl Into<Needs>,
    work: impl Fn(&mut JobEngine<'_>, &mut dyn Exchange) -> Result<O> + Sync,
) -> Result<Option<Reported<O>>> {
    let files = Files::open(&job.output, job.reports())?;
    // Created before the run, so that the reported load of the machine excludes it.
    let mut report = RunReport::new(command);
    let Some((output, transport)) = job::run(job, &needs.into(), work)? else { return Ok(None) };
    report.job(job, transport);
    Ok(Some((report, files, output)))
}

/// Returns the note of times over the simulator that exclude the work of CPUs.
fn without_cpu_time(job: &JobArgs) -> Option<&'static str> {
    let is_virtual = job.transport == TransportName::Sim;
    is_virtual.then_some("sim: time is virtual, and the work of CPUs takes none")
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
    use std::{env, fs};

    use probeline_report::results::Row;

    use super::*;

    /// Writes the table of the fields of a row.
    type Table = fn() -> String;

    /// Each command whose rows `docs/output.md` documents.
    const TABLES: [(&str, Table); 17] = [
        ("bench-latency", table::<latency::row::LatencyRow>),
        ("bench-throughput", table::<throughput::ThroughputRow>),
        ("bench-map", table::<bench_map::row::MapRow>),
        ("bench-queue", table::<bench_queue::QueueRow>),
        ("roundtrips", table::<roundtrips::RoundtripsRow>),
        ("explore", table::<explore::row::ExploreRow>),
        ("kmers", table::<kmers::KmersRow>),
        ("contigs", table::<contigs::ContigsRow>),
        ("isx", table::<isx::IsxRow>),
        ("bale", table::<bale::BaleRow>),
        ("dsm", table::<dsm::DsmRow>),
        ("surrogate", table::<surrogate::row::SurrogateRow>),
        ("limits", table::<limits::row::LimitsRow>),
        ("compare", table::<compare::row::CompareRow>),
        ("tune", table::<tune::row::TuneRow>),
        ("simulate", table::<simulate::row::SimulateRow>),
        ("topology", table::<topology::PlaceRow>),
    ];

    /// Returns the unit that the suffix of a field's name is.
    fn unit(name: &str) -> &'static str {
        let units = [("_ns", "ns"), ("seconds", "s"), ("_per_s", "1/s"), ("_share", "0 to 1")];
        let name = name.trim_end_matches("_at_206_us");
        let known = units.into_iter().chain([("bytes", "bytes")]);
        known.into_iter().find(|(suffix, _)| name.ends_with(suffix)).map_or("", |(_, unit)| unit)
    }

    fn table<R: Row>() -> String {
        let head = "| field | unit | column | meaning |\n|---|---|---|---|".to_owned();
        let lines = R::FIELDS.iter().map(|field| {
            let column = field.column.as_ref().map_or("", |column| column.head());
            format!("| `{}` | {} | {column} | {} |", field.name, unit(field.name), field.meaning)
        });
        [head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// With the environment variable `PROBELINE_WRITE_OUTPUT_PAGE` the test writes the tables.
    #[test]
    fn output_page_matches_declarations() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.md");
        let page = fs::read_to_string(path).unwrap();
        let sections = page.split("\n## ").map(|section| {
            let command = section.lines().next().unwrap_or_default();
            let Some((_, table)) = TABLES.iter().find(|(name, _)| *name == command) else {
                assert!(!section.contains("| field | unit |"), "{command} declares no rows");
                return section.to_owned();
            };
            let start = section.find("| field | unit |").unwrap_or_else(|| panic!("{command}"));
            // The table ends before an empty line, or at the end of the page.
            let end = section[start..].find("\n\n").map_or(section.len() - 1, |end| start + end);
            let rest = &section[end..];
            format!("{}{}{rest}", &section[..start], table())
        });
        let written = sections.collect::<Vec<_>>().join("\n## ");
        if env::var_os("PROBELINE_WRITE_OUTPUT_PAGE").is_some() {
            fs::write(path, &written).unwrap();
        }
        let command = "PROBELINE_WRITE_OUTPUT_PAGE=1 cargo test -p probeline-cli output_page";
        assert!(fs::read_to_string(path).unwrap() == written, "run {command}");
    }
}
