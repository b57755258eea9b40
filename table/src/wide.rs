//! Find-or-put of keys of any fixed number of words: buckets with tags, and a data array.
//!
//! A bucket's word is an occupied bit, a *tag* (bits of the key's hash that did not choose the
//! home), and a *reference* to an entry, which holds the key. Buckets keep their rule: written
//! once, by compare-and-swap.
//!
//! The rule of entries: the WRITE of the key has completed before a claim refers to the entry, and
//! the entry never changes again. An operation reads an entry only after it has seen the claimed
//! bucket. The READ is therefore posted after the WRITE completed, and the contract ([`Transport`])
//! guarantees that it shows the key. Torn and stale READs of a *bucket* are harmless for the same
//! reasons as with 63-bit keys. If words may tear, a word without zero bytes is whole. Any other
//! word with the wanted tag is confirmed by a fetch-and-add of 0, because a torn reference could
//! lead to an entry that was written and not claimed.
//!
//! - A find reads a chunk, then the entry of a matching tag: two roundtrips.
//! - An insert writes the key to a spare entry along with the first READ, then claims: two
//!   roundtrips at load factor 0.5. A claim that loses to a word with the same tag reads the
//!   winner's entry; the spare entry goes back for another operation of the client.
//! - An entry is reused only if no WRITE or claim of it has an unknown outcome. A rank that dies
//!   between WRITE and claim leaves an entry without a reference; no other client waits for it.
//!
//! [`Transport`]: probeline_transport::Transport

mod block;
mod compaction;
mod config;
mod context;
mod direct;
mod key;
mod machine;
mod spares;
mod table;

pub use config::WideConfig;
pub(crate) use config::fingerprint;
pub use context::EntryStats;
pub(crate) use key::Tagged;
pub use table::{Wide, WideOperation, WideTable};
#[cfg(test)]
pub(crate) use {
    context::WideContext,
    key::Entries,
    machine::{Mutant as WideMutant, WideFindOrPut},
    spares::Spares,
};
