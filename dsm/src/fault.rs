//! A region as plain memory at one address: the pages that a program touches fault, and come by [`Region`].
//!
//! The memory is a file without a name, mapped twice: the library's view is the private memory of a region, and
//! the program's view of the mirror in it has page protection. What the mirror has of a page decides what the
//! program may do with it: nothing, read, or write while the region has an edit of the page. An access beyond that
//! is a SIGSEGV, or by [`Protection::Userfaultfd`] a SIGBUS. Its handler views or edits the page as the program would
//! do by [`Region`], and lets the access go on. The region finds the words that have changed by [`Config::compares`].
//!
//! # Signal safety
//!
//! The signal is synchronous: it interrupts a load or store to the program's view, which no code of the library
//! makes. So the region, its engine and their locks are at rest when the handler runs them, except in a call whose
//! [`Exchange`] accesses the memory, or that the handler of another signal interrupts to do so: the handler refuses
//! these. The data path allocates nothing and takes no lock of others (house rule 3). The handler itself uses atomics
//! and system calls only, on a stack of its own, with all other signals blocked. An engine in parts
//! ([`Splitter`](probeline_transport::Splitter)) is at rest only if no call on another part has been given the memory
//! as an argument; [`view`](PlainMemory::view) its pages first.

mod signal;
mod userfaultfd;
mod views;

use core::cell::{Cell, RefCell, RefMut};
use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;
use std::rc::Rc;

use bytemuck::Pod;
use probeline_pipeline::{Collective, CollectiveError, ConfigError, Error as OperationError};
use probeline_transport::{Call, Exchange, Transport, WORD_BYTES};

use crate::access::bytes_of;
use crate::config::{Config, Layout};
use crate::context::Stats;
use crate::memory::{Frame, Usage};
use crate::region::{NAME, Operation, Region};
use signal::{Served, Slot, current_thread};
use userfaultfd::Userfaultfd;
use views::{Access, Views, page_size};

/// The reason why a call on a [`PlainMemory`] has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the region was refused or has failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Ranks could not open the region, or pass a barrier.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A system call failed.
    #[error(
        "{call} failed with errno {errno}; errno 12 of mmap and mprotect is a lack of memory or of mappings: raise \
         vm.max_map_count, or open a smaller region"
    )]
    System {
        /// The system call.
        call: &'static str,
        /// Its error number.
        errno: i32,
    },
    /// A forked process has called, or another thread has accessed the memory.
    #[error(
        "only the thread that has opened a region may use it, no other thread and no forked process: open one there"
    )]
    Thread,
    /// An exchange has called the region whose barrier calls it.
    #[error("a call on the region is in progress on this thread: do not use it in an exchange")]
    Busy,
    /// The memory has faulted although it may be written.
    #[error(
        "a page that may be read and written has faulted: code in a region cannot run, copy it to other memory"
    )]
    Execution,
    /// The process has too many regions as plain memory.
    #[error("the process has {0} regions as plain memory: close one, or open one larger region")]
    Regions(usize),
}

/// The way in which the kernel protects the pages of a [`PlainMemory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// mprotect(2) and SIGSEGV, on every Linux. Runs of pages of one protection are mappings, of which a process has
    /// 65,530 by default (`vm.max_map_count`); beyond that number, all pages fault again.
    #[default]
    Mprotect,
    /// userfaultfd(2) and SIGBUS, from Linux 5.19 on, if the process may call it: containers often forbid this. The
    /// number of runs of pages has no limit. After mlockall(2) with `MCL_CURRENT`, calls fail with EINVAL of madvise:
    /// lock the memory with `MCL_FUTURE`, before the process opens regions.
    Userfaultfd,
}

impl Protection {
    /// Checks that the kernel has this protection for the process.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses it.
    pub fn check(self) -> Result<(), Error> {
        match self {
            Self::Mprotect => Ok(()),
            Self::Userfaultfd => Userfaultfd::open().map(drop),
        }
    }
}

