//! Safe minimal verbs for reliable connected queue pairs, and the transport over them.
//!
//! libibverbs is loaded at run time, so that a program with this crate also starts on machines
//! without RDMA and reports what is missing. The crate has two layers:
//!
//! - [`Engine`], the [`Transport`](probeline_transport::Transport): every owner opens one with a
//!   [`Builder`] and is connected to all others and to itself;
//! - the verbs below it: [`DeviceList`], [`Context`], [`ProtectionDomain`], [`MemoryRegion`],
//!   [`CompletionQueue`] and [`QueuePair`], for other patterns of communication.
//!
//! ```no_run
//! use probeline_transport::{Alone, Completion, Owner, RemoteWord, Sizes, Token, Transport};
//!
//! # fn memory(words: usize) -> Box<dyn probeline_verbs::Memory + Send> {
//! #     Box::new((0..words).map(|_| Default::default()).collect::<Vec<_>>())
//! # }
//! let builder = probeline_verbs::Builder::new(Sizes::new(1024).with_depth(32));
//! let mut engine = builder.open_in(&mut Alone, |_, words| Ok(memory(words)))?;
//! println!("{}", engine.link()); // device, port, MTU and the like
//! let word = RemoteWord { owner: Owner(0), index: 5 };
//! engine.compare_and_swap(Token(7), word, 0, 42)?;
//! let mut done = [Completion::default()];
//! while engine.poll(&mut done)? == 0 {} // bounded by the queue pair's retries
//! assert_eq!(done[0], Completion { token: Token(7), result: Ok(0) });
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Two queue pairs on one device, one READ and its completion by the verbs alone:
//!
//! ```no_run
//! use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use probeline_verbs::{
//!     Access, Capacity, CompletionQueue, DeviceList, Library, MemoryRegion, Path, Peer,
//!     ProtectionDomain, QueuePair, WorkCompletion, WorkRequest,
//! };
//!
//! let devices = DeviceList::new(Library::load()?)?;
//! let context = devices.iter().next().ok_or("no RDMA device")?.open()?;
//! let domain = ProtectionDomain::new(&context)?;
//! let port = context.port(1)?;
//! let gid = context.choose_gid(&port, None)?;
//!
//! let words = |first| (first..first + 8).map(AtomicU64::new).collect::<Vec<_>>();
//! let source = MemoryRegion::register(&domain, words(100), Access::WINDOW)?;
//! let target = MemoryRegion::register(&domain, words(0), Access::PRIVATE)?;
//!
//! let mut completions = CompletionQueue::new(&context, 16)?;
//! let capacity = Capacity { requests: 8, inline_words: 0 };
//! let reader = QueuePair::new(&domain, &completions, capacity)?.init(&port, 0, Access::PRIVATE)?;
//! let owner = QueuePair::new(&domain, &completions, capacity)?.init(&port, 0, Access::WINDOW)?;
//!
//! // Each side needs the number, LID and GID of the other; processes exchange them.
//! let path = Path { gid_index: gid.index, ..Path::over(&port) };
//! let peer = |queue_pair| Peer { queue_pair, psn: path.psn, lid: port.lid, gid: gid.gid };
//! let (to_owner, to_reader) = (peer(owner.number()), peer(reader.number()));
//! let _owner = owner.ready_to_receive(&to_reader, &path)?.ready_to_send(&path)?;
//! let mut reader = reader.ready_to_receive(&to_owner, &path)?.ready_to_send(&path)?;
//!
//! let from = source.remote().at(2, 1).ok_or("beyond the region")?;
//! let into = target.local(0, 1).ok_or("beyond the region")?;
//! reader.post(&WorkRequest::read(7, from, into))?;
//! let mut done = [WorkCompletion::default()];
//! while completions.poll(&mut done)? == 0 {} // bounded by the queue pair's retries
//! assert_eq!((done[0].id(), done[0].result()), (7, Ok(())));
//! assert_eq!(target.words()[0].load(Relaxed), 102);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Why the verbs are safe
//! A device accesses registered memory at any time, also for work requests that the program has
//! forgotten. So a [`MemoryRegion`] owns its memory, shows it as atomics only, and deregisters it
//! before it frees it. A request names ranges of regions and does not keep them alive: if it is
//! posted after its region was dropped it fails or, if the key was reused, accesses another region
//! of the same domain, whose words are atomics too. The only exception are an engine's slots. They
//! lie in memory that the engine has allocated for itself, in its own protection domain, without
//! access rights for peers. Objects keep the objects that they use alive, so that they are destroyed
//! in the order that the kernel requires. An object that cannot be destroyed is leaked with the
//! objects that it uses.
//!
//! # Threads
//! All types may be sent to another thread. [`QueuePair`], [`CompletionQueue`] and [`Engine`] are
//! used by one thread at a time, which `&mut` and the lack of `Sync` ensure. [`Context`] and
//! [`ProtectionDomain`] are shared by cloning. Children of fork(2) must not use any of them. Linux
//! before 5.12 may give pinned pages to the child of a fork; set `RDMAV_FORK_SAFE=1` there, or the
//! device continues to use pages that the parent no longer has.
//!
//! # Cost
//! Posting and polling call the provider's functions directly. This crate allocates nothing there,
//! takes no lock and makes no system call. Soft-RoCE's provider makes a system call for each
//! doorbell, those of hardware make none.
#![no_std]

extern crate alloc;
#[cfg(any(test, feature = "pin"))]
extern crate std;

mod completion;
mod context;
mod device;
mod engine;
mod error;
mod gid;
mod memory;
mod port;
mod queue_pair;
mod retry;
mod work_request;

pub use completion::{CompletionQueue, Status, WorkCompletion};
pub use context::{
    AtomicCapability, Context, DeviceIdentity, DeviceLimits, PciAtomics, ProtectionDomain,
};
pub use device::{Device, DeviceList, Library};
pub use engine::{Builder, Engine, Link, MAX_DEPTH, OpenError};
pub use error::{PortError, VerbFailed};
pub use gid::{Gid, GidEntry, GidKind};
pub use memory::{Access, LocalRange, Memory, MemoryRegion, RemoteAddress, RemoteRegion};
pub use port::{LinkLayer, Mtu, Port, PortState};
pub use probeline_transport::SetupError;
pub use probeline_verbs_sys::LIBIBVERBS;
pub use queue_pair::{
    Capacity, Init, Path, Peer, PostFailed, QueuePair, ReadyToReceive, ReadyToSend, Reset,
};
pub use retry::Retry;
pub use work_request::{INLINE_WORDS, WorkRequest, WorkRequestList};
