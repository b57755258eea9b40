//! The state of MPI from `MPI_Init_thread` to `MPI_Finalize`, and the failed calls of MPI.

use core::cell::{Cell, RefCell};
use core::ffi::CStr;
use core::time::Duration;
use std::process;
use std::rc::Rc;
use std::thread;

use ::mpi::ffi;

use super::OpenError;
use super::request::Pending;
use super::window::Window;

/// The state that exists as long as MPI runs.
#[derive(Debug)]
pub(super) struct Runtime {
    /// The longest wait in a collective call.
    pub(super) limit: Duration,
    /// The communicator for the last barrier.
    pub(super) all_ranks: ffi::MPI_Comm,
    /// Whether MPI ends with this value, and not by other code.
    finalizes: bool,
    /// The communicators of all [`Members`](super::Members), in the order of their creation.
    comms: RefCell<Vec<ffi::MPI_Comm>>,
    /// The number of windows that were opened. It is the same for all ranks, which open them together.
    windows: Cell<u64>,
    /// The numbers of the windows of engines that exist.
    live: RefCell<Vec<u64>>,
    /// Windows whose engines are dropped. They are freed when all ranks have dropped theirs.
    retired: RefCell<Vec<(u64, Window)>>,
    /// A call of MPI failed, or a panic has dropped an engine, so that the job ends by `MPI_Abort`.
    failed: Cell<bool>,
}

impl Runtime {
    pub(super) fn new(limit: Duration, all_ranks: ffi::MPI_Comm, finalizes: bool) -> Rc<Self> {
        Rc::new(Self {
            limit,
            all_ranks,
            finalizes,
            comms: RefCell::default(),
            windows: Cell::new(0),
            live: RefCell::default(),
            retired: RefCell::default(),
            failed: Cell::new(false),
        })
    }

    /// Keeps a communicator until the end.
    pub(super) fn keep(&self, comm: ffi::MPI_Comm) {
        self.comms.borrow_mut().push(comm);
    }

    /// Returns the number of a new window, whose engine exists from now on.
    pub(super) fn new_window(&self) -> u64 {
        let number = self.windows.replace(self.windows.get() + 1);
        self.live.borrow_mut().push(number);
        number
    }

    /// Takes the window of an engine that is being dropped.
    pub(super) fn retire(&self, number: u64, window: Window) {
        self.live.borrow_mut().retain(|live| *live != number);
        self.retired.borrow_mut().push((number, window));
    }

    /// Makes the job end by `MPI_Abort`.
    pub(super) fn fail(&self) {
        self.failed.set(true);
    }

    /// Returns the lowest number of a window whose engine exists; `u64::MAX` if none does.
    pub(super) fn in_use_from(&self) -> u64 {
        self.live.borrow().iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Frees the windows with numbers below `until`, which all ranks have retired. All ranks call it.
    pub(super) fn free_until(&self, until: u64) -> Result<(), OpenError> {
        // Freeing is collective, so all ranks free in the same order.
        let mut retired = self.retired.borrow_mut();
        retired.sort_by_key(|(number, _)| *number);
        let mut done = retired.extract_if(.., |(number, _)| *number < until);
        done.try_for_each(|(_, window)| window.free())
    }

    /// Waits until all members of `comm` have called it, for at most `limit`; false if one has not.
    pub(super) fn barrier(&self, comm: ffi::MPI_Comm, limit: Duration) -> Result<bool, OpenError> {
        // SAFETY: a communicator that lives as long as MPI; the call takes no other memory.
        let pending =
            unsafe { Pending::start("MPI_Ibarrier", |request| ffi::MPI_Ibarrier(comm, request))? };
        let all_called = pending.wait(limit)?;
        self.failed.set(self.failed.get() || !all_called);
        Ok(all_called)
    }

    /// Returns the error of a call that took too long.
    pub(super) fn timed_out(&self) -> probeline_transport::ExchangeError {
        let after_s = u32::try_from(self.limit.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        probeline_transport::ExchangeError::TimedOut { after_s, missing: None }
    }

    /// Frees all windows, and ends MPI or frees the communicators. All ranks call it.
    fn finalize(&self) -> Result<(), OpenError> {
        if !self.barrier(self.all_ranks, self.limit)? {
            let text = "not all ranks reached the end of the job in time".to_owned();
            return Err(OpenError::Call { call: "MPI_Ibarrier", status: 0, text, advice: "" });
        }
        self.free_until(u64::MAX)?;
        if !self.finalizes {
            let comms = self.comms.take().into_iter().chain([self.all_ranks]);
            return comms.into_iter().try_for_each(free_comm);
        }
        // SAFETY: all ranks call this, by the barrier, and nothing uses MPI any more, because all
        // its users hold this runtime.
        check("MPI_Finalize", unsafe { ffi::MPI_Finalize() })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.failed.get() || thread::panicking() {
            abort(1);
        }
        if let Err(error) = self.finalize() {
            eprintln!("{error}");
            abort(1);
        }
    }
}

/// Frees a communicator. All its members call it.
fn free_comm(mut comm: ffi::MPI_Comm) -> Result<(), OpenError> {
    // SAFETY: a communicator that was created here, and that nothing uses any more.
    check("MPI_Comm_free", unsafe { ffi::MPI_Comm_free(&raw mut comm) })
}

pub(super) fn abort(code: i32) -> ! {
    // SAFETY: called by a `World` or `Runtime`, hence while MPI runs; ends the process.
    unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
    process::exit(code)
}

/// Makes calls on `comm` return errors instead of ending the job.
pub(super) fn return_errors(comm: ffi::MPI_Comm) -> Result<(), OpenError> {
    // SAFETY: a communicator and a constant of the library.
    let code = unsafe { ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN) };
    check("MPI_Comm_set_errhandler", code)
}

/// Checks the `code` that `call` returned. Called while MPI runs, because it asks for the description
/// of an error.
pub(super) fn check(call: &'static str, code: i32) -> Result<(), OpenError> {
    if code == SUCCESS {
        return Ok(());
    }
    // The longest description is MPICH's, of 512 bytes.
    let mut text = [0; 1024];
    let mut length = 0;
    // SAFETY: room for at least MPI_MAX_ERROR_STRING bytes. The call leaves the text empty for
    // a code that MPI does not know.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned();
    // Open MPI's error if no component, or an unsuitable one, is selected.
    let advice = if call == "MPI_Win_allocate" && text.contains("MPI_ERR_WIN") {
        "; the selected one-sided component probably does not connect all ranks: choose another, \
         `mpirun --mca osc sm` on one machine, `--mca osc ucx` over a network"
    } else {
        ""
    };
    Err(OpenError::Call { call, status: code, text, advice })
}

/// `MPI_SUCCESS`, which the standard makes 0.
pub(super) const SUCCESS: i32 = 0;
