//! Control variables of the MPI library, read by the tools interface (MPI 3.1, chapter 14).

use core::ffi::{CStr, c_int};
use core::ptr;
use std::ffi::CString;

use ::mpi::ffi;

use super::error::SUCCESS;

/// The bytes of the longest value that can be read; flags and choices have 1 or 4.
const MAX_BYTES: usize = 64;

/// The value of a flag, or the name of the value of a choice; `None` if the library has no such
/// variable, or one of another kind.
pub(super) fn read(name: &str) -> Option<String> {
    let tools = Tools::start()?;
    let index = tools.index(&CString::new(name).ok()?)?;
    let (bytes, choice) = tools.kind(index)?;
    let value = tools.value(index, bytes)?;
    if choice.is_null() {
        return Some(if value == 0 { "false" } else { "true" }.to_owned());
    }
    tools.choice(choice, value)
}

/// The tools interface, from its initialisation to its finalisation.
struct Tools;

impl Tools {
    fn start() -> Option<Self> {
        let mut provided = 0;
        // SAFETY: may be called at any time, as often as MPI_T_finalize; a live pointer.
        let code = unsafe { ffi::MPI_T_init_thread(ffi::RSMPI_THREAD_SINGLE, &raw mut provided) };
        (code == SUCCESS).then_some(Self)
    }

    fn index(&self, name: &CStr) -> Option<c_int> {
        let mut index = -1;
        // SAFETY: a string, and a live pointer.
        let code = unsafe { ffi::MPI_T_cvar_get_index(name.as_ptr(), &raw mut index) };
        (code == SUCCESS).then_some(index)
    }

    /// The bytes of a value, and its choices, null if it has none.
    fn kind(&self, index: c_int) -> Option<(usize, ffi::MPI_T_enum)> {
        // SAFETY: a constant of the library.
        let mut value_type = unsafe { ffi::RSMPI_DATATYPE_NULL };
        let mut choice: ffi::MPI_T_enum = ptr::null_mut();
        let [mut verbosity, mut bind, mut scope, mut bytes] = [0; 4];
        // No room for texts, so that MPI writes none.
        let [mut name, mut description] = [0; 2];
        // SAFETY: the index of a variable, and live pointers.
        let code = unsafe {
            ffi::MPI_T_cvar_get_info(
                index,
                ptr::null_mut(),
                &raw mut name,
                &raw mut verbosity,
                &raw mut value_type,
                &raw mut choice,
                ptr::null_mut(),
                &raw mut description,
                &raw mut bind,
                &raw mut scope,
            )
        };
        if code != SUCCESS {
            return None;
        }
        // SAFETY: a type, and a live pointer.
        let code = unsafe { ffi::MPI_Type_size(value_type, &raw mut bytes) };
        (code == SUCCESS).then_some((usize::try_from(bytes).ok()?, choice))
    }

    /// The value, which has `bytes` bytes.
    fn value(&self, index: c_int, bytes: usize) -> Option<c_int> {
        let mut handle = ptr::null_mut();
        let (mut value, mut count) = ([0_u8; MAX_BYTES], 0);
        // SAFETY: a variable that is bound to no object, which null expresses, and live pointers.
        let code = unsafe {
            let (handle, count) = (&raw mut handle, &raw mut count);
            ffi::MPI_T_cvar_handle_alloc(index, ptr::null_mut(), handle, count)
        };
        if code != SUCCESS {
            return None;
        }
        let fits = count == 1 && bytes <= MAX_BYTES;
        // SAFETY: a handle, and room for one value; the handle is freed once.
        let code = unsafe {
            let code = if fits {
                ffi::MPI_T_cvar_read(handle, value.as_mut_ptr().cast())
            } else {
                !SUCCESS
            };
            ffi::MPI_T_cvar_handle_free(&raw mut handle);
            code
        };
        match (code, bytes) {
            (SUCCESS, 1) => Some(value[0].into()),
            (SUCCESS, 4) => value.first_chunk().map(|value| c_int::from_ne_bytes(*value)),
            _ => None,
        }
    }

    /// The name of the choice with this value.
    fn choice(&self, choice: ffi::MPI_T_enum, value: c_int) -> Option<String> {
        let (mut choices, mut none) = (0, 0);
        // SAFETY: the choices of a variable, and live pointers.
        let code = unsafe {
            ffi::MPI_T_enum_get_info(choice, &raw mut choices, ptr::null_mut(), &raw mut none)
        };
        let choices = if code == SUCCESS { 0..choices } else { 0..0 };
        choices.into_iter().find_map(|index| {
            let (mut name, mut its) = ([0_u8; MAX_BYTES], 0);
            let mut room = c_int::try_from(MAX_BYTES).ok()?;
            // SAFETY: one of the choices, and live pointers; the name ends within `room`.
            let code = unsafe {
                let name = name.as_mut_ptr().cast();
                ffi::MPI_T_enum_get_item(choice, index, &raw mut its, name, &raw mut room)
            };
            let name = CStr::from_bytes_until_nul(&name).ok()?;
            (code == SUCCESS && its == value).then(|| name.to_string_lossy().into_owned())
        })
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        // SAFETY: initialised once for this value.
        unsafe { ffi::MPI_T_finalize() };
    }
}
