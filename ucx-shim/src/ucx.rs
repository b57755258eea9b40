//! UCP, the one-sided interface of UCX, as a transport.
//!
//! A READ is `ucp_get_nbx`, a WRITE is `ucp_put_nbx` and, unless a put is a store of this CPU, a flush,
//! and an atomic is `ucp_atomic_op_nbx`. UCX allocates the windows, so that it can share them between processes.
//! libucp is loaded at run time. The transports that UCX may use, which [`Engine::info`] lists,
//! determine how it executes an operation:
//!
//! - over shared memory (`posix`, `sysv`) the CPU that posts executes it while it posts;
//! - over `tcp` the owner's CPU answers READs, WRITEs and atomics when it progresses;
//! - over InfiniBand and RoCE the device executes READs and WRITEs. It executes atomics only in
//!   [`Atomics::Device`] mode and only if it has all of UCP's atomics; otherwise the owner's CPU
//!   does.
//!
//! Opening measures which operations need the owner's CPU. [`Progress`] selects the thread that
//! then progresses them.
//!
//! ```no_run
//! use probeline_transport::{Alone, Completion, Owner, RemoteWord, Sizes, Token, Transport};
//!
//! let builder = probeline_ucx_shim::ucx::Builder::new(Sizes::new(1024)).tls(Some("posix,self"));
//! let mut engine = builder.open(&mut Alone)?;
//! println!("{}", engine.info());
//! let word = RemoteWord { owner: Owner(0), index: 5 };
//! engine.compare_and_swap(Token(7), word, 0, 42)?;
//! let mut done = [Completion::default()];
//! while engine.poll(&mut done)? == 0 {}
//! assert_eq!(done[0], Completion { token: Token(7), result: Ok(0) });
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Losing an owner
//! An engine does not notice that an owner leaves or dies. An operation that has been in flight for
//! 30 to 60 s ends the engine with a fault that names the owner, and so does an error that UCX reports. Over
//! shared memory operations on the memory of a dead owner succeed. Over `tcp` UCX (1.13) may abort a
//! process that has unanswered requests of the lost owner (`firmware-notes/lost-owners-over-ucx.md`).

mod builder;
mod connection_info;
mod context;
mod engine;
mod error;
mod info;
mod open;
mod request_pool;
mod shutdown;
mod window;
mod worker;

pub use crate::OpenError;
pub use builder::{Atomics, Builder, MAX_DEPTH, Progress};
pub use engine::Engine;
pub use info::{Info, NeedsOwner};
