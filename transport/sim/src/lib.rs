//! A simulated cluster in one process, with virtual time and seeded faults.
//!
//! A [`Cluster`] hands out one [`Engine`] for each owner. Time is virtual: the [`Model`] gives the
//! cost of each operation, the [`Faults`] give what goes wrong. All randomness comes from one seed,
//! so the same [`Config`] and the same calls repeat a run step by step; [`Cluster::trace_hash`]
//! proves it. One thread polls the engines in turn, in the order of [`Cluster::next_delivery`] or
//! in any other order. Blocking code runs unmodified in the module `stage`, behind the feature
//! `std`.
//!
//! The simulation covers everything that the contract of `Transport` allows, not the behaviour of
//! one device. It samples the words of one READ at different times, completes operations in any
//! order, and tears words where the contract does not promise whole ones. It executes READs twice,
//! fails operations that took effect, and loses engines and owners. A landing range holds
//! [`POISON`] until its READ completes.
//!
//! No call allocates after opening. Every call briefly takes the one lock of the cluster.
//!
//! ```
//! use probeline_sim::{Cluster, Config, Model};
//! use probeline_transport::{Completion, Owner, RemoteWord, Token, Transport};
//!
//! let cluster = Cluster::new(Config { model: Model::simple(2_000), ..Config::default() })?;
//! let mut engine = cluster.engine(Owner(0))?;
//! engine.fetch_add(Token(7), RemoteWord { owner: Owner(1), index: 3 }, 5)?;
//! let mut completions = [Completion::default(); 8];
//! assert_eq!(engine.poll(&mut completions)?, 1);
//! assert_eq!(completions[0], Completion { token: Token(7), result: Ok(0) });
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
mod engine;
mod fabric;
mod faults;
mod model;
mod network;
mod oortwijn2015;
mod queue;
mod record;
mod rng;
#[cfg(feature = "std")]
pub mod stage;
mod testing;
mod trace;

pub use cluster::Cluster;
pub use config::{Config, DirectAccess, Order};
pub use engine::{Engine, POISON};
pub use faults::{DEATH_STATUS, Death, Faults};
pub use model::{
    Cost, LongReads, Model, Nic, Prefetched, Rates, Roundtrips, Slowdown, Sockets, Switches,
};
pub use network::WORD_GROUPS;
pub use record::Kind;
pub use rng::Rng;
pub use trace::Counters;
