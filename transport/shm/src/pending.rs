//! Operations that are posted and not reported. A post requests the cache lines; the kick or the
//! poll executes the operation, when the lines have arrived.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Release, SeqCst};

use probeline_transport::{LINE_WORDS, Request, Token, load_words, store_words};

/// Lines of a long READ or WRITE that the post requests. The copy itself requests the others: the
/// hardware prefetches lines that a loop loads in order.
const REQUESTED_LINES: u32 = 8;

/// An operation that is posted and not reported.
///
/// Its addresses are valid as long as the engine: windows stay mapped and slots allocated until the
/// engine is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) token: Token,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Read {
        from: NonNull<AtomicU64>,
        into: NonNull<u64>,
        words: u32,
    },
    Write {
        from: NonNull<u64>,
        to: NonNull<AtomicU64>,
        words: u32,
    },
    CompareAndSwap {
        at: NonNull<AtomicU64>,
        expected: u64,
        desired: u64,
    },
    FetchAdd {
        at: NonNull<AtomicU64>,
        addend: u64,
    },
    /// The result: the old value for atomics, otherwise 0.
    Executed(u64),
}

impl Default for Pending {
    fn default() -> Self {
        Self { token: Token(0), action: Action::Executed(0) }
    }
}

impl Pending {
    /// Requests the lines of a checked request. `remote` is the address of its first word in a
    /// window, `local` that of its first word in a slot, if it has one.
    #[inline(always)]
    pub(crate) fn request(
        token: Token,
        request: Request,
        remote: NonNull<AtomicU64>,
        local: NonNull<u64>,
    ) -> Self {
        let action = match request {
            Request::Read { from, .. } => {
                let action = Action::Read { from: remote, into: local, words: from.words };
                each_line(remote, from.words, prefetch);
                action
            }
            Request::Write { to, .. } => {
                each_line(remote, to.words, prefetch_for_store);
                Action::Write { from: local, to: remote, words: to.words }
            }
            Request::CompareAndSwap { expected, desired, .. } => {
                prefetch_for_store(remote);
                Action::CompareAndSwap { at: remote, expected, desired }
            }
            Request::FetchAdd { addend, .. } => {
                prefetch_for_store(remote);
                Action::FetchAdd { at: remote, addend }
            }
        };
        Self { token, action }
    }

    #[inline(always)]
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.action, Action::Write { .. })
    }

    /// Executes the operation, unless it is executed already, and returns its result.
    ///
    /// # Safety
    /// The addresses are valid for the operation's words, those in a window for concurrent access,
    /// and no reference to the words in the slot exists.
    #[inline(always)]
    pub(crate) unsafe fn execute(&self) -> u64 {
        // SAFETY: the caller upholds that the addresses are valid for the operation's words, and
        // that no reference to the words in the slot exists.
        unsafe {
            match self.action {
                Action::Read { from, into, words: 1 } => {
                    into.write(from.as_ref().load(SeqCst));
                    0
                }
                Action::Read { from, into, words } => {
                    load_words(from.as_ptr(), into.as_ptr().cast(), words as usize);
                    0
                }
                Action::Write { from, to, words: 1 } => {
                    to.as_ref().store(from.read(), Release);
                    0
                }
                Action::Write { from, to, words } => {
                    store_words(from.as_ptr().cast(), to.as_ptr(), words as usize);
                    0
                }
                Action::CompareAndSwap { at, expected, desired } => {
                    let swapped = at.as_ref().compare_exchange(expected, desired, SeqCst, SeqCst);
                    let (Ok(value) | Err(value)) = swapped;
                    value
                }
                Action::FetchAdd { at, addend } => at.as_ref().fetch_add(addend, SeqCst),
                Action::Executed(value) => value,
            }
        }
    }

    /// Executes the operation and keeps its result.
    ///
    /// # Safety
    /// As for [`execute`](Self::execute).
    pub(crate) unsafe fn finish(&mut self) {
        // SAFETY: the caller upholds the conditions of `execute`, which are the same.
        self.action = Action::Executed(unsafe { self.execute() });
    }
}

/// Calls `prefetch` for the first lines of a run of words, and for its last one.
#[inline(always)]
fn each_line(first: NonNull<AtomicU64>, words: u32, prefetch: impl Fn(NonNull<AtomicU64>)) {
    // A prefetch faults on no address, so the pointers only have to be computed without overflow.
    let at = |word: u32| NonNull::new(first.as_ptr().wrapping_add(word as usize)).unwrap_or(first);
    let lines = words.div_ceil(LINE_WORDS).min(REQUESTED_LINES);
    (0..lines).for_each(|line| prefetch(at(line * LINE_WORDS)));
    prefetch(at(words - 1));
}

/// Requests the line of `word` for loads.
#[inline(always)]
fn prefetch(word: NonNull<AtomicU64>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast_const().cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch faults on no address; the instruction reads one register, writes none.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) word.as_ptr(),
            options(nostack, preserves_flags, readonly));
    }
    let _ = word;
}

/// Requests the line of `word` for a store, which takes it from other cores.
#[inline(always)]
fn prefetch_for_store(word: NonNull<AtomicU64>) {
    // All x86-64 processors accept the instruction; old ones ignore it.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch faults on no address; the instruction reads one register, writes none.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) word.as_ptr(),
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch faults on no address; the instruction reads one register, writes none.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) word.as_ptr(),
            options(nostack, preserves_flags, readonly));
    }
    let _ = word;
}
