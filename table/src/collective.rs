//! Collective calls that only tables have: collect garbage, and grow.
//!
//! Every owner makes each of these calls, in the same order, with no other operation in flight.
//! Between the barriers of a call, owners load and store their own buckets with the CPU and access
//! remote words through the transport. The only atomics are the transport's claims of empty
//! buckets.
//!
//! A CPU may store 0 into an occupied bucket while a claim of that bucket is in flight. The claim
//! then fails or succeeds. In either case the store is not lost, in any atomic scope, because a
//! failed claim does not write. The contract requires this (`AtomicScope::Device`): a device that
//! wrote the old value back would undo the store and leave a key in two buckets.
//!
//! An owner whose own part fails still takes the next step of the call
//! ([`Collective`](probeline_pipeline::Collective)), so that owners stay in step and all of them
//! report the failure.

mod grow;
mod phase;
mod retain;

pub(crate) use grow::grow;
pub(crate) use phase::Phase;
pub(crate) use retain::{InBuckets, Occupants, Retain};

/// Attempts to read or to put a key that is moved into a larger table. A transport that fails eight
/// READs in a row is about to report a fault.
const TRIES: u32 = 8;
