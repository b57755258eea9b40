//! The calls, looked up in the shared library at run time.

use core::error::Error;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::fmt;
use core::mem;

use libc::FILE;

use crate::bindings::*;
use crate::declarations;

/// The library's file name, major version included.
const FILE_NAME: &CStr = c"libucp.so.0";

/// Declares [`Ucp`] and what fills it, each call named once.
macro_rules! ucp {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        /// The exported calls of libucp that a user of RMA and atomics makes, and one of libucs.
        ///
        /// What they promise and how they report errors is in `ucp/api/ucp.h`, at each name. A
        /// worker and what belongs to it are for one thread at a time.
        #[derive(Clone, Copy, Debug)]
        pub struct Ucp {
            $(
                $(#[$doc])*
                pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,
            )*
        }

        // The signatures above are those of the header.
        $(
            const _: unsafe extern "C" fn($($type),*) $(-> $result)? = declarations::$name;
        )*

        impl Ucp {
            /// The table with what `symbol` finds for each name; null is not found.
            ///
            /// # Errors
            /// [`LoadError::Symbol`] for the first name not found.
            ///
            /// # Safety
            /// What `symbol` returns for a name is null, or a function with the signature of the
            /// field of that name, which stays callable while any copy of the table is in use.
            pub unsafe fn from_symbols(
                mut symbol: impl FnMut(&'static CStr) -> *mut c_void,
            ) -> Result<Self, LoadError> {
                Ok(Self {
                    $(
                        $name: {
                            const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                            let address = symbol(NAME);
                            if address.is_null() {
                                return Err(LoadError::Symbol { name: NAME });
                            }
                            // SAFETY: not null, hence a function of this signature, by the
                            // contract of `from_symbols`.
                            unsafe {
                                mem::transmute::<
                                    *mut c_void,
                                    unsafe extern "C" fn($($type),*) $(-> $result)?,
                                >(address)
                            }
                        },
                    )*
                })
            }
        }
    };
}

ucp! {
    /// The version of the library, static.
    fn ucp_get_version_string() -> *const c_char;
    /// The configuration by the environment: variables that begin with `UCX_`.
    fn ucp_config_read(
        env_prefix: *const c_char,
        filename: *const c_char,
        config_p: *mut *mut ucp_config_t,
    ) -> ucs_status_t;
    /// Sets a variable of a configuration, named without `UCX_`.
    fn ucp_config_modify(
        config: *mut ucp_config_t,
        name: *const c_char,
        value: *const c_char,
    ) -> ucs_status_t;
    /// Frees a configuration.
    fn ucp_config_release(config: *mut ucp_config_t);
    /// A context; see [`ucp_init`](crate::ucp_init).
    fn ucp_init_version(
        api_major_version: c_uint,
        api_minor_version: c_uint,
        params: *const ucp_params_t,
        config: *const ucp_config_t,
        context_p: *mut ucp_context_h,
    ) -> ucs_status_t;
    /// Destroys a context that has no workers and no mapped memory.
    fn ucp_cleanup(context_p: ucp_context_h);
    /// A context's attributes.
    fn ucp_context_query(context_p: ucp_context_h, attr: *mut ucp_context_attr_t) -> ucs_status_t;
    /// A worker: what progresses communication.
    fn ucp_worker_create(
        context: ucp_context_h,
        params: *const ucp_worker_params_t,
        worker_p: *mut ucp_worker_h,
    ) -> ucs_status_t;
    /// Destroys a worker and its endpoints.
    fn ucp_worker_destroy(worker: ucp_worker_h);
    /// Where endpoints connect to; to be released.
    fn ucp_worker_get_address(
        worker: ucp_worker_h,
        address_p: *mut *mut ucp_address_t,
        address_length_p: *mut usize,
    ) -> ucs_status_t;
    /// Frees an address.
    fn ucp_worker_release_address(worker: ucp_worker_h, address: *mut ucp_address_t);
    /// Progresses everything of a worker, and calls back; 0 if nothing happened.
    fn ucp_worker_progress(worker: ucp_worker_h) -> c_uint;
    /// A descriptor that is readable when an armed worker has something to progress.
    fn ucp_worker_get_efd(worker: ucp_worker_h, fd: *mut c_int) -> ucs_status_t;
    /// Arms the descriptor; `UCS_ERR_BUSY` if there is something to progress first.
    fn ucp_worker_arm(worker: ucp_worker_h) -> ucs_status_t;
    /// Makes the descriptor readable, from any thread.
    fn ucp_worker_signal(worker: ucp_worker_h) -> ucs_status_t;
    /// An endpoint: the way to another worker.
    fn ucp_ep_create(
        worker: ucp_worker_h,
        params: *const ucp_ep_params_t,
        ep_p: *mut ucp_ep_h,
    ) -> ucs_status_t;
    /// Closes an endpoint.
    fn ucp_ep_close_nbx(ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t;
    /// Prints what an endpoint goes over.
    fn ucp_ep_print_info(ep: ucp_ep_h, stream: *mut FILE);
    /// Ends when everything issued on an endpoint before is complete over there.
    fn ucp_ep_flush_nbx(ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t;
    /// Maps memory for remote access, or allocates it too.
    fn ucp_mem_map(
        context: ucp_context_h,
        params: *const ucp_mem_map_params_t,
        memh_p: *mut ucp_mem_h,
    ) -> ucs_status_t;
    /// Ends a mapping, and frees what it has allocated.
    fn ucp_mem_unmap(context: ucp_context_h, memh: ucp_mem_h) -> ucs_status_t;
    /// Where a mapping lies.
    fn ucp_mem_query(memh: ucp_mem_h, attr: *mut ucp_mem_attr_t) -> ucs_status_t;
    /// The key of a mapping, as others get it; to be released.
    fn ucp_rkey_pack(
        context: ucp_context_h,
        memh: ucp_mem_h,
        rkey_buffer_p: *mut *mut c_void,
        size_p: *mut usize,
    ) -> ucs_status_t;
    /// Frees a packed key.
    fn ucp_rkey_buffer_release(rkey_buffer: *mut c_void);
    /// A key for the use on one endpoint.
    fn ucp_ep_rkey_unpack(
        ep: ucp_ep_h,
        rkey_buffer: *const c_void,
        rkey_p: *mut ucp_rkey_h,
    ) -> ucs_status_t;
    /// Frees an unpacked key.
    fn ucp_rkey_destroy(rkey: ucp_rkey_h);
    /// Where remote memory can be loaded from and stored to, if anywhere.
    fn ucp_rkey_ptr(rkey: ucp_rkey_h, raddr: u64, addr_p: *mut *mut c_void) -> ucs_status_t;
    /// WRITE; its end says that the buffer can be reused, and no more.
    fn ucp_put_nbx(
        ep: ucp_ep_h,
        buffer: *const c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
    /// READ.
    fn ucp_get_nbx(
        ep: ucp_ep_h,
        buffer: *mut c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
    /// An atomic; with a reply buffer one that fetches.
    fn ucp_atomic_op_nbx(
        ep: ucp_ep_h,
        opcode: ucp_atomic_op_t,
        buffer: *const c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
    /// A status in words, static.
    fn ucs_status_string(status: ucs_status_t) -> *const c_char;
}

impl Ucp {
    /// Loads libucp, for the rest of the process.
    ///
    /// It is never unloaded: it loads transports as libraries in turn, and patches the C library's
    /// calls that map memory, to hear of registered memory that goes away (`UCX_MEM_EVENTS`).
    ///
    /// # Errors
    /// [`LoadError`]: not installed, or too old.
    pub fn load() -> Result<Self, LoadError> {
        load_from(FILE_NAME)
    }
}

fn load_from(file: &CStr) -> Result<Ucp, LoadError> {
    // SAFETY: `file` ends in NUL. Initialisers of the library run; like any linked library's they
    // are trusted.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(LoadError::Library);
    }
    // SAFETY: dlsym gets a library that is never closed and a name that ends in NUL, which it looks
    // for in the libraries that this one needs too. UCX keeps the signatures of its exported calls
    // under this major version.
    unsafe { Ucp::from_symbols(|name| libc::dlsym(library, name.as_ptr())) }
}

/// The name of a symbol, from a string that ends in NUL.
const fn c_name(name: &str) -> &CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        // Only reached while compiling.
        Err(_) => panic!("one NUL, at the end"),
    }
}

/// Why the library could not be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The dynamic loader does not load the file: it is not installed, or lacks a library itself.
    Library,
    /// The library has no such symbol: it is older than UCX 1.13.
    Symbol {
        /// Which.
        name: &'static CStr,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library => f.write_str(
                "libucp.so.0 cannot be loaded; install libucx0 (Debian, Ubuntu) or ucx (Fedora, \
                 RHEL). If it is installed, LD_DEBUG=libs shows what stops it",
            ),
            Self::Symbol { name } => write!(
                f,
                "libucp.so.0 has no {}; it is too old, install UCX 1.13 or newer",
                name.to_str().unwrap_or("symbol of the name asked for")
            ),
        }
    }
}

impl Error for LoadError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn a_missing_library_names_the_package() {
        let error = load_from(c"libucp.so.no-such-version").unwrap_err();
        assert_eq!(error, LoadError::Library);
        assert!(error.to_string().contains("libucx0"));
    }

    #[test]
    fn another_library_lacks_the_first_symbol() {
        let error = load_from(c"libc.so.6").unwrap_err();
        assert_eq!(error, LoadError::Symbol { name: c"ucp_get_version_string" });
        assert!(error.to_string().contains("no ucp_get_version_string;"));
    }
}
