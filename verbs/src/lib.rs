//! Safe minimal verbs for reliable connected queue pairs, and the transport over them.
//!
//! libibverbs is loaded at run time, so that a program with this crate starts on machines without
//! RDMA too and says what is missing. There are two floors:
//!
//! - [`Engine`], the [`Transport`](probeline_transport::Transport): every owner opens one with a [`Builder`]
//!   and is connected to all others and to itself;
//! - the verbs it stands on: [`DeviceList`], [`Context`], [`ProtectionDomain`], [`MemoryRegion`],
//!   [`CompletionQueue`] and [`QueuePair`], for who needs other shapes of communication.
//!
//! ```no_run
//! use probeline_transport::{Alone, Completion, Owner, RemoteWord, Token, Transport};
//!
//! # fn memory(words: usize) -> Box<dyn probeline_verbs::Memory + Send> {
//! #     Box::new((0..words).map(|_| Default::default()).collect::<Vec<_>>())
//! # }
//! let builder = probeline_verbs::Builder::new(1024).slots(16, 64).depth(32);
//! let mut engine = builder.open_in(&mut Alone, |_, words| Ok(memory(words)))?;
//! println!("{}", engine.link()); // what was negotiated and chosen
//! let word = RemoteWord { owner: Owner(0), index: 5 };
//! engine.compare_and_swap(Token(7), word, 0, 42)?;
//! let mut done = [Completion::default()];
//! while engine.poll(&mut done)? == 0 {} // bounded by the queue pair's retries
//! assert_eq!(done[0], Completion { token: Token(7), result: Ok(0) });
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Why the verbs are safe
//! A device works on registered memory at any time, also on that of work requests long forgotten.
//! So a [`MemoryRegion`] owns its memory and shows it as atomics only, and is deregistered before
//! it goes. A request names ranges of regions and keeps nothing alive: posted too late it ends in
//! an error, or, where its key was given out anew, reaches another region of the same domain, which
//! is atomics too. The one exception are an engine's slots. They lie in memory that the engine has
//! allocated itself, in its own protection domain, without access rights for peers. Objects hold
//! what they are made of, so that they are destroyed in the order that the kernel wants; one that
//! cannot be destroyed is leaked with all that it uses.
//!
//! # Threads
//! Everything here may be sent to another thread. [`QueuePair`], [`CompletionQueue`] and [`Engine`]
//! are used by one thread at a time, which `&mut` and the lack of `Sync` see to. [`Context`] and
//! [`ProtectionDomain`] are shared by cloning. Children made by fork(2) must not use any of it; on
//! kernels that move a parent's pinned pages when it forks (before Linux 5.12), set
//! `RDMAV_FORK_SAFE=1`, or the device goes on with the pages that the parent no longer has.
//!
//! # Cost
//! Posting and polling allocate nothing, take no lock of this crate's and make no system call of
//! this crate's: a provider's own functions are called directly. Soft-RoCE's provider makes a
//! system call for each doorbell, and hardware's none.
#![no_std]

extern crate alloc;
#[cfg(any(test, feature = "pin"))]
extern crate std;

mod completion;
mod context;
mod device;
mod domain;
mod engine;
mod error;
mod gid;
mod library;
mod memory;
mod port;
mod queue_pair;
mod retry;
mod status;
mod work_request;

pub use completion::{CompletionQueue, WorkCompletion};
pub use context::{AtomicCapability, Context, DeviceIdentity, DeviceLimits, PciAtomics};
pub use device::{Device, DeviceList};
pub use domain::ProtectionDomain;
pub use engine::{Builder, Engine, Link, OpenError, SelfTestFailed};
pub use error::VerbFailed;
pub use gid::{Gid, GidEntry, GidError, GidKind};
pub use library::Library;
pub use memory::{Access, LocalRange, Memory, MemoryRegion, RemoteAddress, RemoteRegion};
pub use port::{LinkLayer, Mtu, Port, PortState};
pub use probeline_engine::SetupError;
pub use probeline_verbs_sys::{LIBIBVERBS, LoadError};
pub use queue_pair::{
    Capacity, Init, Path, Peer, PostFailed, QueuePair, ReadyToReceive, ReadyToSend, Reset,
};
pub use retry::{Retry, RetryError};
pub use status::Status;
pub use work_request::{INLINE_WORDS, ListFull, WorkRequest, WorkRequestList};
