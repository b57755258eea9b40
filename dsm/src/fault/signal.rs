//! The handler of SIGSEGV and SIGBUS: finds the memory of a fault, and passes on what it does not serve.

use core::cell::OnceCell;
use core::ffi::{c_int, c_void};
use core::fmt;
use core::fmt::Write;
use core::mem;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize};
use std::rc::Rc;
use std::sync::OnceLock;

use super::views::{Access, Mapping, check, page_size};
use super::{Error, Protection};

/// The most regions of a process that are plain memory.
const MAX_REGIONS: usize = 64;
/// Bytes of the stack on which the handler runs the region and its engine: their deepest call takes a few KiB.
const STACK_BYTES: usize = 256 << 10;

static ENTRIES: [Entry; MAX_REGIONS] = [const { Entry::free() }; MAX_REGIONS];
static SIGSEGV: Signal = Signal::new(libc::SIGSEGV);
static SIGBUS: Signal = Signal::new(libc::SIGBUS);

/// A signal of faults, and its action from before the first region that needs it was opened.
struct Signal {
    number: c_int,
    /// Result of installing the handler. It is never removed: a handler that was installed later may call it.
    installed: OnceLock<Result<(), Error>>,
    previous: OnceLock<libc::sigaction>,
    /// Whether the previous action, which the kernel would have reset after its first signal, had one.
    is_reset: AtomicBool,
}

thread_local! {
    /// The stack of the handler on this thread, from its first region on.
    static STACK: OnceCell<Stack> = const { OnceCell::new() };
}

/// Returns the number of this thread, which no thread of a forked process has.
pub(super) fn current_thread() -> i32 {
    // SAFETY: gettid(2) takes nothing.
    unsafe { libc::gettid() }
}

/// A memory whose faults are served.
pub(super) trait Served {
    /// Makes an access to this byte possible.
    fn serve(&self, at: usize, is_store: bool) -> Result<(), Error>;
}

/// Calls a memory.
struct Handle {
    memory: *const c_void,
    serve: unsafe fn(*const c_void, usize, bool) -> Result<(), Error>,
}

/// The memory of a region that is open. Its thread alone changes the entry, and uses the handle.
struct Entry {
    /// 0 if the entry is free.
    thread: AtomicI32,
    /// The signal of faults that are served.
    signal: AtomicI32,
    start: AtomicUsize,
    end: AtomicUsize,
    handle: AtomicPtr<Handle>,
}

