//! Types and values of pmix_common.h, those that the calls of [`Calls`](super::pmix::Calls)
//! take, under C's names. They are the same in libpmix 3, 4 and 5, which share `libpmix.so.2`; a
//! test compares them with the installed header.
#![allow(non_camel_case_types, reason = "the names of C")]

use core::ffi::{CStr, c_char, c_int, c_void};

/// A status: 0, or a negative number.
pub(crate) type pmix_status_t = c_int;
pub(crate) type pmix_rank_t = u32;
pub(crate) type pmix_scope_t = u8;
pub(crate) type pmix_data_type_t = u16;

pub(crate) const PMIX_SUCCESS: pmix_status_t = 0;
/// No launcher with a server has started this process.
pub(crate) const PMIX_ERR_UNREACH: pmix_status_t = -25;
pub(crate) const PMIX_ERR_NOT_FOUND: pmix_status_t = -46;

/// For all processes of the job.
pub(crate) const PMIX_GLOBAL: pmix_scope_t = 3;

pub(crate) const PMIX_BOOL: pmix_data_type_t = 1;
pub(crate) const PMIX_BYTE_OBJECT: pmix_data_type_t = 27;

/// A fence transmits the values to every node.
pub(crate) const PMIX_COLLECT_DATA: &CStr = c"pmix.collect";
/// A get does not wait for a missing value.
pub(crate) const PMIX_IMMEDIATE: &CStr = c"pmix.immediate";

pub(crate) const NSPACE_BYTES: usize = 256;
pub(crate) const KEY_BYTES: usize = 512;

/// A process: its job and rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_proc_t {
    pub(crate) nspace: [c_char; NSPACE_BYTES],
    pub(crate) rank: pmix_rank_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_byte_object_t {
    pub(crate) bytes: *mut c_char,
    pub(crate) size: usize,
}

/// The members that are used here, and the largest one for the size.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union pmix_value_data {
    pub(crate) flag: bool,
    pub(crate) bo: pmix_byte_object_t,
    pub(crate) largest: [*mut c_void; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_value_t {
    pub(crate) type_: pmix_data_type_t,
    pub(crate) data: pmix_value_data,
}

/// A directive to a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct pmix_info_t {
    pub(crate) key: [c_char; KEY_BYTES],
    pub(crate) flags: u32,
    pub(crate) value: pmix_value_t,
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// Assertions in C that compile only if the header agrees.
    fn assertions() -> String {
        let mut lines = String::from("#include <stddef.h>\n#include <pmix_common.h>\n");
        let mut equal = |c: &str, here: i64| {
            lines.push_str(&format!("_Static_assert({c} == {here}, \"{c} is not {here}\");\n"));
        };
        let sizes = [
            ("pmix_proc_t", size_of::<pmix_proc_t>()),
            ("pmix_byte_object_t", size_of::<pmix_byte_object_t>()),
            ("pmix_value_t", size_of::<pmix_value_t>()),
            ("pmix_info_t", size_of::<pmix_info_t>()),
            ("pmix_status_t", size_of::<pmix_status_t>()),
            ("pmix_scope_t", size_of::<pmix_scope_t>()),
            ("pmix_data_type_t", size_of::<pmix_data_type_t>()),
        ];
        for (name, size) in sizes {
            equal(&format!("sizeof({name})"), i64::try_from(size).unwrap());
        }
        let offsets = [
            ("pmix_proc_t, rank", offset_of!(pmix_proc_t, rank)),
            ("pmix_byte_object_t, size", offset_of!(pmix_byte_object_t, size)),
            ("pmix_value_t, data", offset_of!(pmix_value_t, data)),
            ("pmix_info_t, flags", offset_of!(pmix_info_t, flags)),
            ("pmix_info_t, value", offset_of!(pmix_info_t, value)),
        ];
        for (name, offset) in offsets {
            equal(&format!("offsetof({name})"), i64::try_from(offset).unwrap());
        }
        let values = [
            ("PMIX_ERR_UNREACH", i64::from(PMIX_ERR_UNREACH)),
            ("PMIX_ERR_NOT_FOUND", i64::from(PMIX_ERR_NOT_FOUND)),
            ("PMIX_GLOBAL", i64::from(PMIX_GLOBAL)),
            ("PMIX_BOOL", i64::from(PMIX_BOOL)),
            ("PMIX_BYTE_OBJECT", i64::from(PMIX_BYTE_OBJECT)),
        ];
        for (name, value) in values {
            equal(name, value);
        }
        let keys = [("PMIX_COLLECT_DATA", PMIX_COLLECT_DATA), ("PMIX_IMMEDIATE", PMIX_IMMEDIATE)];
        for (name, key) in keys {
            let key = key.to_str().unwrap();
            lines.push_str(&format!(
                "_Static_assert(__builtin_strcmp({name}, \"{key}\") == 0, \"{name}\");\n"
            ));
        }
        lines
    }

    fn header_folder() -> String {
        let mut ask = Command::new("pkg-config");
        let said = ask.args(["--variable=includedir", "pmix"]).output().unwrap();
        assert!(said.status.success(), "apt-get install libpmix-dev pkg-config");
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }

    /// Returns whether `code` compiles, and the compiler's output.
    fn compiles(code: &str) -> (bool, String) {
        let mut compiler = Command::new("cc");
        compiler.args(["-xc", "-fsyntax-only", "-I", &header_folder(), "-"]);
        compiler.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut compiler = compiler.spawn().unwrap();
        compiler.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
        let said = compiler.wait_with_output().unwrap();
        (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned())
    }

    #[test]
    fn matches_header() {
        let (good, said) = compiles(&assertions());
        assert!(good, "{said}");
        let (good, said) = compiles(&assertions().replace("== -46", "== -47"));
        assert!(!good && said.contains("PMIX_ERR_NOT_FOUND is not -46"), "{said}");
    }
}
