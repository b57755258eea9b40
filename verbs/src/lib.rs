//! Safe minimal verbs for reliable connected queue pairs, and a transport over them.
//!
//! libibverbs is loaded at run time, so that a program with this crate starts on machines without
//! RDMA too and says what is missing.
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
mod memory;
mod port;
mod queue_pair;
mod retry;
mod status;
mod work_request;

pub use completion::{CompletionQueue, WorkCompletion};
pub use context::{AtomicCapability, Context, DeviceLimits};
pub use device::{Device, DeviceList};
pub use domain::ProtectionDomain;
pub use engine::{Builder, Engine, Link, OpenError, SelfTestFailed};
pub use error::VerbFailed;
pub use gid::{Gid, GidError, GidKind};
pub use memory::{Access, LocalRange, Memory, MemoryRegion, RemoteAddress, RemoteRegion};
pub use port::{LinkLayer, Mtu, Port};
pub use queue_pair::{
    Capacity, Init, Path, Peer, PostFailed, QueuePair, ReadyToReceive, ReadyToSend, Reset,
};
pub use retry::{Retry, RetryError};
pub use status::Status;
pub use verbs_sys::{LoadError, Verbs};
pub use work_request::{INLINE_WORDS, ListFull, WorkRequest, WorkRequestList};
