//! A client of PMIx that uses libpmix: put, fence and get.

use core::ffi::{CStr, c_char, c_void};
use core::{ptr, slice};
use std::ffi::CString;

use probeline_transport::dylib::SharedLibrary;

use super::KvStore;
use super::bindings::{
    KEY_BYTES, NSPACE_BYTES, PMIX_BOOL, PMIX_BYTE_OBJECT, PMIX_COLLECT_DATA, PMIX_ERR_NOT_FOUND,
    PMIX_ERR_UNREACH, PMIX_GLOBAL, PMIX_IMMEDIATE, PMIX_SUCCESS, pmix_byte_object_t, pmix_info_t,
    pmix_proc_t, pmix_scope_t, pmix_status_t, pmix_value_data, pmix_value_t,
};
use crate::{JoinError, Server};

/// The shared library libpmix, which starts a thread. PMIx 3, 4 and 5 have the same file name.
const LIBPMIX: SharedLibrary = SharedLibrary {
    file: c"libpmix.so.2",
    if_missing: "install libpmix2 (Debian, Ubuntu) or pmix (Fedora, RHEL) on every node, or add \
                 its folder to LD_LIBRARY_PATH",
    if_too_old: "install PMIx 3 or newer",
};

probeline_transport::calls! {
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

/// The environment variable that a PMIx server sets for the processes of its job.
pub const NAMESPACE_VARIABLE: &str = "PMIX_NAMESPACE";

/// The connection of this process to the PMIx server of its launcher.
///
/// Calls have no time limit: if the server has stopped, they never return. To bound the wait, make
/// them on a thread that the process does not join. Dropping the connection does not finalize it. A
/// launcher treats a process that exits without [`finalize`](Self::finalize) as failed, regardless
/// of its exit status.
pub struct Pmix {
    calls: Calls,
    me: pmix_proc_t,
}

impl Pmix {
    /// Connects to the server of the launcher that started this process.
    ///
    /// # Errors
    /// [`JoinError::Load`] if libpmix cannot be loaded, [`JoinError::NoServer`] if no such launcher
    /// started this process.
    pub fn init() -> Result<Self, JoinError> {
        let calls = Calls::load().map_err(JoinError::Load)?;
        let mut me = pmix_proc_t { nspace: [0; NSPACE_BYTES], rank: 0 };
        // SAFETY: `me` can be written, and no directives are passed.
        let status = unsafe { (calls.PMIx_Init)(&raw mut me, ptr::null_mut(), 0) };
        if status == PMIX_ERR_UNREACH {
            return Err(JoinError::NoServer { server: Server::Pmix });
        }
        let client = Self { calls, me };
        client.check("PMIx_Init", status)?;
        Ok(client)
    }

    /// Finalizes the client. After that the launcher accepts that this process exits with status 0.
    ///
    /// # Errors
    /// [`JoinError::Status`]; the process may exit nevertheless.
    pub fn finalize(&self) -> Result<(), JoinError> {
        // SAFETY: no directives are passed. Later calls return errors.
        let status = unsafe { (self.calls.PMIx_Finalize)(ptr::null(), 0) };
        self.check("PMIx_Finalize", status)
    }

    fn check(&self, call: &'static str, status: pmix_status_t) -> Result<(), JoinError> {
        if status == PMIX_SUCCESS {
            return Ok(());
        }
        // SAFETY: PMIx_Error_string accepts any number and returns a static string.
        let words = unsafe { CStr::from_ptr((self.calls.PMIx_Error_string)(status)) };
        let words = words.to_str().unwrap_or("");
        Err(JoinError::Status { call, status, words })
    }
}

impl KvStore for Pmix {
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError> {
        let bo = pmix_byte_object_t {
            bytes: value.as_ptr().cast::<c_char>().cast_mut(),
            size: value.len(),
        };
        let mut value = pmix_value_t { type_: PMIX_BYTE_OBJECT, data: data(bo) };
        let key = key_of(key);
        // SAFETY: the key ends in NUL; libpmix copies the value and does not write to its bytes,
        // which live until the call returns.
        let status = unsafe { (self.calls.PMIx_Put)(PMIX_GLOBAL, key.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", status)
    }

    /// Commits this process's values and waits for those of the others. PMIx 4 does not wait for a
    /// process that has died.
    fn fence(&mut self) -> Result<(), JoinError> {
        // SAFETY: PMIx_Commit takes no arguments.
        let status = unsafe { (self.calls.PMIx_Commit)() };
        self.check("PMIx_Commit", status)?;
        let directive = true_directive(PMIX_COLLECT_DATA);
        // SAFETY: a null array selects all processes, and `directive` lives until the call returns.
        let status = unsafe { (self.calls.PMIx_Fence)(ptr::null(), 0, &raw const directive, 1) };
        self.check("PMIx_Fence", status)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError> {
        let of = pmix_proc_t { rank, ..self.me };
        let (key, immediate) = (key_of(key), true_directive(PMIX_IMMEDIATE));
        let mut value = ptr::null_mut();
        // SAFETY: process, key and directive live until the call returns; the key ends in NUL.
        let status = unsafe {
            let get = self.calls.PMIx_Get;
            get(&raw const of, key.as_ptr(), &raw const immediate, 1, &raw mut value)
        };
        if status == PMIX_ERR_NOT_FOUND {
            return Ok(None);
        }
        self.check("PMIx_Get", status)?;
        let Some(value) = ptr::NonNull::new(value).map(Value) else { return Ok(None) };
        let text = value.bytes().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        text.map(Some).ok_or(JoinError::Malformed { what: "the PMIx value of another rank" })
    }
}

/// Returns the key in the server, which stores keys per rank.
fn key_of(key: &str) -> CString {
    // A key has no NUL.
    CString::new(format!("probeline.{key}")).unwrap_or_default()
}

/// Returns the union with all bytes initialized.
fn data(bo: pmix_byte_object_t) -> pmix_value_data {
    let mut data = pmix_value_data { largest: [ptr::null_mut(); 3] };
    data.bo = bo;
    data
}

/// Returns a directive with the value true.
fn true_directive(key: &CStr) -> pmix_info_t {
    let mut info = pmix_info_t {
        key: [0; KEY_BYTES],
        flags: 0,
        value: pmix_value_t {
            type_: PMIX_BOOL,
            data: pmix_value_data { largest: [ptr::null_mut(); 3] },
        },
    };
    for (place, byte) in info.key.iter_mut().zip(key.to_bytes()) {
        *place = c_char::from_ne_bytes([*byte]);
    }
    info.value.data.flag = true;
    info
}

/// A value allocated by libpmix, which this type frees.
struct Value(ptr::NonNull<pmix_value_t>);

impl Value {
    /// Returns the address and the number of the bytes, if the value has bytes.
    fn object(&self) -> Option<pmix_byte_object_t> {
        // SAFETY: libpmix allocated and initialized the value, and this is its only owner.
        let pmix_value_t { type_, data } = unsafe { *self.0.as_ptr() };
        // SAFETY: the type identifies this member as the one in use.
        if type_ == PMIX_BYTE_OBJECT { Some(unsafe { data.bo }) } else { None }
    }

    fn bytes(&self) -> Option<&[u8]> {
        let bo = self.object()?;
        if bo.bytes.is_null() {
            return Some(&[]);
        }
        // SAFETY: libpmix allocated `size` bytes there, which are freed with the value.
        Some(unsafe { slice::from_raw_parts(bo.bytes.cast::<u8>(), bo.size) })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let inner = self.object().map(|bo| bo.bytes);
        // SAFETY: libpmix allocates both by malloc(3) for the caller. Inner allocations of other types
        // are leaked.
        unsafe {
            libc::free(inner.unwrap_or(ptr::null_mut()).cast::<c_void>());
            libc::free(self.0.as_ptr().cast::<c_void>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of `exchange` that start processes cover the other calls.
    #[test]
    fn finds_no_server() {
        assert!(std::env::var_os(NAMESPACE_VARIABLE).is_none(), "run the tests without mpirun");
        assert!(matches!(Pmix::init().err(), Some(JoinError::NoServer { .. })));
    }
}
