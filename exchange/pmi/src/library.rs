//! libpmix, looked up at run time.

use core::error::Error;
use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::mem;

use crate::bindings::{pmix_info_t, pmix_proc_t, pmix_scope_t, pmix_status_t, pmix_value_t};

/// The library's file name, major version included: PMIx 3, 4 and 5 all have this one.
const FILE: &CStr = c"libpmix.so.2";

/// Declares [`Calls`] and what fills it, each call named once.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        fn $field:ident = $name:literal ($($type:ty),*) -> $result:ty;
    )*) => {
        /// The calls of libpmix made here; what they promise is in the PMIx standard.
        #[derive(Clone, Copy)]
        pub(crate) struct Calls {
            $(
                $(#[$doc])*
                pub(crate) $field: unsafe extern "C" fn($($type),*) -> $result,
            )*
        }

        impl Calls {
            /// # Errors
            /// [`LoadError::Symbol`] for the first name not found.
            ///
            /// # Safety
            /// What `symbol` returns for a name is null, or a function with the signature of the
            /// field of that name that stays callable for the rest of the process.
            unsafe fn from_symbols(
                symbol: impl Fn(&'static CStr) -> *mut c_void,
            ) -> Result<Self, LoadError> {
                Ok(Self {
                    $(
                        $field: {
                            let address = symbol($name);
                            if address.is_null() {
                                return Err(LoadError::Symbol { name: $name });
                            }
                            // SAFETY: not null, hence a function of this signature, by the
                            // contract of `from_symbols`.
                            unsafe {
                                mem::transmute::<
                                    *mut c_void,
                                    unsafe extern "C" fn($($type),*) -> $result,
                                >(address)
                            }
                        },
                    )*
                })
            }
        }
    };
}

calls! {
    /// Connects to the launcher's server; tells who this process is. Counts its calls.
    fn init = c"PMIx_Init"(*mut pmix_proc_t, *mut pmix_info_t, usize) -> pmix_status_t;
    /// Says that this process has done with the server; the last one of several disconnects.
    fn finalize = c"PMIx_Finalize"(*const pmix_info_t, usize) -> pmix_status_t;
    /// Keeps a copy of a value here until the next commit.
    fn put = c"PMIx_Put"(pmix_scope_t, *const c_char, *mut pmix_value_t) -> pmix_status_t;
    /// Brings what was put to this node's server.
    fn commit = c"PMIx_Commit"() -> pmix_status_t;
    /// Waits for the processes named, or for all where none is.
    fn fence = c"PMIx_Fence"(
        *const pmix_proc_t, usize, *const pmix_info_t, usize
    ) -> pmix_status_t;
    /// A value of a process, allocated with malloc(3) for the caller.
    fn get = c"PMIx_Get"(
        *const pmix_proc_t, *const c_char, *const pmix_info_t, usize, *mut *mut pmix_value_t
    ) -> pmix_status_t;
    /// A status in words, static.
    fn error_string = c"PMIx_Error_string"(pmix_status_t) -> *const c_char;
}

impl Calls {
    /// Loads libpmix, for the rest of the process: it has a thread of its own.
    ///
    /// # Errors
    /// [`LoadError`]: not installed, or not libpmix.
    pub(crate) fn load() -> Result<Self, LoadError> {
        load_from(FILE)
    }
}

fn load_from(file: &CStr) -> Result<Calls, LoadError> {
    // SAFETY: `file` ends in NUL. Initialisers of the library run; like any linked library's they
    // are trusted. Its plugins name it as what they need, so its symbols may stay local.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(LoadError::Library);
    }
    // SAFETY: dlsym gets a library that is never closed and a name that ends in NUL. The PMIx
    // standard keeps these signatures since version 3, as does this file name.
    unsafe { Calls::from_symbols(|name| libc::dlsym(library, name.as_ptr())) }
}

/// Why libpmix could not be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The dynamic loader does not load the file: it is not installed, or lacks a library itself.
    Library,
    /// The library has no such symbol.
    Symbol {
        /// Which.
        name: &'static CStr,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library => f.write_str(
                "libpmix.so.2 cannot be loaded: install libpmix2 (Debian, Ubuntu) or pmix (Fedora, \
                 RHEL) on every node, or add its folder to LD_LIBRARY_PATH",
            ),
            Self::Symbol { name } => write!(
                f,
                "libpmix.so.2 has no {}: install PMIx 3 or newer",
                name.to_str().unwrap_or("symbol of the name asked for")
            ),
        }
    }
}

impl Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_the_packages() {
        let error = load_from(c"libpmix.so.no-such-version").err().unwrap();
        assert_eq!(error, LoadError::Library);
        assert!(error.to_string().contains("install libpmix2"));
    }

    #[test]
    fn another_library_lacks_the_first_symbol() {
        let error = load_from(c"libc.so.6").err().unwrap();
        assert_eq!(error, LoadError::Symbol { name: c"PMIx_Init" });
        assert!(error.to_string().contains("no PMIx_Init:"));
    }
}