/// A [`Region`] as plain memory of elements `T`, over an engine `E`, with storage `S` for operations in flight.
///
/// It has the guarantees of [`Region`]: a store is an edit of the elements whose bits it changes, and a program
/// synchronises by the same locks and barriers. Only the thread that has opened it may access the memory. A fault
/// of another one, of a process forked by fork(3), inside an [`Exchange`] of this region, or on a page that cannot be
/// had, is not served. The handler then prints the reason to standard error, and passes the signal on as it does any
/// other signal of a fault: to the action from before the first region was opened, as the kernel would. By default this
/// ends the process. A handler that is installed later must call this one.
///
/// A page that is here does not fault. So another thread may see any of its states, and a store of one, or of the
/// handler of a signal that interrupts a call on the region, may be lost.
///
/// A system call that is given the address of a protected page does not fault either, and fails with EFAULT; read(2),
/// write(2) and their like return a short count instead if the pages before it are present. So
/// [`view`] what a call will read, and [`edit`] what it will write, just before it. The next call on the region, or
/// access to another page, may protect it again.
///
/// Pages are multiples of the system's page, and two of them at least may be edited at once.
///
/// [`view`]: Self::view
/// [`edit`]: Self::edit
///
/// ```
/// use probeline_dsm::fault::PlainMemory;
/// use probeline_dsm::{Config, Operation};
/// use probeline_transport::Alone;
///
/// let config = Config::new(10_000);
/// let engine = probeline_shm::Builder::new(config.sizes::<f64>(1, 16)).open(&mut Alone)?;
/// let memory = PlainMemory::<f64, _, _>::open(engine, config, [Operation::EMPTY; 16], &mut Alone)?;
///
/// let grid = memory.cells();
/// grid[5].set(1.5);
/// memory.barrier(&mut Alone)?;
/// assert_eq!(grid[5].get() + grid[6].get(), 1.5);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It belongs to its thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<probeline_dsm::fault::PlainMemory<u64, probeline_shm::Engine, [probeline_dsm::Operation; 4]>>();
/// ```
pub struct PlainMemory<T, E, S>
where
    T: Pod,
    E: Transport,
    S: AsMut<[Operation]>,
{
    /// Registers `served`, and is dropped before it.
    _slot: Slot,
    /// Not to be sent, and no `Box`, which would own it alone when it is moved.
    served: Rc<Memory<T, E, S>>,
}

/// State that the handler of a fault reaches.
struct Memory<T, E, S> {
    state: RefCell<State<T, E, S>>,
    /// The program's view.
    cells: *const Cell<T>,
    len: usize,
    thread: i32,
}

struct State<T, E, S> {
    region: Region<T, E, S, Views>,
    /// Access of the program to each page.
    allowed: Vec<Access>,
}

