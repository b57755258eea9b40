//! Raw UCP: what a C program gets from `ucp/api/ucp.h`, under the same names, without linking the
//! library.
//!
//! - Types and constants are generated, from UCX 1.13 on 64-bit x86, and committed. Layouts are
//!   asserted at compile time; `tests/header.rs` compares them with the C compiler.
//! - The calls are in a table, [`Ucp`], whose functions are looked up when the program asks for
//!   them: a machine without libucp runs the same program and is told what to install. In C they
//!   are calls through a table too, the linker's.
//! - What C has as inline functions and macros is here as functions.
//!
//! Nothing here checks anything: pointers, sizes and states are the caller's, as in C. Structs of
//! parameters name by a mask which of their fields count, so that a library of a later 1.x takes
//! these.
//!
//! ```
//! match probeline_ucx_sys::Ucp::load() {
//!     // SAFETY: no arguments; the string is static.
//!     Ok(ucp) => println!("{:?}", unsafe { core::ffi::CStr::from_ptr((ucp.ucp_get_version_string)()) }),
//!     Err(why) => println!("{why}"),
//! }
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
pub use inline::{UCS_PTR_IS_ERR, UCS_PTR_IS_PTR, UCS_PTR_STATUS, ucp_dt_make_contig, ucp_init};
pub use library::{LIBUCP, Ucp};
pub use probeline_dylib::LoadError;
