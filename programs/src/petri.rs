//! Place/transition nets for programs that enumerate state spaces.
//!
//! [`Net`] reads PNML files and builds standard models. [`Packing`] packs a marking into 63 bits of
//! a word, or into several words. [`Expander`] computes the successors of packed markings, all of
//! them or those that a breadth-first search needs. All are functions of the model alone: processes
//! that load the same model agree on every state.
//!
//! This breadth-first search counts the states and arcs of a net:
//! ```
//! use std::collections::HashSet;
//!
//! use probeline_programs::petri::{Expander, Net, Packing, Successors};
//!
//! let net = Net::load("philosophers:5")?; // or the path of a PNML file
//! let packing = Packing::new(&net)?;
//! let expander = Expander::<1>::new(&net, &packing, Successors::All);
//!
//! let mut states = vec![packing.pack(&net.initial())?];
//! let mut visited = HashSet::from([states[0]]);
//! let mut successors = vec![[0]; expander.max_successors()];
//! let (mut next, mut arcs) = (0, 0);
//! while let Some(state) = states.get(next) {
//!     next += 1;
//!     let expanded = expander.expand(state, &mut successors)?;
//!     arcs += expanded.enabled;
//!     let new = successors[..expanded.nodes].iter().filter(|&&state| visited.insert(state));
//!     states.extend(new);
//! }
//! assert_eq!((states.len(), arcs), (243, 945));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//! [`Packing::new`] samples only a part of a large state space. If a place outgrows its field
//! later, firing returns [`Overflow`]; [`Packing::grown`] gives a wider layout, and the search
//! restarts.

mod bounds;
mod expander;
mod generators;
mod growth;
mod invariant;
mod layout;
mod masks;
#[cfg(test)]
#[path = "petri/tests/naive.rs"]
pub(crate) mod naive;
mod net;
mod packing;
mod pnml;
mod probe;

pub use expander::{Expanded, Expander, Successors};
pub use growth::Growth;
pub use invariant::{Invariant, InvariantError, MAX_NUMBER};
pub use layout::{STATE_BITS, WORD_BITS};
pub use net::{Arc, MAX_TOKENS, Net, NetError, Place, Transition};
pub use packing::{Overflow, Packing, PackingError};
pub use pnml::PnmlError;
