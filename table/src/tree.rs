//! Find-or-put of keys of any fixed number of bits as trees of pairs, which all keys share: tree
//! compression, after A. Laarman, J. van de Pol and M. Weber, *Parallel Recursive State Compression
//! for Free* (SPIN 2011).
//!
//! A key is cut into slots of at most 31 bits, the leaves of a binary tree. An inner node is the
//! pair of its children, each a slot or a reference of 31 bits; a reference is the number of the
//! bucket that holds the child's pair. All pairs are 63-bit keys of one table; the pair of a root
//! has a mark in its top bit. Keys that have a part in common share the node of that part, so a key
//! costs little more than the 8 bytes of its root.
//!
//! A find-or-put looks up the nodes from the leaves to the root, one after the other, because a
//! pair needs the references of its children. The rule of buckets makes this right:
//!
//! - A bucket is written once, so a reference stays right, and so does a cache of pairs and their
//!   references, which needs no coherence protocol. A pair has at most one bucket. By induction a
//!   key has at most one root, on all clients.
//! - A root is claimed only after the find-or-puts of its children have ended. A key is therefore
//!   in the table if and only if its root is, and no reference leads to an empty bucket.
//! - An operation takes effect when that of its root does, which is linearizable. Inserts of inner
//!   nodes do not change the set of keys, and may be repeated. A find that misses an inner node is
//!   absent when the find of that node is: no root can refer to a pair that has no bucket. A
//!   find-or-put that has no room for an inner node is `Full`: the buckets in the way never change,
//!   so the key has no root.
//! - A client that dies, or an operation of unknown outcome, leaves at most inner nodes to which no
//!   root refers.

mod cache;
mod config;
mod context;
mod local;
mod machine;
mod shape;
mod table;

pub use cache::PairCacheLine;
pub use config::TreeConfig;
pub(crate) use config::fingerprint;
pub use context::TreeStats;
pub use table::{Tree, TreeOperation, TreeTable};
#[cfg(test)]
pub(crate) use {
    context::TreeContext,
    machine::{Mutant as TreeMutant, TreeFindOrPut},
    shape::Shape,
};
