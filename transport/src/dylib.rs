//! Tables of C functions that are looked up in a shared library at run time, so that one binary
//! runs on machines with and without the library.
//!
//! [`calls!`](crate::calls) declares the table of one library from the signatures in its header.
//!
//! ```
//! use probeline_transport::dylib::SharedLibrary;
//!
//! const LIBM: SharedLibrary = SharedLibrary {
//!     file: c"libm.so.6",
//!     if_missing: "install libc6",
//!     if_too_old: "install glibc 2.34 or newer",
//! };
//!
//! probeline_transport::calls! {
//!     /// Some calls of libm.
//!     // SAFETY: the signatures are those of math.h.
//!     pub struct Math = unsafe LIBM;
//!
//!     /// Rounds `x` down to an integer.
//!     fn floor(x: f64) -> f64;
//! }
//!
//! let math = Math::load()?;
//! // SAFETY: floor takes any number.
//! assert_eq!(unsafe { (math.floor)(3.5) }, 3.0);
//! # Ok::<(), probeline_transport::SetupError>(())
//! ```

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;

use crate::SetupError;

/// A shared library, and the advice for a user whose machine lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLibrary {
    /// The file name with the major version, such as `libibverbs.so.1`.
    pub file: &'static CStr,
    /// The advice if the dynamic loader cannot load the file.
    pub if_missing: &'static str,
    /// The advice if the library lacks a symbol.
    pub if_too_old: &'static str,
}

/// A loaded library. It is never unloaded.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Handle(NonNull<c_void>);

impl SharedLibrary {
    /// Loads the library with its symbols local and all of them resolved.
    ///
    /// # Safety
    /// Running the library's initialisers is safe, as for a linked library.
    #[doc(hidden)]
    pub unsafe fn open(self) -> Result<Handle, SetupError> {
        // SAFETY: `file` ends in NUL; the caller trusts the initialisers.
        let handle = unsafe { libc::dlopen(self.file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Handle).ok_or(SetupError::Library(self))
    }
}

impl Handle {
    /// Returns the address of `name` in the library or in one that it depends on; null if there is
    /// none.
    #[doc(hidden)]
    #[must_use]
    pub fn symbol(self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is from dlopen and never closed; `name` ends in NUL. If a symbol has
        // several versions, dlsym returns the default, as the linker does.
        unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) }
    }
}

