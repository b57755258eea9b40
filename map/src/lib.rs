//! A fixed-size, lossy cache of values by keys, spread over the memory of many processes and reached
//! only with one-sided operations: for results of functions that cost more than a roundtrip.
//!
//! A bucket is a *control word* and the bytes of a key and a value, in whole cache lines. The
//! control word has a state (empty, claimed, full or dropped), an age, and a *check*: 56 bits of a
//! hash of key, value and bucket; while the bucket is claimed, a ticket instead. A key has some
//! *candidates*, buckets of one owner chosen by independent bits of its hash. A get reads them in
//! order; one READ is a hit. A put claims a bucket by compare-and-swap, writes the body, and
//! publishes it by compare-and-swap. If no candidate is free, the oldest entry is evicted.
//!
//! ```
//! use probeline_map::{Config, Map, Operation, Written};
//! use probeline_shm::Builder;
//! use probeline_transport::Alone;
//!
//! let config = Config::for_entries(10_000, 1); // entries in all, owners
//! let engine = Builder::new(config.sizes::<[u64; 4], f64>(32)).open(&mut Alone)?;
//! let mut map = Map::open(engine, config, [Operation::EMPTY; 32], &mut Alone)?;
//! assert_eq!(map.put(&[1; 4], &0.5)?, Written::Inserted);
//! assert_eq!(map.get(&[1; 4])?, Some(0.5));
//! assert_eq!(map.get_or_compute(&[2; 4], |key| key[0] as f64)?, 2.0);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! [`correctness`] says what a stale, torn or repeated READ may show, and why results are right.
//!
//! [`Mode`] selects other ways to synchronize clients, on the same layout, for comparison. A part's
//! lock and a bucket's lock change by atomics only as well. Their holder posts the atomic that
//! releases the lock after its WRITE has completed, so the next holder reads whole words.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

mod alone;
mod batch;
mod config;
mod context;
mod control;
pub mod correctness;
mod direct;
mod entries;
mod error;
#[cfg(feature = "std")]
mod file;
mod future;
mod hash;
mod layout;
mod location;
mod machine;
mod map;
mod mode;
#[cfg(test)]
mod model;
mod outcome;
mod quick;
mod rounding;
pub mod saved;
mod search;
mod stats;

pub use config::Config;
pub use entries::Entries;
pub use error::FileError;
#[cfg(feature = "std")]
pub use file::{Loaded, open_regular};
pub use future::{MapFuture, Shared};
pub use layout::MAX_CANDIDATES;
pub use location::Location;
pub use map::{Finished, Map, Operation};
pub use mode::{HeldLock, Mode};
pub use outcome::{Outcome, Request, ValueHash, Written};
pub use probeline_pipeline::{
    BatchError, Bytes, CollectiveError, ConfigError, Error as OperationError, Plain, Tag,
};
pub use rounding::{Field, Rounding};
pub use stats::Stats;
