//! MPI in this process, as its users see it.

use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::rc::Rc;

use ::mpi::ffi;

use super::OpenError;
use super::exchange::Members;
use super::runtime::{Runtime, abort, check, return_errors};

/// A communicator as the C interface of the MPI library has it.
pub type RawComm = ffi::MPI_Comm;

/// Whether this process has started MPI, which it can do once.
static STARTED: AtomicBool = AtomicBool::new(false);

/// MPI from its initialization to its finalization. MPI is finalized when this value and all
/// [`Members`] and engines created from it are dropped.
///
/// Finalizing is collective: it waits for the other ranks, no longer than the limit of
/// [`init`](Self::init). It ends the job by `MPI_Abort` if they do not arrive, if this thread
/// panics, if a panic has dropped an engine, or if MPI has failed, because `MPI_Finalize` would
/// wait forever. If a process exits without dropping this value, the launcher terminates all
/// others.
///
/// It belongs to the thread that created it:
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_ucx_shim::mpi::World>();
/// ```
#[derive(Debug)]
pub struct World(Rc<Runtime>);

impl World {
    /// Starts MPI, for use by this thread alone (`MPI_THREAD_FUNNELED`), with errors returned.
    /// `limit` is the maximum time to wait for the slowest rank in a collective call.
    ///
    /// # Errors
    /// [`OpenError`]: MPI was started before, or cannot start. Some libraries abort the process
    /// instead.
    pub fn init(limit: Duration) -> Result<Self, OpenError> {
        let mut running = 0;
        // SAFETY: may be called at any time, with a live pointer.
        unsafe { ffi::MPI_Initialized(&raw mut running) };
        if running != 0 || STARTED.swap(true, Relaxed) {
            return Err(OpenError::Second);
        }
        let mut provided = 0;
        // SAFETY: MPI has not been started, by `STARTED` in this crate and by the call above
        // elsewhere. Null is valid for the arguments (MPI 3.1, 8.7).
        let code = unsafe {
            let wanted = ffi::RSMPI_THREAD_FUNNELED;
            ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), wanted, &raw mut provided)
        };
        check("MPI_Init_thread", code)?;
        // SAFETY: a constant of the library.
        let world = unsafe { ffi::RSMPI_COMM_WORLD };
        return_errors(world)?;
        let all_ranks = duplicate(world)?;
        Ok(Self(Runtime::new(limit, all_ranks, true)))
    }

    /// Uses MPI that other code of this process has started and will finalize, among the members of
    /// `comm`. All of them call it. This value and all [`Members`] and engines created from it have to
    /// be dropped before MPI is finalized; the last one waits for the other members, as in
    /// [`init`](Self::init), and frees everything.
    ///
    /// # Safety
    /// `comm` is an intracommunicator of the MPI library, if that is running. Only this thread
    /// calls MPI, or MPI was started with `MPI_THREAD_MULTIPLE`.
    ///
    /// # Errors
    /// [`OpenError::NotRunning`], or MPI failed.
    pub unsafe fn attach(comm: RawComm, limit: Duration) -> Result<Self, OpenError> {
        if !is_running() {
            return Err(OpenError::NotRunning);
        }
        Ok(Self(Runtime::new(limit, duplicate(comm)?, false)))
    }

    /// Starts MPI as [`init`](Self::init), or, if other code has started MPI, as [`attach`](Self::attach) among
    /// all processes.
    ///
    /// # Safety
    /// If other code has started MPI, only this thread calls it, or it was started with
    /// `MPI_THREAD_MULTIPLE`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub unsafe fn init_or_attach(limit: Duration) -> Result<Self, OpenError> {
        if !is_running() {
            return Self::init(limit);
        }
        // SAFETY: a communicator of the library. The caller upholds that no other thread calls MPI, or
        // that MPI was started for several threads.
        unsafe { Self::attach(ffi::RSMPI_COMM_WORLD, limit) }
    }

    /// Returns all processes of the job, with a communicator that only they use. All processes call
    /// it.
    ///
    /// # Errors
    /// [`OpenError`]: a process did not call it in time, or MPI failed.
    pub fn members(&self) -> Result<Members, OpenError> {
        if !self.0.barrier(self.0.all_ranks, self.0.limit)? {
            return Err(self.0.timed_out().into());
        }
        Members::new(self.0.clone(), duplicate(self.0.all_ranks)?)
    }

    /// Terminates all processes of the job immediately, this one with exit status `code`.
    pub fn abort(&self, code: i32) -> ! {
        abort(code)
    }
}

/// Returns whether MPI was started and not finalized.
fn is_running() -> bool {
    let (mut started, mut ended) = (0, 0);
    // SAFETY: both may be called at any time, with live pointers.
    unsafe {
        ffi::MPI_Initialized(&raw mut started);
        ffi::MPI_Finalized(&raw mut ended);
    }
    started != 0 && ended == 0
}

/// Creates a communicator with the members of `comm`, whose calls return errors. It has no time limit
/// of its own, so its callers wait in a barrier before.
fn duplicate(comm: ffi::MPI_Comm) -> Result<ffi::MPI_Comm, OpenError> {
    let mut copy = comm;
    // SAFETY: a communicator, and a live pointer.
    check("MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(comm, &raw mut copy) })?;
    return_errors(copy)?;
    Ok(copy)
}
