//! One window of MPI: words that the members reach, and the calls on them.

use core::ffi::{CStr, c_int};
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use ::mpi::ffi;
use probeline_transport::{Owner, WORD_BYTES};

use super::{MpiError, OpenError};

/// The info key of Open MPI for atomics of one element by the device's or CPU's own.
const SINGLE: &CStr = c"acc_single_intrinsic";

/// Whether handles of this library are pointers, as in Open MPI, and not numbers, as in MPICH and
/// what shares its binary interface.
pub(super) const POINTER_HANDLES: bool = size_of::<ffi::MPI_Win>() == size_of::<usize>();

/// `MPI_WIN_UNIFIED`, which the bindings call differently for the two families.
const UNIFIED: c_int = if POINTER_HANDLES { 0 } else { 2 };

/// An allocated window in the epoch in which all calls are made.
#[derive(Debug)]
pub(super) struct Window {
    handle: ffi::MPI_Win,
    /// This owner's words.
    base: NonNull<AtomicU64>,
    words: usize,
    word_type: ffi::MPI_Datatype,
    sum: ffi::MPI_Op,
}

impl Window {
    /// A zeroed window of so many words with each member of `comm`, all of whom call this now.
    /// `single` sets Open MPI's "acc_single_intrinsic".
    pub(super) fn allocate(
        comm: ffi::MPI_Comm,
        words: usize,
        single: Option<bool>,
    ) -> Result<Self, OpenError> {
        let bytes = words.checked_mul(WORD_BYTES).and_then(|bytes| isize::try_from(bytes).ok());
        let bytes = bytes.ok_or(OpenError::Sizes("the window is larger than memory can be"))?;
        let info = Info::new()?;
        info.set(c"same_size", c"true")?;
        info.set(c"same_disp_unit", c"true")?;
        if let Some(single) = single {
            info.set(SINGLE, if single { c"true" } else { c"false" })?;
        }
        let mut base: *mut AtomicU64 = ptr::null_mut();
        // SAFETY: a constant of the library.
        let mut handle = unsafe { ffi::RSMPI_WIN_NULL };
        // SAFETY: all members of the communicator call this now. The base goes where a pointer to
        // one is given as a pointer to anything (MPI 3.1, 11.2.2).
        let code = unsafe {
            let unit = c_int::try_from(WORD_BYTES).unwrap_or(8);
            let base = (&raw mut base).cast();
            #[allow(clippy::useless_conversion, reason = "isize here, c_long elsewhere")]
            ffi::MPI_Win_allocate(
                bytes.try_into().unwrap_or(0),
                unit,
                info.0,
                comm,
                base,
                &raw mut handle,
            )
        };
        MpiError::check("MPI_Win_allocate", code)?;
        let null = || OpenError::Sizes("MPI_Win_allocate gave no memory");
        let base = NonNull::new(base).ok_or_else(null)?;
        // SAFETY: constants of the library.
        let (word_type, sum) = unsafe { (ffi::RSMPI_UINT64_T, ffi::RSMPI_SUM) };
        let window = Self { handle, base, words, word_type, sum };
        window.prepare()?;
        Ok(window)
    }

    fn prepare(&self) -> Result<(), OpenError> {
        if !self.base.is_aligned() {
            return Err(OpenError::Sizes("MPI_Win_allocate gave memory that splits words"));
        }
        // SAFETY: a window and a constant of the library.
        let code = unsafe { ffi::MPI_Win_set_errhandler(self.handle, ffi::RSMPI_ERRORS_RETURN) };
        MpiError::check("MPI_Win_set_errhandler", code)?;
        let model = self.model()?;
        if model != UNIFIED {
            return Err(OpenError::NotUnified { model });
        }
        // Now, so that no first touch is left for the data path.
        self.own_words().iter().for_each(|word| word.store(0, Relaxed));
        #[allow(clippy::cast_possible_wrap, reason = "a small flag")]
        let no_check = ffi::MPI_MODE_NOCHECK as c_int;
        // SAFETY: a window of which no epoch is open.
        let code = unsafe { ffi::MPI_Win_lock_all(no_check, self.handle) };
        MpiError::check("MPI_Win_lock_all", code)?;
        Ok(())
    }

