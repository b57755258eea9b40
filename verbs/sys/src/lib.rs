//! Raw bindings to libibverbs for one-sided operations of RC queue pairs: the types, constants and calls of
//! `infiniband/verbs.h` under the same names, without linking the library.
//!
//! - Types and constants are generated from rdma-core 44 on 64-bit x86 and committed. Compile-time
//!   assertions check their layouts, so the crate does not build for a target whose C types differ.
//!   `tests/header.rs` compares them with a C compiler and the installed header.
//! - The control calls are in a table, [`Verbs`], which [`Verbs::load`] fills at run time. Without
//!   libibverbs the same program runs, and the error names the package to install.
//! - The inline functions and macros of C are functions here. As in C, the data path calls the
//!   provider directly through pointers in the context or the queue pair. Loading the library at
//!   run time therefore adds no cost to it.
//!
//! These functions check nothing: as in C, the caller is responsible for pointers, sizes and
//! states. If a provider lacks a function, the call returns `EOPNOTSUPP`, as the library does.
//!
//! ```
//! use core::ptr;
//! use probeline_verbs_sys::Verbs;
//!
//! let verbs = match Verbs::load() {
//!     Ok(verbs) => verbs,
//!     Err(why) => return println!("{why}"),
//! };
//! let mut count = 0;
//! // SAFETY: `count` is a live int.
//! let list = unsafe { (verbs.ibv_get_device_list)(&raw mut count) };
//! if list.is_null() {
//!     // ENOSYS: this kernel has no RDMA support, so there are no devices.
//!     return println!("no list: {}", std::io::Error::last_os_error());
//! }
//! println!("{count} devices");
//! // SAFETY: the list came from ibv_get_device_list and is freed once.
//! unsafe { (verbs.ibv_free_device_list)(list) };
//! ```
#![no_std]

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    unreachable_pub,
    clippy::all,
    reason = "written by bindgen, with the names of C"
)]
mod bindings;
#[allow(unreachable_pub, reason = "written by bindgen")]
mod declarations;
mod inline;
mod library;

pub use bindings::*;
pub use inline::{
    IBV_QPF_GRH_REQUIRED, ibv_poll_cq, ibv_post_send, ibv_query_device_ex, ibv_query_gid_ex,
};
pub use library::{LIBIBVERBS, Verbs};
pub use probeline_transport::SetupError;
