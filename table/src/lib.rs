//! A hash table spread over the memory of many processes and reached only with one-sided
//! operations: READ, WRITE, compare-and-swap, fetch-and-add and polling for their ends.
//!
//! [`Table::find_or_put`] is the operation of W. Oortwijn, T. van Dijk and J. van de Pol, *A
//! Distributed Hash Table for Shared Memory* (PPAM 2015): linear probing over 64-bit buckets,
//! read C at a time, the next chunk requested before the present one is scanned, and a
//! compare-and-swap on the first bucket that looks empty. No owner's CPU takes part in another's
//! operation.
//!
//! What makes it right is one rule: a bucket goes from empty to occupied once, by
//! compare-and-swap, and never changes again (but between the barriers of [`Table::clear`] and
//! [`Table::retain`]). So a stale READ can only show an *empty* bucket that is occupied, never a
//! wrong occupant; data lives in the first bucket of its probe order that was empty when it was
//! inserted; and find-or-put is linearizable whatever order READs land in. Where a transport
//! does not promise that a READ brings words whole ([`Caps::word_reads_whole`]), no decision
//! rests on a word that a tear could have made.
//!
//! What goes beyond the paper rests on the same rule, and each is a switch in [`Config`]: many
//! operations by one call ([`Table::find_or_put_batch`]), claims along with the first READ, a cache
//! that needs no coherence ([`Table::with_cache`]), lines looked at in place where the CPU reaches
//! them, C and read-ahead by what operations need, and other probe orders. [`Config::paper`] has
//! none of them.
//!
//! Several tables, or other structures, share one engine by a
//! [`Splitter`](probeline_transport::Splitter):
//!
//! ```
//! use probeline_shm::Builder;
//! use probeline_table::{Config, Operation, Outcome, Table};
//! use probeline_transport::{Alone, Pending, Splitter};
//!
//! let (small, large) = (Config::new(1 << 10), Config::new(1 << 16));
//! let plan = [small.sizes(4), large.sizes(16)];
//! let mut engine = Builder::with_sizes(plan[0].plus(plan[1])).open(&mut Alone)?;
//! let mut pending = vec![Pending::EMPTY; plan[0].plus(plan[1]).depth as usize];
//! let splitter = Splitter::new(&mut engine, plan, &mut pending)?;
//! let [first, second] = splitter.channels().ok_or("called twice")?;
//!
//! let mut small = Table::open(first, small, vec![Operation::EMPTY; 4], &mut Alone)?;
//! let mut large = Table::open(second, large, vec![Operation::EMPTY; 16], &mut Alone)?;
//! assert_eq!(small.find_or_put(7)?, Outcome::Inserted);
//! assert_eq!(large.find_or_put(7)?, Outcome::Inserted);
//! assert_eq!((small.len(&mut Alone)?, large.len(&mut Alone)?), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate needs neither std nor an allocator: storage comes from the caller, and
//! [`Table::submit`] with [`Table::poll_into`] fits into a poll loop of the caller's own, as the futures
//! of [`Shared`] fit into a runtime's.
//!
//! [`Caps::word_reads_whole`]: probeline_transport::Caps::word_reads_whole
#![cfg_attr(not(test), no_std)]
// One exception, in `line`.
#![deny(unsafe_code)]

mod batch;
mod bucket;
mod cache;
mod chunk_choice;
mod collective;
mod config;
mod context;
mod direct;
mod error;
mod find_or_put;
mod future;
mod layout;
mod line;
#[cfg(test)]
mod model;
mod policy;
mod probe;
#[cfg(test)]
mod scripted;
mod stats;
mod table;
mod walk;

pub use bucket::{Bucket, DATA_BITS, MAX_DATA};
pub use cache::CacheEntry;
pub use chunk_choice::ReadCost;
pub use config::Config;
pub use error::{
    BatchError, CollectiveError, ConfigError, DataOutOfRange, OpenError, OperationError,
    SubmitError,
};
pub use find_or_put::{Intent, Outcome};
pub use future::{Shared, TableFuture};
pub use layout::{Layout, Position};
pub use policy::{ChunkChoice, FirstClaim, ReadAhead};
pub use probe::Probing;
pub use probeline_pipeline::Tag;
pub use stats::{OutcomeStats, Stats};
pub use table::{Finished, Operation, Table};