    /// The number of the window's memory model.
    fn model(&self) -> Result<c_int, MpiError> {
        let (mut value, mut there) = (ptr::null_mut::<c_int>(), 0);
        #[allow(clippy::cast_possible_wrap, reason = "a small number")]
        let key = ffi::MPI_WIN_MODEL as c_int;
        // SAFETY: a window, and places of this frame; of this key, the value is a pointer to an
        // int that lives with the window (MPI 3.1, 11.2.6).
        let code = unsafe {
            ffi::MPI_Win_get_attr(self.handle, key, (&raw mut value).cast(), &raw mut there)
        };
        MpiError::check("MPI_Win_get_attr", code)?;
        if there == 0 || value.is_null() {
            return Ok(-1);
        }
        // SAFETY: as said above.
        Ok(unsafe { value.read() })
    }

    /// What MPI says of Open MPI's "acc_single_intrinsic" of this window, if it says anything.
    pub(super) fn single(&self) -> Result<Option<bool>, MpiError> {
        let mut info = Info::null();
        // SAFETY: a window, and a place of this frame for an info that is freed when dropped.
        let code = unsafe { ffi::MPI_Win_get_info(self.handle, &raw mut info.0) };
        MpiError::check("MPI_Win_get_info", code)?;
        Ok(info.get(SINGLE)?.map(|value| value == "true" || value == "1"))
    }

    /// The window as the library knows it.
    pub(super) fn handle(&self) -> ffi::MPI_Win {
        self.handle
    }

