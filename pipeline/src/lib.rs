//! Drives the operations of a data structure over any [`Transport`]: many in flight at once, in
//! storage that the caller supplies, without an allocator.
//!
//! An operation is a [`Machine`]: a small value that posts READs, WRITEs and atomics on a [`Port`]
//! and receives each completion. It holds no transport, so the same machine runs over every
//! transport and under an exhaustive check. The state that all operations of a structure share
//! (layout, cache, counters) is a context `X`, which [`Run`] passes to each call.
//!
//! [`Pipeline`] manages storage and tokens (operation, generation, part), and queues operations
//! that found the transport full. Callers run operations with tags and
//! [`poll_into`](Pipeline::poll_into), with blocking [`call`](Pipeline::call)s, with
//! [`run_batch`](Pipeline::run_batch), or as futures ([`OperationFuture`]). A [`Structure`] of a
//! [`Kind`] is a pipeline with collective calls: a new data structure begins there
//! (`docs/guide/add-a-structure.md`).
//!
//! [`Transport`]: probeline_transport::Transport
//!
//! ```
//! use probeline_pipeline::{Completed, Machine, Next, Port, Run, Step};
//! use probeline_transport::{RemoteWord, Transport};
//!
//! /// Adds to one word of an array of counters and returns the old value.
//! #[derive(Clone, Copy)]
//! struct Add {
//!     at: RemoteWord,
//!     addend: u64,
//! }
//!
//! impl Machine for Add {
//!     type Outcome = u64;
//!     const IDLE: Self =
//!         Self { at: RemoteWord { owner: probeline_transport::Owner(0), index: 0 }, addend: 0 };
//!     const SLOTS: u32 = 0;
//! }
//!
//! impl Run<()> for Add {
//!     fn advance(&mut self, (): &mut (), port: &mut Port<'_, impl Transport>) -> Next<u64> {
//!         port.fetch_add(0, self.at, self.addend)?;
//!         Ok(Step::Wait)
//!     }
//!     fn on_completion(
//!         &mut self,
//!         completed: Completed,
//!         (): &mut (),
//!         _: &mut Port<'_, impl Transport>,
//!     ) -> Next<u64> {
//!         Ok(Step::Done(completed.word))
//!     }
//! }
//! ```
#![cfg_attr(not(any(test, feature = "model")), no_std)]
#![forbid(unsafe_code)]

mod alone;
mod collective;
mod driver;
mod error;
mod future;
mod kind;
mod machine;
mod mapped;
#[cfg(feature = "model")]
pub mod model;
mod operation;
mod pipeline;
mod placement;
mod plain;
mod port;
mod sink;
mod structure;

pub use alone::Alone;
pub use collective::{Collective, CollectiveError, FINGERPRINT, Parameter};
pub use error::{BatchError, ConfigError, Error, Stop};
pub use future::{Host, OperationFuture};
pub use kind::{Kind, Open, Started, words};
pub use machine::{Atomic, Completed, Machine, Next, Run, Step};
pub use mapped::Mapped;
pub use operation::{Finished, Operation, Tag};
pub use pipeline::Pipeline;
pub use placement::{Distribution, Placement, next_line};
pub use plain::{Bytes, Plain, fill_words};
pub use port::Port;
pub use sink::{Batch, Parts, Pull};
pub use structure::{OperationOf, OutcomeOf, Structure};