impl Entry {
    const fn free() -> Self {
        Self {
            thread: AtomicI32::new(0),
            signal: AtomicI32::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            handle: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn contains(&self, address: usize) -> bool {
        (self.start.load(SeqCst)..self.end.load(SeqCst)).contains(&address)
    }
}

/// Serves the faults of a memory until it is dropped.
pub(super) struct Slot {
    entry: &'static Entry,
    handle: Option<Rc<Handle>>,
}

impl Slot {
    /// Registers the handler, and claims an entry for a memory of this thread.
    pub(super) fn claim(protection: Protection) -> Result<Self, Error> {
        let thread = current_thread();
        STACK.with(|stack| match stack.get() {
            Some(_) => Ok(()),
            None => Stack::install().map(|new| drop(stack.set(new))),
        })?;
        // A page that is protected otherwise causes a SIGSEGV if it is executed, or after a fork.
        SIGSEGV.install()?;
        let signal = match protection {
            Protection::Mprotect => &SIGSEGV,
            Protection::Userfaultfd => &SIGBUS,
        };
        signal.install()?;
        let is_claimed =
            |entry: &&Entry| entry.thread.compare_exchange(0, thread, SeqCst, SeqCst).is_ok();
        let entry = ENTRIES.iter().find(is_claimed).ok_or(Error::Regions(MAX_REGIONS))?;
        entry.signal.store(signal.number, SeqCst);
        Ok(Self { entry, handle: None })
    }

    /// Serves the faults of a memory from now on.
    ///
    /// # Safety
    /// The memory outlives the slot at its address, and belongs to this thread.
    pub(super) unsafe fn serve<M: Served>(&mut self, addresses: Range<usize>, memory: *const M) {
        let handle = Rc::new(Handle { memory: memory.cast(), serve: serve::<M> });
        self.entry.handle.store(Rc::as_ptr(&handle).cast_mut(), SeqCst);
        self.handle = Some(handle);
        self.entry.start.store(addresses.start, SeqCst);
        self.entry.end.store(addresses.end, SeqCst);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.entry.end.store(0, SeqCst);
        self.entry.thread.store(0, SeqCst);
    }
}

/// Calls a memory of type `M`.
///
/// # Safety
/// The memory is alive, of this type, and of this thread.
unsafe fn serve<M: Served>(memory: *const c_void, at: usize, is_store: bool) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { &*memory.cast::<M>() }.serve(at, is_store)
}

/// Serves an access to an address. Returns `None` if it is in no memory, or if page protection did not cause the
/// signal.
fn serve_address(signal: c_int, address: usize, is_store: bool) -> Option<Result<(), Error>> {
    let thread = current_thread();
    // Entries of this thread do not change meanwhile.
    let is_own = |entry: &&Entry| entry.thread.load(SeqCst) == thread && entry.contains(address);
    let Some(entry) = ENTRIES.iter().find(is_own) else {
        let is_of_others = ENTRIES.iter().any(|entry| entry.contains(address));
        return is_of_others.then_some(Err(Error::Thread));
    };
    if entry.signal.load(SeqCst) != signal {
        return (signal == libc::SIGSEGV).then_some(Err(Error::Execution));
    }
    // SAFETY: `Slot` keeps the handle while the entry has this thread.
    let Handle { memory, serve } = unsafe { &*entry.handle.load(SeqCst) };
    // SAFETY: `Slot::serve` has the promise of its caller, and has chosen the type.
    Some(unsafe { serve(*memory, address - entry.start.load(SeqCst), is_store) })
}

impl Signal {
    const fn new(number: c_int) -> Self {
        let is_reset = AtomicBool::new(false);
        Self { number, installed: OnceLock::new(), previous: OnceLock::new(), is_reset }
    }

    /// Installs the handler, unless it is installed already.
    fn install(&self) -> Result<(), Error> {
        *self.installed.get_or_init(|| self.install_once())
    }

    fn install_once(&self) -> Result<(), Error> {
        // SAFETY: sigaction(2): a structure of zeros is valid, and has no flags.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: sigaction(2): a live structure, and no new action.
        check("sigaction", unsafe { libc::sigaction(self.number, ptr::null(), &raw mut action) })?;
        if self.number == libc::SIGSEGV {
            // SAFETY: pthread_atfork(3): a function that makes system calls only. It fails for lack of memory alone.
            let errno = unsafe { libc::pthread_atfork(None, None, Some(protect_from_child)) };
            if errno != 0 {
                return Err(Error::System { call: "pthread_atfork", errno });
            }
        }
        self.previous.set(action).ok();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: sigfillset(3) and sigaction(2): live structures, and a handler of the type that its flags name. It
        // does only what is safe in the handler of a synchronous signal: see the module `fault`.
        check("sigaction", unsafe {
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(self.number, &raw const action, ptr::null_mut())
        })
    }

