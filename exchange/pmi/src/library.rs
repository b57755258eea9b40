//! The calls of libpmix, which are looked up at run time.

use core::ffi::c_char;

use probeline_dylib::SharedLibrary;

use crate::bindings::{pmix_info_t, pmix_proc_t, pmix_scope_t, pmix_status_t, pmix_value_t};

/// The shared library libpmix, which starts a thread. PMIx 3, 4 and 5 have the same file name.
const LIBPMIX: SharedLibrary = SharedLibrary {
    file: c"libpmix.so.2",
    if_missing: "install libpmix2 (Debian, Ubuntu) or pmix (Fedora, RHEL) on every node, or add \
                 its folder to LD_LIBRARY_PATH",
    if_too_old: "install PMIx 3 or newer",
};

probeline_dylib::calls! {
    /// The calls of libpmix that this crate uses; the PMIx standard specifies them.
    // SAFETY: these are the signatures of the PMIx standard, which are unchanged since version 3,
    // as is the file name of the library.
    pub(crate) struct Calls = unsafe LIBPMIX;

    /// Connects to the launcher's server and returns this process's name. Calls are counted.
    fn PMIx_Init(
        proc: *mut pmix_proc_t, info: *mut pmix_info_t, infos: usize
    ) -> pmix_status_t;
    /// Finalizes the client. After several calls of `PMIx_Init`, the last finalize disconnects.
    fn PMIx_Finalize(info: *const pmix_info_t, infos: usize) -> pmix_status_t;
    /// Stores a copy of a value in this process until the next commit.
    fn PMIx_Put(
        scope: pmix_scope_t, key: *const c_char, value: *mut pmix_value_t
    ) -> pmix_status_t;
    /// Sends the values of earlier puts to this node's server.
    fn PMIx_Commit() -> pmix_status_t;
    /// Waits for the given processes, or for all if none is given.
    fn PMIx_Fence(
        procs: *const pmix_proc_t, count: usize, info: *const pmix_info_t, infos: usize
    ) -> pmix_status_t;
    /// Gets a value of a process, allocated with malloc(3) for the caller.
    fn PMIx_Get(
        proc: *const pmix_proc_t,
        key: *const c_char,
        info: *const pmix_info_t,
        infos: usize,
        value: *mut *mut pmix_value_t,
    ) -> pmix_status_t;
    /// Returns the static description of a status.
    fn PMIx_Error_string(status: pmix_status_t) -> *const c_char;
}