impl<T, E, S> PlainMemory<T, E, S>
where
    T: Pod,
    E: Transport,
    S: AsMut<[Operation]>,
{
    /// Opens a region of zeros, as [`Region::open`] does, and allocates its private memory, for all pages. The kernel
    /// protects them by mprotect(2).
    ///
    /// # Errors
    /// As for [`open_with`](Self::open_with).
    pub fn open(
        engine: E,
        config: Config,
        operations: S,
        job: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, Error> {
        Self::open_with(Protection::Mprotect, engine, config, operations, job)
    }

    /// Opens a region as [`open`](Self::open) does, with a protection. Ranks may choose different ones.
    ///
    /// # Errors
    /// As for [`Region::open`]; `page_words` that is no multiple of the system's page; [`Error::System`],
    /// [`Error::Regions`].
    pub fn open_with(
        protection: Protection,
        engine: E,
        config: Config,
        operations: S,
        job: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, Error> {
        // A store across two pages needs both at once.
        let edited_pages = config.edited_pages.max(2);
        let config = Config { compares: true, mirror_pages: u32::MAX, edited_pages, ..config };
        let prepared = Self::prepare(protection, &engine, &config);
        if prepared.is_err() {
            Collective::new(job, Call::method(NAME, "open"), 0).fail();
        }
        let (mut slot, views) = prepared?;
        let (start, bytes) = (views.program.start(), views.program.bytes());
        let region = Region::open(engine, config, operations, views, job)?;
        let pages = region.pipeline.shared().layout.page_count;
        let (len, allowed) = (region.len(), vec![Access::None; pages as usize]);
        let state = RefCell::new(State { region, allowed });
        let thread = current_thread();
        let served = Rc::new(Memory { state, cells: start.cast(), len, thread });
        let addresses = start as usize..start as usize + bytes;
        // SAFETY: the memory is dropped after the slot, and neither can be sent to another thread.
        unsafe { slot.serve(addresses, Rc::as_ptr(&served)) };
        Ok(Self { _slot: slot, served })
    }

    /// Does all that may fail on this rank alone, before other ranks wait for it.
    fn prepare(
        protection: Protection,
        engine: &E,
        config: &Config,
    ) -> Result<(Slot, Views), Error> {
        if config.in_windows {
            let why = "plain memory does not lie in windows: set in_windows to false";
            return Err(CollectiveError::from(ConfigError::Invalid(why)).into());
        }
        let page_words = (page_size() / WORD_BYTES) as u64;
        config
            .check::<T>(engine)
            .and_then(|()| {
                ConfigError::check_multiple("page_words", config.page_words.into(), page_words)
            })
            .map_err(CollectiveError::from)?;
        let views = Views::new(&config.layout::<T>(engine.geometry().owners), protection)?;
        Ok((Slot::claim(protection)?, views))
    }

    /// Returns the elements. An access brings a page here, as [`Region::view`] does, and a store edits it.
    #[must_use]
    pub fn cells(&self) -> &[Cell<T>] {
        let Memory { cells, len, .. } = *self.served;
        // SAFETY: `Views` maps these bytes until the region is dropped, which this borrow excludes. Elements are plain
        // data, and pages begin at multiples of their alignment. The library changes them only in calls, or while
        // an access waits.
        unsafe { core::slice::from_raw_parts(cells, len) }
    }

    /// Returns the address of the first element, for other languages. It is valid until the region is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> *mut T {
        self.served.cells.cast_mut().cast()
    }

    /// Brings the pages of a range here and returns it, for system calls that read it, or to have errors as values. It
    /// may be read, also by system calls, until the next call on the region or access to another page.
    ///
    /// # Errors
    /// As for [`Region::view`]; [`Error::Thread`], [`Error::Busy`], [`Error::System`].
    pub fn view(&self, range: Range<usize>) -> Result<&[Cell<T>], Error> {
        self.bring(&range, Access::Read)?;
        Ok(self.cells().get(range).unwrap_or_default())
    }

    /// Brings the pages of a range here as [`view`](Self::view) does, to be written as well.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn edit(&self, range: Range<usize>) -> Result<&[Cell<T>], Error> {
        self.bring(&range, Access::Write)?;
        Ok(self.cells().get(range).unwrap_or_default())
    }

    fn bring(&self, range: &Range<usize>, access: Access) -> Result<(), Error> {
        self.call(|region| match access {
            Access::Write => region.edit(range.clone()).map(drop),
            _ => region.view(range.clone()).map(drop),
        })?;
        let mut state = self.enter()?;
        let layout = state.region.pipeline.shared().layout;
        state.protect(layout.pages(&bytes_of::<T>(range)), |_, allowed| allowed.max(access))
    }

    /// Starts READs of pages, as [`Region::prefetch`] does. Their next access still faults.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn prefetch(&self, range: Range<usize>) -> Result<(), Error> {
        self.call(|region| region.prefetch(range))
    }

    /// Acquires a lock, as [`Region::acquire`] does.
    ///
    /// # Errors
    /// As for [`Region::acquire`]; [`Error::Thread`], [`Error::Busy`], [`Error::System`].
    pub fn acquire(&self, lock: u32) -> Result<(), Error> {
        self.call(|region| region.acquire(lock))
    }

    /// Releases a lock, as [`Region::release`] does.
    ///
    /// # Errors
    /// As for [`Region::release`]; [`Error::Thread`], [`Error::Busy`], [`Error::System`].
    pub fn release(&self, lock: u32) -> Result<(), Error> {
        self.call(|region| region.release(lock))
    }

    /// Waits for all ranks, as [`Region::barrier`] does.
    ///
    /// # Errors
    /// As for [`Region::barrier`]; [`Error::Thread`], [`Error::Busy`], [`Error::System`].
    pub fn barrier(&self, job: &mut (impl Exchange + ?Sized)) -> Result<(), Error> {
        // All edits end first, so that a store in the exchange faults, and is refused.
        let sent = self.call(|region| region.start_barrier().and_then(|()| region.finish()));
        self.call(|region| region.barrier(job)).and(sent)
    }

    /// Returns what this rank's region has done.
    ///
    /// # Errors
    /// [`Error::Thread`], [`Error::Busy`].
    pub fn stats(&self) -> Result<Stats, Error> {
        Ok(*self.enter()?.region.stats())
    }

    fn enter(&self) -> Result<RefMut<'_, State<T, E, S>>, Error> {
        // Stores of the program come before, and its loads behind.
        compiler_fence(SeqCst);
        if self.served.thread != current_thread() {
            return Err(Error::Thread);
        }
        self.served.state.try_borrow_mut().map_err(|_| Error::Busy)
    }

    /// Calls the region, and then protects the pages that it has dropped or sent.
    fn call<R: Into<Error>>(
        &self,
        call: impl FnOnce(&mut Region<T, E, S, Views>) -> Result<(), R>,
    ) -> Result<(), Error> {
        let mut state = self.enter()?;
        let result = call(&mut state.region).map_err(R::into);
        let is_protected = state.protect_all();
        drop(state);
        compiler_fence(SeqCst);
        result.and(is_protected)
    }
}