    /// Returns the action for the next signal that is not served.
    fn previous(&self) -> libc::sigaction {
        // SAFETY: sigaction(2): a structure of zeros is the default action.
        let default = || unsafe { mem::zeroed() };
        let previous = self.previous.get().copied().unwrap_or_else(default);
        let is_reset =
            previous.sa_flags & libc::SA_RESETHAND != 0 && self.is_reset.swap(true, SeqCst);
        if is_reset { default() } else { previous }
    }
}

/// Protects all regions from the forked process that calls this, whose stores would be seen in its parent.
extern "C" fn protect_from_child() {
    for Entry { start, end, .. } in &ENTRIES {
        let (start, end) = (start.load(SeqCst), end.load(SeqCst));
        let bytes = end.saturating_sub(start);
        // SAFETY: mprotect(2): a region that this process has inherited and does not use. It cannot lack mappings,
        // since the pages become one run.
        unsafe { libc::mprotect(ptr::without_provenance_mut(start), bytes, libc::PROT_NONE) };
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the error number of this thread, which the interrupted code may look at.
    let before = unsafe { *libc::__errno_location() };
    // SAFETY: sigaction(2): the kernel passes a live structure, with an address if it has sent the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // A signal that a process has sent has no address, and one of damaged memory has another code.
    let is_access = code > 0 && (signal == libc::SIGSEGV || code == libc::BUS_ADRERR);
    let served = if is_access { serve_address(signal, address, is_store(context)) } else { None };
    if let Some(Err(error)) = &served {
        // An error of standard error has no place to be reported.
        writeln!(Stderr, "probeline: access to the memory of a region: {error}").ok();
    }
    if !matches!(served, Some(Ok(()))) {
        pass_on(signal, info, context);
    }
    // SAFETY: the thread's own errno, as at the beginning.
    unsafe { *libc::__errno_location() = before };
}

/// Does what the signal did before.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = if signal == libc::SIGBUS { &SIGBUS } else { &SIGSEGV }.previous();
    block_signals_of(&previous, signal, context);
    // SAFETY: the kernel passes a live structure.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match previous.sa_sigaction {
        // The kernel does not ignore the signal of a fault either.
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: sigaction(2): a structure of zeros is the default action.
            let default: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: sigaction(2) with a live structure; raise(3). The signal is blocked until the handler returns,
            // and the access faults again anyway.
            unsafe {
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                if is_sent {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: sigaction(2): a handler that was installed with SA_SIGINFO has this type.
            let handler: Handler = unsafe { mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: sigaction(2): a handler that was installed without SA_SIGINFO has this type.
            let handler = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

/// Blocks the signals that the kernel would block while it runs a handler of this action, until this handler returns.
fn block_signals_of(action: &libc::sigaction, signal: c_int, context: *mut c_void) {
    let defers = action.sa_flags & libc::SA_NODEFER == 0;
    // SAFETY: sigaction(2): the kernel passes a live context of this type. sigaddset(3) and pthread_sigmask(3): live sets.
    unsafe {
        let mut blocked = (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        let is_blocked = |number: &c_int| {
            libc::sigismember(&raw const action.sa_mask, *number) == 1
                || *number == signal && defers
        };
        for number in (1..=libc::SIGRTMAX()).filter(is_blocked) {
            libc::sigaddset(&raw mut blocked, number);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, ptr::null_mut());
    }
}

/// Returns whether an access was a store, as far as the machine tells.
fn is_store(context: *mut c_void) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: sigaction(2): the kernel passes a live context of this type. Bit 1 of the error code of a page fault
        // is of stores (Intel SDM, volume 3, 4.7).
        unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        false
    }
}

/// Writes without a buffer or a lock.
struct Stderr;

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: write(2): the bytes are live.
        let written = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        if written < 0 { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The stack of the handler, until the thread ends.
struct Stack {
    _memory: Mapping,
}

impl Stack {
    /// Replaces the thread's alternate stack, which may be too short.
    fn install() -> Result<Self, Error> {
        // Its lowest page is a guard.
        let memory = Mapping::new(None, page_size() + STACK_BYTES, Access::None)?;
        memory.protect(page_size()..memory.bytes(), Access::Write)?;
        let lowest = memory.start().wrapping_byte_add(page_size());
        let stack = libc::stack_t { ss_sp: lowest, ss_flags: 0, ss_size: STACK_BYTES };
        // SAFETY: sigaltstack(2): memory that stays mapped until the stack is disabled.
        check("sigaltstack", unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) })?;
        Ok(Self { _memory: memory })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let stack = libc::stack_t {
            ss_sp: ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: STACK_BYTES,
        };
        // SAFETY: sigaltstack(2): no handler runs on it, as this code does not.
        unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
    }
}