pub(crate) fn text(name: &'static CStr) -> &'static str {
    name.to_str().unwrap_or("(not UTF-8)")
}

/// Declares a table of C functions and the functions that fill it.
///
/// The macro takes a struct that names its [`SharedLibrary`], and the signatures of the functions
/// as in the C header. The struct has one public function pointer for each function, and:
/// - `load`, which loads the library for the rest of the process. The library is never unloaded:
///   libraries of this kind load plugins, start threads, and leave pointers into their code.
/// - `from_symbols`, which fills the table from a lookup function, for a library that is linked and
///   for tests.
///
/// With `unsafe` before the library's name, the caller promises that every signature is the
/// library's. With `checked against declarations`, the compiler compares each signature with the
/// function of the same name in the module `declarations`, which bindgen writes.
///
/// The documentation of [`dylib`](crate::dylib) has an example.
#[macro_export]
macro_rules! calls {
    (
        $(#[$table_meta:meta])*
        $vis:vis struct $table:ident = unsafe $library:ident, checked against $declarations:ident;
        $(
            $(#[$meta:meta])*
            fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
        )*
    ) => {
        $crate::calls! {
            $(#[$table_meta])*
            $vis struct $table = unsafe $library;
            $(
                $(#[$meta])*
                fn $name($($argument: $type),*) $(-> $result)?;
            )*
        }
        $(
            const _: unsafe extern "C" fn($($type),*) $(-> $result)? = $declarations::$name;
        )*
    };
    (
        $(#[$table_meta:meta])*
        $vis:vis struct $table:ident = unsafe $library:ident;
        $(
            $(#[$meta:meta])*
            fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
        )*
    ) => {
        $(#[$table_meta])*
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "the names of C")]
        $vis struct $table {
            $(
                $(#[$meta])*
                $vis $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,
            )*
        }

        impl $table {
            /// Loads the library, for the rest of the process.
            ///
            /// # Errors
            /// [`SetupError`]($crate::SetupError): the library is missing, or too old.
            $vis fn load() -> ::core::result::Result<Self, $crate::SetupError> {
                // SAFETY: the `unsafe` of the table's declaration promises that the library is the
                // one whose functions have these signatures. It is never unloaded.
                unsafe {
                    let library = $library.open()?;
                    Self::from_symbols(|name| library.symbol(name))
                }
            }

            /// Fills the table with the address that `symbol` returns for each name; null is not
            /// found.
            ///
            /// # Errors
            /// [`SetupError::Symbol`]($crate::SetupError::Symbol) for the first name not found.
            ///
            /// # Safety
            /// For each name `symbol` returns null, or a function with the signature of the field
            /// of that name that stays callable while any copy of the table is in use.
            $vis unsafe fn from_symbols(
                mut symbol: impl ::core::ops::FnMut(
                    &'static ::core::ffi::CStr,
                ) -> *mut ::core::ffi::c_void,
            ) -> ::core::result::Result<Self, $crate::SetupError> {
                ::core::result::Result::Ok(Self {
                    $(
                        $name: {
                            const NAME: &::core::ffi::CStr =
                                $crate::dylib::c_name(concat!(stringify!($name), "\0"));
                            let address = symbol(NAME);
                            if address.is_null() {
                                return ::core::result::Result::Err($crate::SetupError::Symbol {
                                    library: $library,
                                    name: NAME,
                                });
                            }
                            // SAFETY: not null, hence a function of this signature: the caller of
                            // `from_symbols` upholds it.
                            unsafe {
                                ::core::mem::transmute::<
                                    *mut ::core::ffi::c_void,
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

/// Returns the name of a symbol from a string that ends in NUL, which [`calls!`] adds.
#[doc(hidden)]
#[must_use]
pub const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        // Evaluated only at compile time.
        Err(_) => panic!("one NUL, at the end"),
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_int;
    use core::ptr;

    use super::*;

    const LIBC: SharedLibrary = SharedLibrary {
        file: c"libc.so.6",
        if_missing: "install libc6",
        if_too_old: "install a newer libc6",
    };
    const ABSENT: SharedLibrary = SharedLibrary { file: c"libc.so.no-such-version", ..LIBC };

    calls! {
        /// The library and its symbol are present.
        struct Present = unsafe LIBC;
        /// Returns the absolute value.
        fn abs(number: c_int) -> c_int;
    }
    calls! {
        /// Its second symbol is missing.
        #[allow(dead_code, reason = "never filled")]
        struct Old = unsafe LIBC;
        fn abs(number: c_int) -> c_int;
        fn no_such_call(number: c_int);
    }
    calls! {
        /// Its library is missing.
        #[allow(dead_code, reason = "never filled")]
        struct Absent = unsafe ABSENT;
        fn abs(number: c_int) -> c_int;
    }

    #[test]
    fn finds_and_calls_symbol() {
        let libc = Present::load().unwrap();
        // SAFETY: abs is undefined only for the least int.
        assert_eq!(unsafe { (libc.abs)(-7) }, 7);
    }

    #[test]
    fn missing_library_advises_installation() {
        let error = Absent::load().unwrap_err();
        assert_eq!(error, SetupError::Library(ABSENT));
        let text = error.to_string();
        assert!(text.starts_with("cannot load libc.so.no-such-version: install libc6. "), "{text}");
    }

    #[test]
    fn reports_missing_symbol() {
        let error = Old::load().unwrap_err();
        assert_eq!(error, SetupError::Symbol { library: LIBC, name: c"no_such_call" });
        assert_eq!(error.to_string(), "libc.so.6 has no no_such_call: install a newer libc6");
        // SAFETY: null is not found.
        let error = unsafe { Present::from_symbols(|_| ptr::null_mut()) }.unwrap_err();
        assert_eq!(error, SetupError::Symbol { library: LIBC, name: c"abs" });
    }
}
