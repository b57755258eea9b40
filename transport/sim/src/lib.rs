//! A cluster in one process: any number of owners, virtual time, and everything that may happen.
//!
//! A [`Cluster`] hands out one [`Engine`] for each owner. Time is virtual: the [`Model`] says what an
//! operation costs, and the [`Faults`] what goes wrong. All chance comes from one seed, so the same
//! [`Config`] and the same calls repeat a run step by step; [`Cluster::trace_hash`] shows it. Engines are polled in turn from one thread, in the order that
//! [`Cluster::next_delivery`] gives or any other; blocking code runs unmodified on the stage,
//! the module `stage` behind the feature `std`.
//!
//! What is simulated is what the contract allows, not what one device does: words of one READ
//! are taken at different times, completions come in any order, words are torn where whole ones
//! are not promised, READs are executed twice, an operation fails although it took effect, and
//! an engine or an owner is lost. Landing slots are poisoned until the completion.
//!
//! No call allocates after opening; every call takes the cluster's one lock, for a moment.
//!
//! ```
//! use probeline_sim::{Cluster, Config, Model};
//! use probeline_transport::{Completion, Owner, RemoteWord, Token, Transport};
//!
//! let cluster = Cluster::new(Config { model: Model::simple(2_000), ..Config::default() })?;
//! let mut engine = cluster.engine(Owner(0))?;
//! engine.fetch_add(Token(7), RemoteWord { owner: Owner(1), index: 3 }, 5)?;
//! let mut ends = [Completion::default(); 8];
//! assert_eq!(engine.poll(&mut ends)?, 1);
//! assert_eq!(ends[0], Completion { token: Token(7), result: Ok(0) });
//! assert_eq!(engine.now_ns(), 2_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod cluster;
mod config;
mod counters;
mod engine;
mod fabric;
mod faults;
mod footprint;
mod model;
mod network;
mod oortwijn2015;
mod record;
mod rng;
#[cfg(feature = "std")]
pub mod stage;
mod station;
mod trace;
mod turns;

pub use cluster::{Cluster, Turn};
pub use config::{Config, ConfigError, OpenError, Order, Reach};
pub use counters::Counters;
pub use engine::{Engine, POISON};
pub use faults::{DEATH_STATUS, Death, Faults};
pub use model::{
    Cost, Fall, Jitter, LongReads, Model, Nic, Prefetched, Rates, Roundtrips, Sockets, Switches,
};
pub use network::WORD_GROUPS;
pub use record::Kind;
pub use rng::Rng;
pub use trace::{Moment, What};
