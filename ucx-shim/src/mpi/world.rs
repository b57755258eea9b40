//! MPI from its start to its end in this process.

use core::cell::{Cell, RefCell};
use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::process;
use std::rc::Rc;
use std::thread;

use ::mpi::ffi;

use super::error::InitError;
use super::exchange::Members;
use super::pending::Pending;
use super::window::Window;
use super::{MpiError, OpenError};

/// MPI allows one start in the life of a process.
static STARTED: AtomicBool = AtomicBool::new(false);

/// MPI, started. It ends when this and all [`Members`] and engines made from it are dropped.
///
/// Ending is collective. It waits for the other ranks as long as was said at the start; if they do
/// not come, if this thread panics, if a panic has dropped an engine or if MPI has failed, it ends
/// the job by `MPI_Abort`, for `MPI_Finalize` would wait for ever. A process that ends without it
/// is ended for by the launcher, with all others.
///
/// It belongs to the thread that made it:
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_ucx_shim::mpi::World>();
/// ```
#[derive(Debug)]
pub struct World(Rc<Runtime>);

impl World {
    /// Starts MPI, for use by this thread alone (`MPI_THREAD_FUNNELED`), with errors returned.
    /// `limit` is the longest wait for the slowest rank in a collective call.
    ///
    /// # Errors
    /// [`InitError`]: MPI had been started before, or says why it cannot start. Some
    /// implementations end the process themselves instead.
    pub fn init(limit: Duration) -> Result<Self, InitError> {
        let mut running = 0;
        // SAFETY: may be called at any time, with a place of this frame.
        unsafe { ffi::MPI_Initialized(&raw mut running) };
        if running != 0 || STARTED.swap(true, Relaxed) {
            return Err(InitError::Second);
        }
        let mut provided = 0;
        // SAFETY: MPI has not been started, which `STARTED` sees to for this library and the call
        // above for any other. It takes null for the arguments (MPI 3.1, 8.7).
        let code = unsafe {
            let wanted = ffi::RSMPI_THREAD_FUNNELED;
            ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), wanted, &raw mut provided)
        };
        MpiError::check("MPI_Init_thread", code)?;
        // SAFETY: a constant of the library.
        let world = unsafe { ffi::RSMPI_COMM_WORLD };
        return_errors(world)?;
        let parting = duplicate(world)?;
        Ok(Self(Rc::new(Runtime {
            limit,
            parting,
            groups: Cell::new(0),
            live: RefCell::default(),
            retired: RefCell::default(),
            failed: Cell::new(false),
        })))
    }

    /// All processes of the job, by a communicator of their own. All of them call it.
    ///
    /// # Errors
    /// [`OpenError`]: not everybody called it in time, or MPI failed.
    pub fn members(&self) -> Result<Members, OpenError> {
        if !self.0.barrier(self.0.parting, self.0.limit)? {
            return Err(self.0.timed_out().into());
        }
        Members::new(self.0.clone(), duplicate(self.0.parting)?)
    }

    /// Ends all processes of the job at once, this one with exit status `code`.
    pub fn abort(&self, code: i32) -> ! {
        abort(code)
    }
}

/// One of the windows of a group of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// Which group, by its number in this process.
    pub(super) group: u32,
    /// Which of its windows, the same for all members.
    pub(super) serial: u64,
}

/// What lives as long as MPI does.
#[derive(Debug)]
pub(super) struct Runtime {
    /// The longest wait in a collective call.
    pub(super) limit: Duration,
    /// All ranks, for the last barrier.
    parting: ffi::MPI_Comm,
    /// How many groups of members there have been.
    groups: Cell<u32>,
    /// Windows in use.
    live: RefCell<Vec<Name>>,
    /// Windows whose engines are dropped, to be freed when everybody's are.
    retired: RefCell<Vec<(Name, Window)>>,
    /// An MPI call failed, or a panic has dropped an engine: there is no orderly end any more.
    failed: Cell<bool>,
}

impl Runtime {
    /// A number for a new group of members, the higher the later.
    pub(super) fn new_group(&self) -> u32 {
        self.groups.replace(self.groups.get() + 1)
    }