impl<T: Pod, E: Transport, S: AsMut<[Operation]>> Served for Memory<T, E, S> {
    fn serve(&self, at: usize, is_store: bool) -> Result<(), Error> {
        self.state.try_borrow_mut().map_err(|_| Error::Busy)?.serve(at, is_store)
    }
}

impl<T: Pod, E: Transport, S: AsMut<[Operation]>> State<T, E, S> {
    /// Serves an access to a byte of the region.
    fn serve(&mut self, at: usize, is_store: bool) -> Result<(), Error> {
        let layout = self.region.pipeline.shared().layout;
        let pages = layout.pages(&(at..at + 1));
        let mut allowed = self.allowed.get(pages.start as usize).copied().unwrap_or(Access::None);
        if allowed == Access::Write {
            if !self.region.pipeline.shared().memory.may_lose_pages() {
                return Err(Error::Execution);
            }
            allowed = Access::None;
            self.protect(pages.clone(), |_, _| allowed)?;
        }
        // Not all machines tell stores from loads, but a page that may be read faults in a store only.
        let is_edit = is_store || allowed == Access::Read;
        let (usage, access) = match is_edit {
            true => (Usage::Edit, Access::Write),
            false => (Usage::View, Access::Read),
        };
        let has_edit = self.region.frame(pages.start)?.edit().is_some();
        let edits = self.region.pipeline.shared().edited + u32::from(is_edit && !has_edit);
        self.region.touch(&(at..at + 1), usage)?;
        // Unless it had to send all changes first.
        if self.region.pipeline.shared().edited != edits {
            self.protect_all()?;
        }
        self.protect(pages, |_, allowed| allowed.max(access))
    }

    /// Takes back what the region does not have any more.
    fn protect_all(&mut self) -> Result<(), Error> {
        let pages = 0..self.region.pipeline.shared().layout.page_count;
        self.protect(pages, |(page, frame), allowed| {
            allowed.min(match frame.has(page) {
                true if frame.edit().is_some() => Access::Write,
                true => Access::Read,
                false => Access::None,
            })
        })
    }

    /// Allows the program what `access` returns for each of these pages.
    fn protect(
        &mut self,
        pages: Range<u32>,
        access: impl Fn((u32, Frame), Access) -> Access,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for _ in 0..2 {
            result = self.protect_runs(pages.clone(), &access);
            if result.is_ok() {
                break;
            }
            // The kernel has no room for more runs of pages. One run of all has room, and each fault then allows its
            // page.
            let shared = self.region.pipeline.shared();
            let all = 0..shared.layout.page_count;
            shared.memory.protect(&shared.layout, &all, Access::Write, Access::None)?;
            self.allowed.fill(Access::None);
        }
        result
    }

    /// Calls the kernel for each run of pages that changes.
    fn protect_runs(
        &mut self,
        pages: Range<u32>,
        access: impl Fn((u32, Frame), Access) -> Access,
    ) -> Result<(), Error> {
        let Self { region, allowed } = self;
        let layout = region.pipeline.shared().layout;
        let mut run = (0..0, Access::None, Access::None);
        for page in pages {
            let frame = region.frame(page)?;
            let Some(allowed) = allowed.get_mut(page as usize) else { continue };
            let next = access((page, frame), *allowed);
            let before = core::mem::replace(allowed, next);
            if next == before {
                continue;
            }
            if run.0.end != page || (run.1, run.2) != (before, next) {
                region.pipeline.shared().memory.protect(&layout, &run.0, run.1, run.2)?;
                run = (page..page, before, next);
            }
            run.0.end = page + 1;
        }
        region.pipeline.shared().memory.protect(&layout, &run.0, run.1, run.2)
    }
}
