//! Parts of exhaustive model checks of machines in the real pipeline: a transport of which the
//! checker decides when each operation takes effect and completes, and a hash of states.
// Indices of a few words, and halves of a product.
#![allow(clippy::cast_possible_truncation)]

mod fingerprint;
mod wire;

pub use fingerprint::fingerprint;
pub use wire::{Action, MAX_READ, MAX_WRITTEN, Posted, Wire};