    /// A window is in use.
    pub(super) fn use_window(&self, name: Name) {
        self.live.borrow_mut().push(name);
    }

    /// Takes the window of an engine that is dropped.
    pub(super) fn retire(&self, name: Name, window: Window) {
        self.live.borrow_mut().retain(|live| *live != name);
        self.retired.borrow_mut().push((name, window));
    }

    /// There is no orderly end any more.
    pub(super) fn fail(&self) {
        self.failed.set(true);
    }

    /// The lowest serial number of a window of `group` that is in use, or that a later one gets.
    pub(super) fn in_use_from(&self, group: u32) -> u64 {
        let live = self.live.borrow();
        let serials = live.iter().filter(|name| name.group == group).map(|name| name.serial);
        serials.min().unwrap_or(u64::MAX)
    }

    /// Frees the windows of `group` with serial numbers below `until`, which all its members have
    /// retired: all of them call it.
    pub(super) fn free_until(&self, group: u32, until: u64) -> Result<(), MpiError> {
        let mut retired = self.retired.borrow_mut();
        let done = |name: &Name| name.group == group && name.serial < until;
        let mut done: Vec<_> = retired.extract_if(.., |(name, _)| done(name)).collect();
        free(&mut done)
    }

    /// Waits until all of `comm` have called it, `limit` at most: whether they have.
    pub(super) fn barrier(&self, comm: ffi::MPI_Comm, limit: Duration) -> Result<bool, MpiError> {
        // SAFETY: a communicator that lives as long as MPI; the call names no other memory.
        let pending =
            unsafe { Pending::start("MPI_Ibarrier", |request| ffi::MPI_Ibarrier(comm, request))? };
        let everybody = pending.wait(limit)?;
        self.failed.set(self.failed.get() || !everybody);
        Ok(everybody)
    }

    /// What a wait that was too long is told as.
    pub(super) fn timed_out(&self) -> probeline_transport::ExchangeError {
        let after_s = u32::try_from(self.limit.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        probeline_transport::ExchangeError::TimedOut { after_s, missing: None }
    }

    /// Frees what is left and ends MPI, all ranks together.
    fn part(&self) -> Result<(), MpiError> {
        if !self.barrier(self.parting, self.limit)? {
            let text = "the other ranks did not come to the end of the job".to_owned();
            return Err(MpiError { call: "MPI_Ibarrier", code: 0, text });
        }
        free(&mut self.retired.take())?;
        // SAFETY: everybody is here, by the barrier, and nothing that uses MPI is left: all of it
        // holds this runtime.
        MpiError::check("MPI_Finalize", unsafe { ffi::MPI_Finalize() })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.failed.get() || thread::panicking() {
            abort(1);
        }
        if let Err(error) = self.part() {
            eprintln!("{error}");
            abort(1);
        }
    }
}

/// Frees windows, each together with its other members. All take them in one order: groups come to
/// be by collective calls themselves, so that their numbers are in one order for all.
fn free(windows: &mut Vec<(Name, Window)>) -> Result<(), MpiError> {
    windows.sort_by_key(|(name, _)| *name);
    windows.drain(..).try_for_each(|(_, window)| window.free())
}

fn abort(code: i32) -> ! {
    // SAFETY: between the start and the end of MPI, by a `World` or `Runtime`; ends the process.
    unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
    process::exit(code)
}

/// A communicator with the members of `comm`, whose errors are returned. Those who have to call it
/// have met just before, so it waits for what MPI itself does only.
fn duplicate(comm: ffi::MPI_Comm) -> Result<ffi::MPI_Comm, MpiError> {
    let mut twin = comm;
    // SAFETY: a communicator, and a place of this frame for another.
    MpiError::check("MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(comm, &raw mut twin) })?;
    return_errors(twin)?;
    Ok(twin)
}

/// Lets calls on `comm` return their errors.
pub(super) fn return_errors(comm: ffi::MPI_Comm) -> Result<(), MpiError> {
    // SAFETY: a communicator and a constant of the library.
    let code = unsafe { ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN) };
    MpiError::check("MPI_Comm_set_errhandler", code)
}
