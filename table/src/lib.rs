//! A hash table spread over the memory of many processes and reached only with one-sided
//! operations: READ, WRITE, compare-and-swap and fetch-and-add, with completions that are polled.
//!
//! [`Table::find_or_put`] is the operation of W. Oortwijn, T. van Dijk and J. van de Pol, *A
//! Distributed Hash Table for Shared Memory* (PPAM 2015): linear probing over 64-bit buckets, read
//! C at a time, the next chunk requested before the present one is scanned, and a compare-and-swap
//! on the first bucket that looks empty. Over transports of one-sided
//! hardware no owner's CPU takes part in another's operation; UCX and MPI may need it.
//!
//! ```
//! use probeline_shm::Builder;
//! use probeline_table::{Config, Operation, Outcome, Table};
//! use probeline_transport::Alone;
//!
//! let config = Config::for_keys(100_000, 1); // keys in all, owners
//! let engine = Builder::new(config.sizes(32)).open(&mut Alone)?;
//! let mut table = Table::open(engine, config, [Operation::EMPTY; 32], &mut Alone)?;
//! assert_eq!(table.find_or_put(42)?, Outcome::Inserted);
//! assert_eq!(table.find_or_put(42)?, Outcome::Found);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Its correctness rests on one rule: a bucket goes from empty to occupied once, by
//! compare-and-swap, and never changes again, except between the barriers of [`clear`] and
//! [`Table::retain`]. A stale READ can therefore show an occupied bucket as *empty*, but never a
//! wrong occupant. A key lives in the first bucket of its probe order that was empty when it was
//! inserted. Find-or-put is linearizable in whatever order READs land. If a transport does not
//! guarantee that a READ returns whole words ([`Caps::word_reads_whole`]), no decision rests on a
//! word that a tear could have produced.
//!
//! [`WideTable`] is the same operation on keys of any fixed number of words, which the paper names
//! and does not build: its buckets hold a tag of the key and a reference to an entry of a data
//! array in the windows. [`TreeTable`] holds keys that resemble each other in 8 to 10 bytes each: a
//! key is a tree of find-or-puts of pairs, whose inner nodes keys share.
//!
//! The extensions of the paper rely on the same rule. [`Config`] switches on claims along with the
//! first READ, direct CPU access to lines that the CPU can address, adaptive C and read-ahead, and
//! other probe orders; [`Config::paper`] has none of these. [`Table::find_or_put_batch`] runs many
//! operations in one call, and [`Table::with_cache`] adds a cache that needs no coherence protocol.
//!
//! Several tables, or other structures, can share one engine through a
//! [`Splitter`](probeline_transport::Splitter):
//!
//! ```
//! use probeline_shm::Builder;
//! use probeline_table::{Config, Operation, Outcome, Table};
//! use probeline_transport::{Alone, Pending, Splitter};
//!
//! let (small, large) = (Config::new(1 << 10), Config::new(1 << 16));
//! let plan = [small.sizes(4), large.sizes(16)];
//! let mut engine = Builder::new(plan[0].plus(plan[1])).open(&mut Alone)?;
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
//! A table that fills up does not end the run: [`Table::grow_into`] moves its keys into a larger one
//! on another engine or channel, and loses none if a process dies meanwhile.
//!
//! The crate needs neither std nor an allocator: storage comes from the caller. [`Table::submit`]
//! and [`poll_into`] fit into a poll loop of the caller; the futures of [`Shared`] fit into
//! an async runtime.
//!
//! [`clear`]: probeline_pipeline::Structure::clear
//! [`poll_into`]: probeline_pipeline::Structure::poll_into
//! [`Caps::word_reads_whole`]: probeline_transport::Caps::word_reads_whole
#![cfg_attr(not(any(test, feature = "tuning")), no_std)]
// `line` is the only exception.
#![forbid(unsafe_code)]

mod batch;
mod block;
mod bucket;
mod cache;
mod chunk_choice;
mod collective;
mod config;
mod context;
mod direct;
mod find_or_put;
mod fingerprint;
mod future;
mod layout;
#[cfg(test)]
mod model;
mod narrow;
mod options;
mod outcome;
mod policy;
mod probe;
mod results;
mod set;
mod stats;
mod tree;
#[cfg(feature = "tuning")]
pub mod tuning;
mod walk;
mod wide;

pub use bucket::{Bucket, MAX_KEY};
pub use cache::CacheEntry;
pub use config::Config;
pub use future::{Shared, TableFuture};
pub use layout::{Layout, Position, Probing};
pub use narrow::{Narrow, Operation, Table};
pub use options::{ChunkChoice, OneRoundtrip, ReadAhead, ReadCost};
pub use outcome::{Answer, Ended, Intent, Located, Outcome};
pub use probeline_pipeline::{
    BatchError, CollectiveError, ConfigError, Error as OperationError, Tag,
};
pub use results::BatchResult;
pub use set::{Finished, Keys, Set};
pub use stats::{OutcomeStats, Stats};
pub use tree::{PairCacheLine, Tree, TreeConfig, TreeOperation, TreeStats, TreeTable};
pub use wide::{EntryStats, Wide, WideConfig, WideOperation, WideTable};
