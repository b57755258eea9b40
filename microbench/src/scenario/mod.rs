//! The subcommands. Each module has the options, the work, the rows and the output of one.

pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod explore;
pub(crate) mod latency;
pub(crate) mod limits;
pub(crate) mod report;
pub(crate) mod roundtrips;
pub(crate) mod simulate;
pub(crate) mod throughput;
pub(crate) mod topology;
pub(crate) mod tune;

use probeline::table::{Config, Operation, Table};
use probeline::transport::Exchange;
pub(crate) use probeline_results::gather;

use crate::engines::Shape;
use crate::failure::{Failure, Result};
use crate::means::MeansTable;
use crate::size::Size;
use crate::timed::Timed;

/// Operations of blocking calls: one operation, and a previous one whose read-ahead may still
/// complete.
const OPERATIONS: u32 = 2;
/// READs of two chunks, each split in two, of two operations, and claims.
const DEPTH: u32 = 16;

/// Opens a table for blocking calls together with the other ranks. All commands use the same table
/// type, because each one takes seconds to compile for each transport.
fn open<T: Timed>(engine: T, config: Config, exchange: &mut dyn Exchange) -> Result<MeansTable<T>> {
    let storage = vec![Operation::EMPTY; OPERATIONS as usize];
    Ok(Table::open(engine, config, storage, exchange)?.with_cache(Vec::new()))
}

/// Returns the shape of engines for blocking calls on a table, with `more` words after it and
/// `more_slots` slots after the table's.
fn shape(config: &Config, slot_words: u32, more: u64, more_slots: u32) -> Shape {
    Shape {
        window_words: config.words() + more,
        slots: Config::slots(OPERATIONS) + more_slots,
        slot_words,
        depth: DEPTH,
    }
}

/// Creates the failure of a table that is too small for its keys.
fn full(config: &Config, owners: u32, held: u64) -> Failure {
    let buckets = config.buckets_per_owner * u64::from(owners);
    let size = Size((buckets * 16).next_power_of_two());
    let more_chunks = if u64::from(config.chunk_buckets) * u64::from(config.max_chunks) < buckets {
        format!(", or with a larger --max-chunks than {}", config.max_chunks)
    } else {
        String::new()
    };
    Failure::new(format!(
        "{}. Start again with --table-size {size}{more_chunks}",
        no_room(config, owners, held)
    ))
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
