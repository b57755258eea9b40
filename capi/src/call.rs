//! Rules of every function: no panic leaves it, no NULL is dereferenced.

use core::ffi::{CStr, c_char};
use core::panic::AssertUnwindSafe;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;
use std::path::Path;

use crate::status::{Error, probeline_status};

/// Runs the body of a function. A panic becomes an error.
pub(crate) fn caught<R>(body: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // `Handle` abandons what a panic leaves half done.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        Err(Error::new(
            probeline_status::PROBELINE_ERROR_PANIC,
            format_args!("a defect of the library, please report it: {text}"),
        ))
    })
}

/// Runs the body of a function, and returns its status.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Error>) -> probeline_status {
    caught(body).map_or_else(Error::report, |()| probeline_status::PROBELINE_OK)
}

fn null(what: &str) -> Error {
    Error::invalid(format_args!("{what} is NULL"))
}

/// Returns a place to which to write a result.
///
/// # Safety
/// `to` is NULL or valid for writes of a `P`, even if it is uninitialized, while the caller's
/// argument is.
pub(crate) unsafe fn out<'a, P: Copy>(
    to: *mut P,
    what: &str,
) -> Result<&'a mut core::mem::MaybeUninit<P>, Error> {
    check(to, 1, what)?;
    // SAFETY: not NULL and aligned, by the check; the caller keeps it valid for writes (# Safety), and
    // `MaybeUninit` needs no initialized memory.
    Ok(unsafe { &mut *to.cast() })
}

/// Writes an optional result.
///
/// # Safety
/// `to` is NULL or valid for writes of a `P`, at any address.
pub(crate) unsafe fn put<P: Copy>(to: *mut P, value: P) {
    if !to.is_null() {
        // SAFETY: the caller passes memory that is valid for writes of a `P`; it is not NULL, by the
        // check (# Safety).
        unsafe { to.write_unaligned(value) };
    }
}

/// Returns `count` items that the caller gives.
///
/// # Safety
/// `from` is NULL or valid for reads of `count` items, which do not change meanwhile.
pub(crate) unsafe fn slice<'a, P: Copy>(
    from: *const P,
    count: usize,
    what: &str,
) -> Result<&'a [P], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    check(from, count, what)?;
    // SAFETY: not NULL, aligned and not longer than memory, by the check; the caller keeps it valid for
    // reads of `count` items (# Safety).
    Ok(unsafe { core::slice::from_raw_parts(from, count) })
}

/// Returns room for `count` items, which may be uninitialized.
///
/// # Safety
/// `to` is NULL or valid for writes of `count` items, which nothing else accesses meanwhile.
pub(crate) unsafe fn room<'a, P: Copy>(
    to: *mut P,
    count: usize,
    what: &str,
) -> Result<&'a mut [core::mem::MaybeUninit<P>], Error> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(to, count, what)?;
    // SAFETY: not NULL, aligned and not longer than memory, by the check; the caller keeps it valid for
    // writes of `count` items (# Safety), and `MaybeUninit` needs no initialized memory.
    Ok(unsafe { core::slice::from_raw_parts_mut(to.cast(), count) })
}

fn check<P>(from: *const P, count: usize, what: &str) -> Result<(), Error> {
    if from.is_null() {
        return Err(null(what));
    }
    if !from.is_aligned() {
        return Err(Error::invalid(format_args!("{what} is not aligned to {}", align_of::<P>())));
    }
    let bytes = count.checked_mul(size_of::<P>()).and_then(|bytes| isize::try_from(bytes).ok());
    bytes.map(|_| ()).ok_or_else(|| {
        Error::invalid(format_args!("{what} has more items than memory: give a smaller count"))
    })
}

/// Returns a text that the caller gives; `None` for NULL.
///
/// # Safety
/// `text` is NULL or ends with NUL, and does not change meanwhile.
unsafe fn c_text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller passes a text that ends with NUL; it is not NULL, by the check (# Safety).
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Returns a copy of a text that the caller gives; `None` for NULL.
///
/// # Safety
/// As for [`c_text`].
pub(crate) unsafe fn text(text: *const c_char, what: &str) -> Result<Option<String>, Error> {
    // SAFETY: the caller passes NULL or a text that ends with NUL (# Safety).
    let text = unsafe { c_text(text) }.map(CStr::to_str).transpose();
    let text = text.map_err(|_| Error::invalid(format_args!("{what} is not UTF-8")))?;
    Ok(text.map(str::to_owned))
}

/// Returns the path that the caller gives, which is not empty.
///
/// # Safety
/// As for [`c_text`].
pub(crate) unsafe fn path<'a>(name: *const c_char) -> Result<&'a Path, Error> {
    const NAME: &str = "the name of the file";
    // SAFETY: the caller passes NULL or a text that ends with NUL (# Safety).
    let name = unsafe { c_text(name) }.ok_or_else(|| null(NAME))?;
    if name.is_empty() {
        return Err(Error::invalid(format_args!("{NAME} is empty")));
    }
    Ok(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Returns the product of a count and a size, if there is so much memory.
pub(crate) fn product(count: usize, each: usize) -> Result<usize, Error> {
    count.checked_mul(each).ok_or_else(|| Error::invalid("the count is larger than memory"))
}
