//! Parts of exhaustive model checks of machines in the real pipeline: a transport of which the
//! checker decides when each operation takes effect and completes, what its READs may return, a hash
//! of states, and scenarios drawn at random.
// Indices of a few words, and halves of a product.
#![allow(clippy::cast_possible_truncation)]

mod effects;
mod fingerprint;
mod random;
mod wire;

pub use effects::{Effect, combinations, torn};
pub use fingerprint::fingerprint;
pub use random::{
    Draw, Explored, RandomCheck, Stopped, Subject, check_random, is_found, without_one,
};
pub use wire::{Action, MAX_READ, MAX_WRITTEN, Posted, Wire};
