//! Options of C, the buckets of a chunk, and M, the maximum number of chunks.

use clap::builder::RangedI64ValueParser;
use clap::{Args, value_parser};

/// One C and one M.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ChunkArgs {
    /// C, buckets that one chunk READ transfers: a multiple of 8
    #[arg(short = 'C', long, default_value_t = 32, value_name = "C", value_parser = chunk_buckets)]
    pub(crate) chunk_buckets: u32,

    /// M, maximum chunks that an operation probes before it answers full
    #[arg(short = 'M', long, default_value_t = 32, value_name = "M", value_parser = max_chunks())]
    pub(crate) max_chunks: u32,
}

/// Several C and one M.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChunkListArgs {
    /// C, buckets that one chunk READ transfers: multiples of 8, separated by commas
    #[arg(short = 'C', long, default_value = "8,16,32,64,128", value_delimiter = ',')]
    #[arg(value_name = "C,...", value_parser = chunk_buckets)]
    pub(crate) chunk_buckets: Vec<u32>,
}

/// The maximum C: the words that one READ of the simulator transfers, 512 KiB.
const MOST_CHUNK_BUCKETS: u32 = 1 << 16;

/// Parses C within the table's bounds, so that an invalid one fails before anything starts.
fn chunk_buckets(text: &str) -> core::result::Result<u32, String> {
    match text.parse::<u32>() {
        Ok(c) if c.is_multiple_of(8) && (8..=MOST_CHUNK_BUCKETS).contains(&c) => Ok(c),
        _ => Err(format!("C is a multiple of 8 from 8 to {MOST_CHUNK_BUCKETS}")),
    }
}

/// Parses M within the table's bounds.
pub(crate) fn max_chunks() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=1 << 16)
}
