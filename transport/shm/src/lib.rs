//! One-sided operations between processes, or threads, of one machine over shared memory.
//!
//! Every owner's window is a memfd that all other owners map when they open. A post prefetches the
//! words of its operation and queues it, so that the cache misses of operations in flight overlap.
//! The CPU executes it at the kick, or when `poll` reports it, in the order of the posts.
//!
//! A memfd has no name in the file system, so nothing remains after the processes exit. A peer's
//! memory stays mapped and cannot shrink, so a lost owner never causes a signal. Each owner holds a
//! robust mutex, which the kernel marks when its holder dies, so that peers detect a lost owner.
//!
//! Peers open each other's memfd through `/proc/PID/fd`, which the kernel allows to processes of
//! the same user in the same PID namespace. The exchange carries only numbers.
//!
//! # Memory order
//! READ loads and both atomics are sequentially consistent word by word; a WRITE stores its words
//! with release order, and a poll or kick that executes a WRITE then executes one fence. So every
//! operation posted later, by any owner, sees the effects of a completed one. On x86-64 the loads
//! are plain ones, and copies use vectors. No word in this crate publishes another, so a model
//! checker has no interleavings to explore here; a structure with such a protocol checks its own.
//!
//! ```
//! use probeline_transport::{Alone, Completion, Owner, RemoteWord, Sizes, Token, Transport};
//!
//! let mut engine = probeline_shm::Builder::new(Sizes::new(1024)).open(&mut Alone)?;
//! let word = RemoteWord { owner: Owner(0), index: 5 };
//! engine.compare_and_swap(Token(7), word, 0, 42)?;
//! let mut done = [Completion::default()];
//! assert_eq!(engine.poll(&mut done)?, 1);
//! assert_eq!(done[0], Completion { token: Token(7), result: Ok(0) });
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod builder;
mod engine;
mod error;
mod lock;
mod pending;
mod window;

pub use builder::{Builder, MAX_DEPTH};
pub use engine::Engine;
pub use error::OpenError;
pub use probeline_transport::SetupError;
