//! A client of PMIx: put, fence, get, through libpmix.

use core::error::Error;
use core::ffi::{CStr, c_char, c_void};
use core::{fmt, ptr, slice};

use probeline_dylib::LoadError;

use crate::bindings::{
    KEY_BYTES, NSPACE_BYTES, PMIX_BOOL, PMIX_BYTE_OBJECT, PMIX_COLLECT_DATA, PMIX_ERR_NOT_FOUND,
    PMIX_ERR_UNREACH, PMIX_GLOBAL, PMIX_IMMEDIATE, PMIX_JOB_SIZE, PMIX_RANK_WILDCARD, PMIX_SUCCESS,
    PMIX_UINT32, pmix_byte_object_t, pmix_data_type_t, pmix_info_t, pmix_proc_t, pmix_rank_t,
    pmix_status_t, pmix_value_data, pmix_value_t,
};
use crate::library::Calls;

/// The environment variable that a process has whose launcher serves PMIx.
pub const NAMESPACE_VARIABLE: &str = "PMIX_NAMESPACE";

/// One process's place with the PMIx server of its launcher.
///
/// Its calls block, and nothing bounds them: a server that has stopped keeps any of them for ever.
/// Whoever needs a bound makes them on a thread that may be left behind. Dropping it does not say
/// farewell; a launcher takes a process that ends without for one that died, whatever its status.
pub struct Pmix {
    calls: Calls,
    me: pmix_proc_t,
}

impl Pmix {
    /// Connects to the server of the launcher that started this process.
    ///
    /// # Errors
    /// [`PmixError::Load`] without libpmix, [`PmixError::NoServer`] without such a launcher.
    pub fn init() -> Result<Self, PmixError> {
        let calls = Calls::load().map_err(PmixError::Load)?;
        let mut me = pmix_proc_t { nspace: [0; NSPACE_BYTES], rank: 0 };
        // SAFETY: `me` can be written; no directives.
        let status = unsafe { (calls.PMIx_Init)(&raw mut me, ptr::null_mut(), 0) };
        if status == PMIX_ERR_UNREACH {
            return Err(PmixError::NoServer);
        }
        let client = Self { calls, me };
        client.check("PMIx_Init", status)?;
        Ok(client)
    }

    /// This process's rank in its job.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    /// How many processes the job has.
    ///
    /// # Errors
    /// The server's, or [`PmixError::Type`].
    pub fn job_size(&self) -> Result<u32, PmixError> {
        let value = self.value(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &[])?;
        let value = value.ok_or(PmixError::Type { key: "pmix.job.size" })?;
        value.number().ok_or(PmixError::Type { key: "pmix.job.size" })
    }

