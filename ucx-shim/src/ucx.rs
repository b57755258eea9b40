//! UCP as a transport.
//!
//! READ is `ucp_get_nbx`, WRITE `ucp_put_nbx` and a flush behind it, the atomics
//! `ucp_atomic_op_nbx`, on windows that UCX allocates, so that it can share them between processes
//! where it has a way to. libucp is loaded at run time. What UCX does with that depends on the
//! transports it may use and finds, and [`Engine::describe`] tells:
//!
//! - over shared memory (`posix`, `sysv`) the CPU that posts does everything while it posts;
//! - over `tcp` the owner's CPU answers READs, WRITEs and atomics, when it progresses;
//! - over InfiniBand and RoCE the device does READs and WRITEs, and the atomics only in
//!   [`Atomics::Device`] mode on devices that have all of UCP's atomics. Else the owner's CPU does.
//!
//! Who acts is measured when an engine is opened, on owners that stand still. Where the owner's CPU
//! is needed, [`Progress`] says whose duty that is.
//!
//! ```no_run
//! use probeline_transport::{Alone, Completion, Owner, RemoteWord, Token, Transport};
//!
//! let builder = probeline_ucx_shim::ucx::Builder::new(1024).tls(Some("posix,self")).slots(16, 64);
//! let mut engine = builder.open(&mut Alone)?;
//! println!("{}", engine.describe());
//! let word = RemoteWord { owner: Owner(0), index: 5 };
//! engine.compare_and_swap(Token(7), word, 0, 42)?;
//! let mut done = [Completion::default()];
//! while engine.poll(&mut done)? == 0 {}
//! assert_eq!(done[0], Completion { token: Token(7), result: Ok(0) });
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Losing an owner
//! An owner that leaves notifies the others by a WRITE, which they see at their next poll. A thread
//! detects the end of an owner's process on this machine. For an owner on another machine UCX's
//! error handling reports the loss (`UCX_KEEPALIVE_INTERVAL`, `UCX_RC_TIMEOUT` and others); it does
//! not exist over shared memory. UCX ends the operations in flight, or the engine does after half a
//! second. Over `tcp` UCX (1.13) may abort a process that has unanswered requests of the lost owner
//! (`firmware-notes/lost-owners-over-ucx.md`).

mod attendant;
mod builder;
mod closing;
mod context;
mod control;
mod deadline;
mod description;
mod desk;
mod engine;
mod failed;
mod hello;
mod idle;
mod lane;
mod ledger;
mod mapping;
mod memory;
mod open_error;
mod opening;
mod own;
mod queue;
mod settings;
mod slots;
mod watch;
mod worker;

pub use builder::{Builder, Progress};
pub use description::{Description, Idle};
pub use engine::Engine;
pub use failed::CallFailed;
pub use open_error::OpenError;
pub use probeline_ucx_sys::LoadError;
pub use settings::Atomics;
