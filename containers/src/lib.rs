//! Containers in the memory of many processes, reached with one-sided operations only.
//!
//! - [`Array`]: elements of any plain type, distributed over all owners.
//! - [`Counters`]: counts of keys of up to 62 bits, key and count in one word.
//! - [`SmallMap`]: values of such keys, key and value in one word.
//! - [`PutOnce`]: keys and values of any plain types, each key inserted once.
//! - [`Objects`]: blobs of different lengths, which other containers refer to by a [`Pointer`].
//! - [`Queue`]: a ring on each owner, into which all ranks push and from which all ranks pop.
//! - [`Aggregator`]: small messages to any rank, which travel in blocks of one WRITE each.
//! - [`Filter`]: a blocked Bloom filter, a set with false positives in a few bits a key.
//!
//! Every container is a [`Structure`](probeline_pipeline::Structure): it has blocking calls, batches,
//! submitted operations and futures over any transport, and allocates nothing after opening. Each
//! module states what a stale, torn or repeated READ may show, and why the result is right all the
//! same.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod aggregator;
pub mod array;
mod batch;
pub mod counters;
mod element;
pub mod filter;
mod hash;
#[cfg(test)]
mod model;
pub mod objects;
mod phase;
mod pointer;
mod probe;
pub mod put_once;
pub mod queue;
pub mod small_map;

pub use aggregator::Aggregator;
pub use array::Array;
pub use counters::Counters;
pub use element::{Begin, Bounded, Container, Context, Direct, Each, Element};
pub use filter::Filter;
pub use objects::Objects;
pub use phase::{Find, Finder};
pub use pointer::Pointer;
pub use probeline_pipeline::{
    BatchError, Bytes, CollectiveError, ConfigError, Distribution, Error as OperationError,
    Placement, Plain, Tag,
};
pub use put_once::PutOnce;
pub use queue::Queue;
pub use small_map::SmallMap;