    /// Puts a value, for others to get after the next [`fence`](Self::fence). A key is put once:
    /// some servers go on answering with its first value.
    ///
    /// # Errors
    /// libpmix's.
    pub fn put(&self, key: &CStr, value: &[u8]) -> Result<(), PmixError> {
        let bo = pmix_byte_object_t {
            bytes: value.as_ptr().cast::<c_char>().cast_mut(),
            size: value.len(),
        };
        let mut value = pmix_value_t { type_: PMIX_BYTE_OBJECT, data: data(bo) };
        // SAFETY: the key ends in NUL; libpmix copies the value and does not write to its bytes,
        // which live until the call returns.
        let status = unsafe { (self.calls.PMIx_Put)(PMIX_GLOBAL, key.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", status)
    }

    /// Waits until all processes of the job have called it; what anyone has put before is there for
    /// everybody after. PMIx 4 takes a process that has died for one that has called it.
    ///
    /// # Errors
    /// The server's, such as that it is gone.
    pub fn fence(&self) -> Result<(), PmixError> {
        // SAFETY: takes nothing.
        let status = unsafe { (self.calls.PMIx_Commit)() };
        self.check("PMIx_Commit", status)?;
        let directive = yes(PMIX_COLLECT_DATA);
        // SAFETY: no processes named, which means all; one directive.
        let status = unsafe { (self.calls.PMIx_Fence)(ptr::null(), 0, &raw const directive, 1) };
        self.check("PMIx_Fence", status)
    }

    /// What `rank` has put under `key` before the last fence; `None` if nothing.
    ///
    /// # Errors
    /// The server's, or [`PmixError::Type`] for what no [`put`](Self::put) of this type has put.
    pub fn get(&self, rank: u32, key: &CStr) -> Result<Option<Vec<u8>>, PmixError> {
        let Some(value) = self.value(rank, key, &[yes(PMIX_IMMEDIATE)])? else { return Ok(None) };
        let bytes = value.bytes().ok_or(PmixError::Type { key: "of another" })?;
        Ok(Some(bytes.to_vec()))
    }

    /// Takes leave of the server.
    ///
    /// # Errors
    /// The server's; the process may end all the same.
    pub fn finalize(&self) -> Result<(), PmixError> {
        // SAFETY: no directives. Calls after it are errors, not undefined.
        let status = unsafe { (self.calls.PMIx_Finalize)(ptr::null(), 0) };
        self.check("PMIx_Finalize", status)
    }

    fn value(
        &self,
        rank: pmix_rank_t,
        key: &CStr,
        directives: &[pmix_info_t],
    ) -> Result<Option<Value>, PmixError> {
        let of = pmix_proc_t { rank, ..self.me };
        let mut value = ptr::null_mut();
        // SAFETY: process, key and directives live until the call returns; the key ends in NUL.
        let status = unsafe {
            let (info, count) = (directives.as_ptr(), directives.len());
            (self.calls.PMIx_Get)(&raw const of, key.as_ptr(), info, count, &raw mut value)
        };
        if status == PMIX_ERR_NOT_FOUND {
            return Ok(None);
        }
        self.check("PMIx_Get", status)?;
        Ok(ptr::NonNull::new(value).map(Value))
    }

    fn check(&self, call: &'static str, status: pmix_status_t) -> Result<(), PmixError> {
        if status == PMIX_SUCCESS {
            return Ok(());
        }
        // SAFETY: takes any number and returns a static string.
        let words = unsafe { CStr::from_ptr((self.calls.PMIx_Error_string)(status)) };
        let words = words.to_str().unwrap_or("");
        Err(PmixError::Status { call, status, words })
    }
}

/// The union with its first bytes set, and no byte of it unset.
fn data(bo: pmix_byte_object_t) -> pmix_value_data {
    let mut data = pmix_value_data { largest: [ptr::null_mut(); 3] };
    data.bo = bo;
    data
}

/// A directive that is true.
fn yes(key: &CStr) -> pmix_info_t {
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

/// A value that libpmix gave: not null, and this one's to free.
struct Value(ptr::NonNull<pmix_value_t>);

impl Value {
    /// Its data, if they are of this type.
    fn data(&self, expected: pmix_data_type_t) -> Option<pmix_value_data> {
        // SAFETY: libpmix gave a whole value, and nobody else has it.
        let pmix_value_t { type_, data } = unsafe { *self.0.as_ptr() };
        (type_ == expected).then_some(data)
    }

    fn number(&self) -> Option<u32> {
        // SAFETY: the type says that this member is the one in use.
        self.data(PMIX_UINT32).map(|data| unsafe { data.uint32 })
    }

    fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: the type says that this member is the one in use.
        let bo = self.data(PMIX_BYTE_OBJECT).map(|data| unsafe { data.bo })?;
        if bo.bytes.is_null() {
            return Some(&[]);
        }
        // SAFETY: libpmix allocated `size` bytes there, which are freed with the value.
        Some(unsafe { slice::from_raw_parts(bo.bytes.cast::<u8>(), bo.size) })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: the type says that this member is the one in use.
        let inner = self.data(PMIX_BYTE_OBJECT).map(|data| unsafe { data.bo.bytes });
        // SAFETY: libpmix takes both from malloc(3) and leaves them to the caller; a number has
        // nothing inside, and what other types have is leaked.
        unsafe {
            libc::free(inner.unwrap_or(ptr::null_mut()).cast::<c_void>());
            libc::free(self.0.as_ptr().cast::<c_void>());
        }
    }
}

/// Why a call of PMIx failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixError {
    /// libpmix is not there.
    Load(LoadError),
    /// No launcher that serves PMIx has started this process.
    NoServer,
    /// libpmix or the server says no.
    Status {
        /// To which call.
        call: &'static str,
        /// A negative number of pmix_common.h.
        status: i32,
        /// What it stands for.
        words: &'static str,
    },
    /// A value is of another type than such a value has.
    Type {
        /// Its key.
        key: &'static str,
    },
}

impl fmt::Display for PmixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::NoServer => f.write_str(
                "no launcher serves PMIx to this process: start it with mpirun of Open MPI or with \
                 srun --mpi=pmix",
            ),
            Self::Status { call, status, words } => write!(
                f,
                "{call} says {words} ({status}): see what the launcher and the other ranks say"
            ),
            Self::Type { key } => write!(
                f,
                "the PMIx server has a value {key} of a type that is not expected: see that all \
                 ranks run this build"
            ),
        }
    }
}

impl Error for PmixError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under a launcher's own server the rest is tested, with processes.
    #[test]
    fn without_a_launcher_there_is_no_server() {
        assert!(std::env::var_os(NAMESPACE_VARIABLE).is_none(), "run the tests without mpirun");
        assert_eq!(Pmix::init().err(), Some(PmixError::NoServer));
    }
}
