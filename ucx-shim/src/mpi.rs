//! MPI-3 one-sided communication as a transport, and MPI's collectives as an exchange.
//!
//! A [`World`] is MPI between `MPI_Init_thread` and `MPI_Finalize`. [`Members`] are the processes
//! of the job, as an exchange for this transport or any other, without a port or a secret to
//! choose. [`Builder`] opens an [`Engine`] among them. `mpirun`, `mpiexec` or `srun` start the
//! processes.
//!
//! # How operations complete
//! Each post is one MPI call: `MPI_Get`, `MPI_Put`, `MPI_Compare_and_swap` or `MPI_Fetch_and_op`,
//! in an epoch that `MPI_Win_lock_all` opens once. MPI has no call that tests whether an atomic has
//! completed. Therefore [`poll`](probeline_transport::Transport::poll) reports operations in the
//! order of their posts. It completes the oldest one with `MPI_Win_flush` of its owner, together
//! with all earlier operations on that owner. `MPI_Win_flush_local` would not promise that others
//! see a WRITE. `MPI_Rget` has no counterpart for atomics, and in some libraries its requests cost
//! more than the operation.
//!
//! So a poll **waits** for one owner and the operations in flight to it: for a roundtrip if the
//! owner's CPU is not needed, otherwise until the owner enters MPI. Over Open MPI's osc sm it is not
//! needed; all other components may need it ([`Component::needs_owner`] and the capabilities). MPI has
//! no time limit for a flush, and cannot cancel it. When a process dies, the launcher terminates all
//! others; an engine does not notice that another owner's engine is dropped. Without operations in
//! flight a poll does not wait. If peers may need an owner's CPU, its polls let MPI progress their
//! operations. Posts may wait too, if the library takes a lock for an atomic.
//!
//! # What MPI promises
//! Atomics are atomic only with atomics of the same window, hence
//! [`AtomicScope::Device`](probeline_transport::AtomicScope::Device). The standard wants all
//! concurrent atomics on one word to be of one kind ("accumulate_ops"); the libraries tested allow
//! any mixture. In the standard, a READ of a word that an atomic or a WRITE changes at the same
//! time is undefined. All libraries tested copy memory, so the READ returns the old or the new
//! word, or a mixture of both if they copy bytes: [`Builder::word_reads_whole`].
//!
//! The window must be of the unified memory model, in which the owner's loads and stores access the
//! words that its peers access. The memory of a window is freed after all members have dropped
//! their engines, by the next opening or at the end of the [`World`].

mod builder;
mod engine;
mod exchange;
mod in_flight;
mod info;
mod request;
mod runtime;
mod window;
mod world;

pub use crate::OpenError;
pub use builder::{Builder, MAX_DEPTH};
pub use engine::Engine;
pub use exchange::Members;
pub use info::{Component, Info, library_version};
pub use world::{RawComm, World};
