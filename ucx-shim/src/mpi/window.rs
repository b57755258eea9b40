//! A window of MPI: the words that all members access, and the calls on them.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use ::mpi::ffi;
use probeline_transport::SetupError;
use probeline_transport::{LINE_WORDS, Owner, WORD_BYTES};

use super::OpenError;
use super::runtime::check;

/// Whether the library's handles are pointers, as in Open MPI, and not numbers, as in MPICH and the
/// libraries with its binary interface.
pub(super) const POINTER_HANDLES: bool = size_of::<ffi::MPI_Win>() == size_of::<usize>();

/// `MPI_WIN_UNIFIED`, for which the bindings have different names for the two families.
const UNIFIED: c_int = if POINTER_HANDLES { 0 } else { 2 };

/// A call of MPI that starts an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// A READ of this number of words.
    Get(*mut u64, u32),
    /// A WRITE of this number of words.
    Put(*const u64, u32),
    /// The words have the result, the desired and the expected value.
    CompareAndSwap([*mut u64; 3]),
    /// The first two words have the result and the addend.
    FetchAdd([*mut u64; 3]),
}

/// An allocated window in one epoch, from `MPI_Win_lock_all` until it is freed.
#[derive(Debug)]
pub(super) struct Window {
    handle: ffi::MPI_Win,
    /// Returns this owner's words.
    base: NonNull<AtomicU64>,
    words: usize,
    word_type: ffi::MPI_Datatype,
    sum: ffi::MPI_Op,
}

impl Window {
    /// Allocates a zeroed window of at least `words` words in each member of `comm`, all of which call
    /// this.
    ///
    /// The window has whole cache lines. MPICH 4.0.2 gives each member on a machine memory at a
    /// multiple of 16 bytes, and accesses it for the others as if the parts followed each other without
    /// gaps: with an odd number of words the second member does not see what others store in its part.
    pub(super) fn allocate(comm: ffi::MPI_Comm, words: u64) -> Result<Self, OpenError> {
        let words = words.checked_next_multiple_of(LINE_WORDS.into());
        let words = words.and_then(|words| usize::try_from(words).ok());
        let words = words.ok_or(SetupError::WINDOW_TOO_LARGE)?;
        let bytes = words.checked_mul(WORD_BYTES).and_then(|bytes| isize::try_from(bytes).ok());
        let bytes = bytes.ok_or(SetupError::WINDOW_TOO_LARGE)?;
        let info = Info::new()?;
        info.set_true(c"same_size")?;
        info.set_true(c"same_disp_unit")?;
        let mut base: *mut AtomicU64 = ptr::null_mut();
        // SAFETY: a constant of the library.
        let mut handle = unsafe { ffi::RSMPI_WIN_NULL };
        // SAFETY: all members of the communicator call this. MPI takes the pointer to the base as a
        // pointer to anything (MPI 3.1, 11.2.2).
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
        check("MPI_Win_allocate", code)?;
        const NO_MEMORY: &str = "MPI_Win_allocate gave no memory: choose fewer words";
        let base = NonNull::new(base).ok_or(SetupError::Sizes(NO_MEMORY))?;
        // SAFETY: constants of the library.
        let (word_type, sum) = unsafe { (ffi::RSMPI_UINT64_T, ffi::RSMPI_SUM) };
        let window = Self { handle, base, words, word_type, sum };
        window.prepare()?;
        Ok(window)
    }

    fn prepare(&self) -> Result<(), OpenError> {
        if !self.base.is_aligned() {
            return Err(SetupError::Sizes("MPI_Win_allocate gave unaligned memory").into());
        }
        // SAFETY: a window and a constant of the library.
        let code = unsafe { ffi::MPI_Win_set_errhandler(self.handle, ffi::RSMPI_ERRORS_RETURN) };
        check("MPI_Win_set_errhandler", code)?;
        let model = self.model()?;
        if model != UNIFIED {
            return Err(OpenError::NotUnified { model });
        }
        // Touches every page, so that the data path takes no page fault.
        self.own_words().iter().for_each(|word| word.store(0, Relaxed));
        #[allow(clippy::cast_possible_wrap, reason = "a small flag")]
        let no_check = ffi::MPI_MODE_NOCHECK as c_int;
        // SAFETY: a window without an open epoch.
        let code = unsafe { ffi::MPI_Win_lock_all(no_check, self.handle) };
        check("MPI_Win_lock_all", code)?;
        Ok(())
    }

