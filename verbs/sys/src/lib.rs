//! Raw libibverbs, for RC queue pairs: what a C program gets from `infiniband/verbs.h`, under the
//! same names, without linking the library.
//!
//! - Types and constants are generated, from rdma-core 44 on 64-bit x86, and committed. Layouts are
//!   asserted at compile time, so a target whose C types differ does not build; `verbs/oracle`
//!   compares them with other people's bindings and with a C compiler.
//! - The control calls are in a table, [`Verbs`], whose functions are looked up when the program
//!   asks for them: a machine without libibverbs runs the same program and is told what to install.
//! - What C has as inline functions and macros is here as functions. The data path goes straight
//!   to the provider through pointers in the context or the queue pair, as in C: it costs no more
//!   for the library being loaded late.
//!
//! Nothing here checks anything: pointers, sizes and states are the caller's, as in C. A function
//! that a provider leaves out is not a panic but `EOPNOTSUPP`, the library's own answer to that.
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
//!     // ENOSYS: this kernel has no RDMA support at all. Read it as no devices.
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
mod context;
#[allow(unreachable_pub, reason = "written by bindgen")]
mod declarations;
mod extended;
mod library;
mod poll;
mod post;
mod query;
mod register;

pub use bindings::*;
pub use context::verbs_get_ctx;
pub use extended::{
    ibv_create_qp_ex, ibv_wr_abort, ibv_wr_atomic_cmp_swp, ibv_wr_atomic_fetch_add,
    ibv_wr_complete, ibv_wr_rdma_read, ibv_wr_rdma_write, ibv_wr_set_inline_data, ibv_wr_set_sge,
    ibv_wr_start,
};
pub use library::{LIBIBVERBS, Verbs};
pub use poll::{ibv_poll_cq, ibv_req_notify_cq};
pub use post::{ibv_post_recv, ibv_post_send};
pub use probeline_dylib::LoadError;
pub use query::{IBV_QPF_GRH_REQUIRED, ibv_query_device_ex, ibv_query_gid_ex, ibv_query_port};
pub use register::{IBV_ACCESS_OPTIONAL_RANGE, ibv_reg_mr};
