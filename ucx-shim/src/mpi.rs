//! MPI-3 one-sided communication as a transport, and MPI's collectives as an exchange.
//!
//! A [`World`] is MPI between `MPI_Init_thread` and `MPI_Finalize`; [`Members`] are who takes part,
//! with no port or secret to choose, for this transport as for any other; [`Builder`] opens an
//! [`Engine`] among them. Processes are started by `mpirun`, `mpiexec` or `srun`.
//!
//! # How operations end
//! Each post is one MPI call: `MPI_Get`, `MPI_Put`, `MPI_Compare_and_swap` or `MPI_Fetch_and_op`, in
//! one epoch that `MPI_Win_lock_all` opens once. MPI names no way to ask whether an atomic has
//! ended, so [`poll`](probeline_transport::Transport::poll) reports them in the order of their posts, and ends
//! the oldest by `MPI_Win_flush` of its owner, and with it all that were posted there before:
//! `MPI_Win_flush_local` would not promise that others see a WRITE, and `MPI_Rget` has no sibling for
//! atomics and costs one of its own in some implementations.
//!
//! So a poll **waits**, for one owner and for what is in flight to it: a round trip where the owner
//! need not take part, and until the owner enters MPI where it must, which is measured at opening
//! and told by [`Facts::idle`] and the capabilities. MPI has no bound for it and no way to take it
//! back; when a process dies, the launcher ends all others. With nothing in flight a poll waits for
//! nothing. Where peers need an owner, its polls let MPI go on with their operations. Posts may wait
//! too, where the library takes a lock for an atomic.
//!
//! # What MPI promises
//! Atomics are atomic with atomics of the same window only, hence
//! [`AtomicScope::Device`](probeline_transport::AtomicScope::Device); the standard wants all of one word to be
//! of one kind at a time ("accumulate_ops"), where the libraries tried here allow any mixture. A
//! READ of a word that an atomic or a WRITE changes at that time is undefined by the standard. All
//! libraries tried copy, so that it brings the old word or the new one, and where the copy goes by
//! bytes a mixture of both: [`Builder::word_reads_whole`].
//!
//! The window must be of the unified memory model, in which the owner's loads and stores act on what
//! its peers reach. A window's memory is freed when all members have dropped their engines, by the
//! next opening or at the end of the [`World`].

mod builder;
mod component;
mod control;
mod cvar;
mod engine;
mod error;
mod exchange;
mod facts;
mod hello;
mod idle;
mod ledger;
mod pending;
mod private;
mod progress;
mod window;
mod world;

pub use builder::Builder;
pub use engine::Engine;
pub use error::{InitError, MpiError, OpenError};
pub use exchange::Members;
pub use facts::{Component, Facts, Single, library_version};
pub use idle::Idle;
pub use world::World;