    /// This owner's words.
    #[inline]
    pub(super) fn own_words(&self) -> &[AtomicU64] {
        // SAFETY: MPI allocated so many words there, which stay until the window is freed, by a
        // method that takes it. Peers change them by MPI, which the type allows for.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Starts a READ of `words` words from the word `from` of `owner`'s; an MPI code.
    ///
    /// # Safety
    /// `to` has room for them, which nobody else uses until a `flush` of `owner` has returned.
    #[inline]
    pub(super) unsafe fn get(&self, to: *mut u64, words: u32, owner: Owner, from: u64) -> c_int {
        let (rank, count, at) = arguments(owner, words, from);
        let word_type = self.word_type;
        // SAFETY: the caller's promise; the epoch is open as long as the window is.
        unsafe {
            ffi::MPI_Get(to.cast(), count, word_type, rank, at, count, word_type, self.handle)
        }
    }

    /// Starts a WRITE of `words` words to the word `to` of `owner`'s on; an MPI code.
    ///
    /// # Safety
    /// `from` holds them, and nobody changes them until a `flush` of `owner` has returned.
    #[inline]
    pub(super) unsafe fn put(&self, from: *const u64, words: u32, owner: Owner, to: u64) -> c_int {
        let (rank, count, at) = arguments(owner, words, to);
        let word_type = self.word_type;
        // SAFETY: as for `get`.
        unsafe {
            ffi::MPI_Put(from.cast(), count, word_type, rank, at, count, word_type, self.handle)
        }
    }

    /// Starts a compare-and-swap of the word `index` of `owner`'s; an MPI code.
    ///
    /// # Safety
    /// `result`, `desired` and `expected` are words, which nobody else uses or changes until a
    /// `flush` of `owner` has returned.
    #[inline]
    pub(super) unsafe fn compare_and_swap(
        &self,
        result: *mut u64,
        [desired, expected]: [*const u64; 2],
        owner: Owner,
        index: u64,
    ) -> c_int {
        let (rank, _, at) = arguments(owner, 1, index);
        // SAFETY: as for `get`.
        unsafe {
            let (desired, expected, result) = (desired.cast(), expected.cast(), result.cast());
            let (word_type, handle) = (self.word_type, self.handle);
            ffi::MPI_Compare_and_swap(desired, expected, result, word_type, rank, at, handle)
        }
    }

    /// Starts a fetch-and-add on the word `index` of `owner`'s; an MPI code.
    ///
    /// # Safety
    /// As for [`compare_and_swap`](Self::compare_and_swap).
    #[inline]
    pub(super) unsafe fn fetch_add(
        &self,
        result: *mut u64,
        addend: *const u64,
        owner: Owner,
        index: u64,
    ) -> c_int {
        let (rank, _, at) = arguments(owner, 1, index);
        // SAFETY: as for `get`.
        unsafe {
            let (addend, result) = (addend.cast(), result.cast());
            let (word_type, sum, handle) = (self.word_type, self.sum, self.handle);
            ffi::MPI_Fetch_and_op(addend, result, word_type, rank, at, sum, handle)
        }
    }

    /// Waits until all that was started to `owner` has ended, here and there; an MPI code.
    #[inline]
    pub(super) fn flush(&self, owner: Owner) -> c_int {
        let (rank, _, _) = arguments(owner, 0, 0);
        // SAFETY: a window whose epoch is open.
        unsafe { ffi::MPI_Win_flush(rank, self.handle) }
    }

    /// Ends the epoch and frees the memory, together with all its members.
    pub(super) fn free(mut self) -> Result<(), MpiError> {
        // SAFETY: a window whose epoch is open; `self` ends here, and with it all its words.
        let codes = unsafe {
            [ffi::MPI_Win_unlock_all(self.handle), ffi::MPI_Win_free(&raw mut self.handle)]
        };
        codes.into_iter().try_for_each(|code| MpiError::check("MPI_Win_free", code))
    }
}

/// As MPI takes them. An engine checks owners and ranges, which are an int's and an address's at
/// most: there are as many ranks as an int counts, and the words lie in memory.
#[inline]
#[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "see above")]
fn arguments(owner: Owner, words: u32, index: u64) -> (c_int, c_int, ffi::MPI_Aint) {
    (owner.0 as c_int, words as c_int, index as ffi::MPI_Aint)
}

/// An info object, freed when dropped.
struct Info(ffi::MPI_Info);

impl Info {
    fn null() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_INFO_NULL })
    }

    fn new() -> Result<Self, MpiError> {
        let mut info = Self::null();
        // SAFETY: a place of this frame.
        MpiError::check("MPI_Info_create", unsafe { ffi::MPI_Info_create(&raw mut info.0) })?;
        Ok(info)
    }

    fn set(&self, key: &CStr, value: &CStr) -> Result<(), MpiError> {
        // SAFETY: an info, and two strings, which are copied.
        let code = unsafe { ffi::MPI_Info_set(self.0, key.as_ptr(), value.as_ptr()) };
        MpiError::check("MPI_Info_set", code)
    }

    fn get(&self, key: &CStr) -> Result<Option<String>, MpiError> {
        let (mut value, mut there) = ([0_u8; 64], 0);
        let room = c_int::try_from(value.len() - 1).unwrap_or(0);
        // SAFETY: an info, a string, and places of this frame, with one byte beyond `room` for
        // the end of the string.
        let code = unsafe {
            let value = value.as_mut_ptr().cast();
            ffi::MPI_Info_get(self.0, key.as_ptr(), room, value, &raw mut there)
        };
        MpiError::check("MPI_Info_get", code)?;
        let value = CStr::from_bytes_until_nul(&value).unwrap_or_default();
        Ok((there != 0).then(|| value.to_string_lossy().into_owned()))
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: an info of this owner's, or the null one, which must not be freed.
        unsafe {
            if self.0 != ffi::RSMPI_INFO_NULL {
                ffi::MPI_Info_free(&raw mut self.0);
            }
        }
    }
}
