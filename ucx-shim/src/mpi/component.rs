//! Which of Open MPI's one-sided components serves a window: the one whose functions it calls.
//!
//! The window's object is not of a public layout. So the words at its start are taken for pointers,
//! one after another, and that one is the component's module which points to a row of functions of
//! one file `mca_osc_NAME.so`, or, where components are linked into the library, of one prefix
//! `ompi_osc_NAME_`. All of it is read through `/proc/self/mem`, to which a wrong guess is an error
//! code and no more. What it finds is what the library calls; without `/proc` or symbols it finds
//! nothing.

use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use ::mpi::ffi;

use super::window::POINTER_HANDLES;

/// Words of the object that are looked at: of Open MPI 4 and 5 the pointer is among the first 64.
const OBJECT_WORDS: usize = 128;
/// Functions at the start of a module, from "attach" to "fetch and op". The one before them is null
/// where memory is not shared.
const FUNCTIONS: usize = 8;

/// The component's name, such as `sm`; `None` if it cannot be known.
pub(super) fn of_window(window: ffi::MPI_Win) -> Option<String> {
    if !POINTER_HANDLES {
        return None;
    }
    let memory = File::open("/proc/self/mem").ok()?;
    #[allow(clippy::allow_attributes, clippy::unnecessary_cast, reason = "a number elsewhere")]
    let object: [usize; OBJECT_WORDS] = read(&memory, window.0 as usize)?;
    object.into_iter().find_map(|pointer| of_module(read(&memory, pointer)?))
}

/// The name of the component in whose file all of these functions lie.
fn of_module([_, functions @ ..]: [usize; 1 + FUNCTIONS]) -> Option<String> {
    let [first, rest @ ..] = functions.map(component_of);
    let first = first?;
    rest.into_iter().all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Whether the code of a component, by its whole name, is part of this process.
pub(super) fn is_loaded(name: &str) -> bool {
    let file = format!("/mca_{name}.so");
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| line.ends_with(&file))
}

/// The name of the component that the code at `address` is of.
fn component_of(address: usize) -> Option<String> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: looks the address up among the ranges of loaded files and does not follow it
    // (dladdr(3)); the struct is of pointers, for which null is valid.
    let found = unsafe {
        if libc::dladdr(address as *const c_void, found.as_mut_ptr()) == 0 {
            return None;
        }
        found.assume_init()
    };
    let by_file = text(found.dli_fname)
        .and_then(|file| file.rsplit('/').next()?.strip_prefix("mca_osc_")?.strip_suffix(".so"));
    let by_symbol = || text(found.dli_sname)?.strip_prefix("ompi_osc_")?.split('_').next();
    by_file.or_else(by_symbol).map(ToOwned::to_owned)
}

/// A name that dladdr gave.
fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: dladdr's names are strings of loaded files, which stay: Open MPI closes components
    // when it ends.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// The words at `address`; `None` where there is no memory.
fn read<const WORDS: usize>(memory: &File, address: usize) -> Option<[usize; WORDS]> {
    let mut words = [[0; size_of::<usize>()]; WORDS];
    memory.read_exact_at(words.as_flattened_mut(), address as u64).ok()?;
    Some(words.map(usize::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_no_harm() {
        let memory = File::open("/proc/self/mem").unwrap();
        for address in [0, 8, usize::MAX - 7, 1 << 63] {
            assert_eq!(read::<1>(&memory, address), None);
            assert_eq!(component_of(address), None);
        }
        let word = 0x1234_usize;
        assert_eq!(read(&memory, (&raw const word).addr()), Some([word]));
        // A function, but of no component.
        assert_eq!(component_of(libc::getpid as *const () as usize), None);
    }
}