    /// Returns the number of the window's memory model.
    fn model(&self) -> Result<c_int, OpenError> {
        let (mut value, mut there) = (ptr::null_mut::<c_int>(), 0);
        #[allow(clippy::cast_possible_wrap, reason = "a small number")]
        let key = ffi::MPI_WIN_MODEL as c_int;
        // SAFETY: a window, and live pointers; the value of this key is a pointer to an int that
        // lives as long as the window (MPI 3.1, 11.2.6).
        let code = unsafe {
            ffi::MPI_Win_get_attr(self.handle, key, (&raw mut value).cast(), &raw mut there)
        };
        check("MPI_Win_get_attr", code)?;
        if there == 0 || value.is_null() {
            return Ok(-1);
        }
        // SAFETY: not null, so a pointer to an int that lives as long as the window (MPI 3.1, 11.2.6).
        Ok(unsafe { value.read() })
    }

    /// Returns the library's handle of the window.
    pub(super) fn handle(&self) -> ffi::MPI_Win {
        self.handle
    }

    /// Returns this owner's words.
    #[inline]
    pub(super) fn own_words(&self) -> &[AtomicU64] {
        // SAFETY: MPI allocated this number of words, which live until `free` takes the window.
        // Peers change them through MPI, hence atomics.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Starts an operation on the words of `owner` from the word `index` on; returns an MPI code.
    ///
    /// # Safety
    /// The words of `call` are live, and nothing else accesses them, until a `flush` of `owner` has
    /// returned.
    #[inline(always)]
    #[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "in memory")]
    pub(super) unsafe fn start(&self, owner: Owner, index: u64, call: Call) -> c_int {
        let (rank, at) = (rank(owner), index as ffi::MPI_Aint);
        let (word_type, window) = (self.word_type, self.handle);
        // SAFETY: the caller keeps the words of `call` live and unused until a flush has returned; the
        // epoch is open as long as the window exists.
        unsafe {
            match call {
                Call::Get(to, words) => {
                    let (to, count) = (to.cast(), words as c_int);
                    ffi::MPI_Get(to, count, word_type, rank, at, count, word_type, window)
                }
                Call::Put(from, words) => {
                    let (from, count) = (from.cast(), words as c_int);
                    ffi::MPI_Put(from, count, word_type, rank, at, count, word_type, window)
                }
                Call::CompareAndSwap(words) => {
                    let [result, desired, expected] = words.map(<*mut u64>::cast::<c_void>);
                    ffi::MPI_Compare_and_swap(
                        desired, expected, result, word_type, rank, at, window,
                    )
                }
                Call::FetchAdd(words) => {
                    let [result, addend, _] = words.map(<*mut u64>::cast::<c_void>);
                    ffi::MPI_Fetch_and_op(addend, result, word_type, rank, at, self.sum, window)
                }
            }
        }
    }

    /// Waits until all operations on `owner` have completed at both owners; returns an MPI code.
    #[inline]
    pub(super) fn flush(&self, owner: Owner) -> c_int {
        // SAFETY: a window with an open epoch.
        unsafe { ffi::MPI_Win_flush(rank(owner), self.handle) }
    }

    /// Waits until all operations on all owners have completed; returns an MPI code.
    pub(super) fn flush_all(&self) -> c_int {
        // SAFETY: a window with an open epoch.
        unsafe { ffi::MPI_Win_flush_all(self.handle) }
    }

    /// Ends the epoch and frees the memory. All members call it.
    pub(super) fn free(mut self) -> Result<(), OpenError> {
        // SAFETY: a window with an open epoch. `self` is taken, so that nothing refers to the
        // words.
        let codes = unsafe {
            [ffi::MPI_Win_unlock_all(self.handle), ffi::MPI_Win_free(&raw mut self.handle)]
        };
        codes.into_iter().try_for_each(|code| check("MPI_Win_free", code))
    }
}

/// Returns the rank of an owner, which the engine has checked. The number of ranks fits an int.
#[inline]
#[allow(clippy::cast_possible_wrap, reason = "a checked owner")]
fn rank(owner: Owner) -> c_int {
    owner.0 as c_int
}

/// An info object, freed when dropped.
struct Info(ffi::MPI_Info);

impl Info {
    fn new() -> Result<Self, OpenError> {
        // SAFETY: a constant of the library.
        let mut info = Self(unsafe { ffi::RSMPI_INFO_NULL });
        // SAFETY: a live pointer.
        check("MPI_Info_create", unsafe { ffi::MPI_Info_create(&raw mut info.0) })?;
        Ok(info)
    }

    fn set_true(&self, key: &CStr) -> Result<(), OpenError> {
        // SAFETY: an info, and two strings, which are copied.
        let code = unsafe { ffi::MPI_Info_set(self.0, key.as_ptr(), c"true".as_ptr()) };
        check("MPI_Info_set", code)
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: an info created here, or the null one, which must not be freed.
        unsafe {
            if self.0 != ffi::RSMPI_INFO_NULL {
                ffi::MPI_Info_free(&raw mut self.0);
            }
        }
    }
}
