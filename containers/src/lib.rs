//! Containers in the memory of many processes, reached with one-sided operations only.
//!
//! [`Array`] distributes elements of any plain type over all owners.
//!
//! Every container is a [`Structure`](probeline_pipeline::Structure): it has blocking calls, batches,
//! submitted operations and futures over any transport, and allocates nothing after opening. Each
//! module states what a stale, torn or repeated READ may show, and why the result is right all the
//! same.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod array;
mod error;
mod placement;
mod pointer;

pub use array::Array;
pub use error::{ConfigError, OpenError};
pub use placement::{Distribution, Placement};
pub use pointer::Pointer;
pub use probeline_pipeline::{
    BatchError, Bytes, CollectiveError, Error as OperationError, Plain, Tag,
};
