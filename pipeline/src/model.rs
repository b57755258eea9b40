//! Exhaustive model checks of machines in the real pipeline: a transport of which the checker decides
//! when each operation takes effect and completes, what its READs may return, a search through all
//! worlds, and scenarios drawn at random.
// Indices of a few words, and halves of a product.
#![allow(clippy::cast_possible_truncation)]

mod checker;
mod effects;
mod fingerprint;
mod linear;
mod random;
mod scenario;
mod soak;
mod wire;
mod world;

pub use checker::{check, check_within};
pub use effects::{Effect, combinations, torn};
pub use fingerprint::fingerprint;
pub use linear::{Network, Scripts, Sequential, check_linear};
pub use random::{Draw, Explored, RandomCheck, Stopped, Subject, check_random, is_found, shorter};
pub use scenario::{Driven, MAX_CLIENTS, Plan, Scenario, Turn, Verdict};
pub use soak::{Below, Count, EndOf, MAX_STEPS, Past, RequestOf, Work, ready, run_futures, soak};
pub use wire::{Action, MAX_READ, MAX_WRITTEN, Posted, Wire};
