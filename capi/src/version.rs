//! The version of the library.

use core::ffi::{c_char, c_int};

/// The major version of this header.
pub const PROBELINE_VERSION_MAJOR: c_int = 0;
/// The minor version of this header. Before version 1.0 another minor version is incompatible.
pub const PROBELINE_VERSION_MINOR: c_int = 1;
/// The patch version of this header.
pub const PROBELINE_VERSION_PATCH: c_int = 0;

/// Returns the version of the library, such as "0.1.0". Never waits; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn probeline_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_package_version() {
        let parts = [PROBELINE_VERSION_MAJOR, PROBELINE_VERSION_MINOR, PROBELINE_VERSION_PATCH];
        assert_eq!(parts.map(|part| part.to_string()).join("."), env!("CARGO_PKG_VERSION"));
    }
}
