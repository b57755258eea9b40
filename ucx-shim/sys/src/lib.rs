//! Raw UCP: the interface of `ucp/api/ucp.h` under its own names, without linking the library.
//!
//! - Types and constants are generated from UCX 1.13 on 64-bit x86, and committed. Layouts are
//!   asserted at compile time; `tests/header.rs` compares them with the C compiler.
//! - The calls are in a table, [`Ucp`], generated too, which [`Ucp::load`] fills at run time. Without libucp the
//!   same program runs, and the error names the package to install.
//! - Inline functions and macros of C are functions here.
//!
//! These functions check nothing: as in C, the caller is responsible for pointers, sizes and
//! states. Structs of parameters have a mask of the fields that are set, so that a later 1.x
//! library accepts these structs.
//!
//! ```
//! match probeline_ucx_sys::Ucp::load() {
//!     // SAFETY: no arguments; the string is static.
//!     Ok(ucp) => println!("{:?}", unsafe { core::ffi::CStr::from_ptr((ucp.ucp_get_version_string)()) }),
//!     Err(error) => println!("{error}"),
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
mod inline;

pub use bindings::*;
pub use inline::{UCS_PTR_IS_PTR, UCS_PTR_STATUS, ucp_dt_make_contig, ucp_init};

use probeline_transport::dylib::SharedLibrary;

/// The shared library that [`Ucp::load`] loads. libucp loads its transports itself. It patches the
/// C library's calls that map memory, to detect registered memory that is unmapped
/// (`UCX_MEM_EVENTS`).
pub const LIBUCP: SharedLibrary = SharedLibrary {
    file: c"libucp.so.0",
    if_missing: "install libucx0 (Debian, Ubuntu) or ucx (Fedora, RHEL)",
    if_too_old: "install UCX 1.13 or newer",
};
