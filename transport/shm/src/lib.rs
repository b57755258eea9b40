//! One-sided operations between processes, or threads, of one machine over shared memory.
//!
//! Every owner's window is a memfd that all others map when they open, so an operation is a few
//! CPU instructions at the post, and its completion waits in a queue for `poll`. The memory has no
//! name: nothing remains when the processes have ended. A peer's memory stays mapped and cannot
//! shrink, so a lost owner never causes a signal. A robust mutex, which the kernel marks when its
//! holder dies, tells that an owner is lost.
//!
//! Peers open each other's memfd through `/proc/PID/fd`, which the kernel allows to processes of
//! the same user in the same PID namespace. The exchange carries numbers only.
//!
//! # Memory order
//! READ loads and both atomics are sequentially consistent word by word; a WRITE stores its words
//! with release order and then fences once. So every operation that any owner posts later sees a
//! completed one. On x86-64 the loads are plain ones. No word here publishes another, so there are
//! no interleavings for a model checker to explore; a caller that has such a protocol checks its own.
//!
//! ```
//! use probeline_transport::{Alone, Completion, Owner, RemoteWord, Token, Transport};
//!
//! let mut engine = probeline_shm::Builder::new(1024).slots(16, 64).depth(32).open(&mut Alone)?;
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
mod window;

pub use builder::Builder;
pub use engine::Engine;
pub use error::OpenError;
pub use probeline_engine::SetupError;
