//! Control variables of the MPI library, read by the tools interface (MPI 3.1, chapter 14).

use core::ffi::{CStr, c_int};
use core::ptr;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Mutex;

use ::mpi::ffi;

use super::error::SUCCESS;

/// Room for one element of any type that a variable has (MPI 3.1, 14.3.5), and for the name of a
/// choice.
const MAX_BYTES: usize = 64;

/// The values read so far. Open MPI loads all its components for each start of the interface, which
/// takes 0.2 s. Its parameters are fixed when MPI starts.
static VALUES: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());

/// Returns the value of a flag, or the name of the value of a choice; `None` if the library has no such
/// variable, or one of several elements. A value is read once in a process.
pub(super) fn read(name: &str) -> Option<String> {
    // No panic leaves the values half changed.
    let mut values = VALUES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    values.entry(name.to_owned()).or_insert_with(|| read_now(name)).clone()
}

fn read_now(name: &str) -> Option<String> {
    let _tools = Tools::start()?;
    let (name, mut index) = (CString::new(name).ok()?, -1);
    // SAFETY: a string, and a live pointer.
    succeeded(unsafe { ffi::MPI_T_cvar_get_index(name.as_ptr(), &raw mut index) })?;
    let (choices, value) = (choices(index)?, value(index)?);
    if choices.is_null() {
        return Some((value != [0; MAX_BYTES]).to_string());
    }
    choice(choices, c_int::from_ne_bytes(*value.first_chunk()?))
}

/// Returns whether a variable was read.
#[cfg(test)]
pub(super) fn was_read(name: &str) -> bool {
    VALUES.lock().unwrap().contains_key(name)
}

fn succeeded(code: c_int) -> Option<()> {
    (code == SUCCESS).then_some(())
}

/// The tools interface, from its initialisation to its finalisation.
struct Tools;

impl Tools {
    fn start() -> Option<Self> {
        let mut provided = 0;
        // SAFETY: may be called at any time, as often as MPI_T_finalize; a live pointer.
        let code = unsafe { ffi::MPI_T_init_thread(ffi::RSMPI_THREAD_SINGLE, &raw mut provided) };
        succeeded(code).map(|()| Self)
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        // SAFETY: initialised once for this value.
        unsafe { ffi::MPI_T_finalize() };
    }
}

/// The choices of a variable, null if it has none.
fn choices(index: c_int) -> Option<ffi::MPI_T_enum> {
    // SAFETY: a constant of the library.
    let mut value_type = unsafe { ffi::RSMPI_DATATYPE_NULL };
    let mut choices: ffi::MPI_T_enum = ptr::null_mut();
    // No room for texts, so that MPI writes none.
    let [mut name, mut description, mut verbosity, mut bind, mut scope] = [0; 5];
    // SAFETY: the index of a variable, and live pointers.
    succeeded(unsafe {
        ffi::MPI_T_cvar_get_info(
            index,
            ptr::null_mut(),
            &raw mut name,
            &raw mut verbosity,
            &raw mut value_type,
            &raw mut choices,
            ptr::null_mut(),
            &raw mut description,
            &raw mut bind,
            &raw mut scope,
        )
    })?;
    Some(choices)
}

/// The bytes of the value of a variable of one element.
fn value(index: c_int) -> Option<[u8; MAX_BYTES]> {
    let (mut handle, mut count, mut value) = (ptr::null_mut(), 0, [0; MAX_BYTES]);
    // SAFETY: a variable that is bound to no object, which null expresses, and live pointers. There
    // is room for one element; the handle is freed once.
    let code = unsafe {
        let (to, elements) = (&raw mut handle, &raw mut count);
        succeeded(ffi::MPI_T_cvar_handle_alloc(index, ptr::null_mut(), to, elements))?;
        let value = value.as_mut_ptr().cast();
        let code = if count == 1 { ffi::MPI_T_cvar_read(handle, value) } else { !SUCCESS };
        ffi::MPI_T_cvar_handle_free(&raw mut handle);
        code
    };
    succeeded(code).map(|()| value)
}

/// The name of the choice with this value.
fn choice(choices: ffi::MPI_T_enum, value: c_int) -> Option<String> {
    let (mut count, mut length) = (0, 0);
    // SAFETY: the choices of a variable, and live pointers.
    succeeded(unsafe {
        ffi::MPI_T_enum_get_info(choices, &raw mut count, ptr::null_mut(), &raw mut length)
    })?;
    (0..count).find_map(|index| {
        let (mut name, mut found) = ([0_u8; MAX_BYTES], 0);
        let mut room = c_int::try_from(MAX_BYTES).ok()?;
        // SAFETY: one of the choices, and live pointers; the name ends within `room`.
        succeeded(unsafe {
            let name = name.as_mut_ptr().cast();
            ffi::MPI_T_enum_get_item(choices, index, &raw mut found, name, &raw mut room)
        })?;
        let name = CStr::from_bytes_until_nul(&name).ok()?;
        (found == value).then(|| name.to_string_lossy().into_owned())
    })
}
