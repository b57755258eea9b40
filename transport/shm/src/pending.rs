//! Operations that are posted and not reported. A post requests the cache lines; the kick or the
//! poll executes the operation, when the lines have arrived.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Release, SeqCst};

use probeline_transport::{LINE_WORDS, Request, Token};

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
        // SAFETY: the caller's contract.
        unsafe {
            match self.action {
                Action::Read { from, into, words: 1 } => {
                    into.write(from.as_ref().load(SeqCst));
                    0
                }
                Action::Read { from, into, words } => {
                    copy(from.as_ptr().cast(), into.as_ptr(), from.as_ptr().addr(), words);
                    0
                }
                Action::Write { from, to, words: 1 } => {
                    to.as_ref().store(from.read(), Release);
                    0
                }
                Action::Write { from, to, words } => {
                    copy(from.as_ptr(), to.as_ptr().cast(), to.as_ptr().addr(), words);
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
        // SAFETY: the caller's contract.
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
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) word.as_ptr(),
            options(nostack, preserves_flags, readonly));
    }
    let _ = word;
}

/// Copies words between a window and a slot. `shared` is the address of the first word in the
/// window.
///
/// # Safety
/// `from` is valid for loads and `into` for stores of `words` words. No reference to the words
/// exists, except to those in the window as atomics.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy(from: *const u64, into: *mut u64, _shared: usize, words: u32) {
    for word in 0..words as usize {
        // SAFETY: words of both ranges, which are aligned to words.
        unsafe {
            let value = AtomicU64::from_ptr(from.add(word).cast_mut()).load(SeqCst);
            AtomicU64::from_ptr(into.add(word)).store(value, Release);
        }
    }
}

/// Copies words between a window and a slot. `shared` is the address of the first word in the
/// window.
///
/// Peers access the window's words at the same time, so each word must be copied whole, and the
/// compiler must assume nothing about them. The copy is therefore assembly, which may do what
/// atomic loads and stores of each word could do. A vector access whose address in the window is a
/// multiple of its size lies in one cache line, from which the processor moves each 8-byte word
/// whole. Intel (SDM volume 3A, 9.1.1) and AMD (APM volume 2, 7.3.2) promise it for 16 bytes on
/// processors with AVX; other processors split accesses only at multiples of 8 bytes. On x86-64
/// loads acquire and stores release, also those of vectors.
///
/// # Safety
/// `from` is valid for loads and `into` for stores of `words` words. No reference to the words
/// exists, except to those in the window as atomics.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy(from: *const u64, into: *mut u64, shared: usize, words: u32) {
    let mut rest = Rest { from, into, words: words as usize };
    // SAFETY: the steps copy at most the words that are left; each aligns the next one.
    unsafe {
        if shared & 8 != 0 {
            rest.copy_word();
        }
        if rest.words >= LONG_WORDS && std::is_x86_feature_detected!("avx") {
            if (shared + (shared & 8)) & 16 != 0 {
                rest.copy_pair();
            }
            rest.copy_long();
        }
        while rest.words >= LINE_WORDS as usize {
            rest.copy_line();
        }
        while rest.words >= 2 {
            rest.copy_pair();
        }
        if rest.words > 0 {
            rest.copy_word();
        }
    }
}

/// The fewest words that are copied 32 bytes at a time, without the first ones that align them.
#[cfg(target_arch = "x86_64")]
const LONG_WORDS: usize = 32;

/// The words of a copy that are left.
///
/// The methods are unsafe: at least as many words as they copy are left, and the pointers are valid
/// for them. The address in the window is a multiple of the vectors' size.
#[cfg(target_arch = "x86_64")]
struct Rest {
    from: *const u64,
    into: *mut u64,
    words: usize,
}

#[cfg(target_arch = "x86_64")]
impl Rest {
    #[inline(always)]
    unsafe fn advance(&mut self, words: usize) {
        // SAFETY: the words were copied, so both pointers stay in their range or at its end.
        unsafe { (self.from, self.into) = (self.from.add(words), self.into.add(words)) };
        self.words -= words;
    }

    #[inline(always)]
    unsafe fn copy_word(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!("mov {word}, [{from}]", "mov [{into}], {word}", word = out(reg) _,
                from = in(reg) self.from, into = in(reg) self.into,
                options(nostack, preserves_flags));
            self.advance(1);
        }
    }

    #[inline(always)]
    unsafe fn copy_pair(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!("movdqu {pair}, [{from}]", "movdqu [{into}], {pair}", pair = out(xmm_reg) _,
                from = in(reg) self.from, into = in(reg) self.into,
                options(nostack, preserves_flags));
            self.advance(2);
        }
    }

    /// Copies 8 words, 16 bytes at a time.
    #[inline(always)]
    unsafe fn copy_line(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "movdqu {a}, [{from}]", "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]", "movdqu {d}, [{from} + 48]",
                "movdqu [{into}], {a}", "movdqu [{into} + 16], {b}",
                "movdqu [{into} + 32], {c}", "movdqu [{into} + 48], {d}",
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                from = in(reg) self.from, into = in(reg) self.into,
                options(nostack, preserves_flags)
            );
            self.advance(8);
        }
    }

    /// Copies all but the last 0 to 15 words, 32 bytes at a time. At least 16 words are left, and
    /// the processor has AVX.
    // Not inlined: `vzeroupper` changes the upper halves of all vector registers, which a caller may
    // keep across inlined code, but not across a call.
    #[inline(never)]
    #[target_feature(enable = "avx")]
    unsafe fn copy_long(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "2:",
                "vmovdqu {a}, [{from}]", "vmovdqu {b}, [{from} + 32]",
                "vmovdqu {c}, [{from} + 64]", "vmovdqu {d}, [{from} + 96]",
                "vmovdqu [{into}], {a}", "vmovdqu [{into} + 32], {b}",
                "vmovdqu [{into} + 64], {c}", "vmovdqu [{into} + 96], {d}",
                "add {from}, 128", "add {into}, 128", "dec {count}", "jnz 2b", "vzeroupper",
                a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _, d = out(ymm_reg) _,
                from = inout(reg) self.from, into = inout(reg) self.into,
                count = inout(reg) self.words / 16 => _, options(nostack)
            );
            self.words %= 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length and alignment, in both directions: the words of the range and no others.
    #[test]
    fn a_copy_moves_the_words_of_its_range() {
        const WORDS: usize = 96;
        #[repr(align(64))]
        struct Line([u64; WORDS]);
        let source = Line(core::array::from_fn(|word| word as u64 + 1));
        for (start, target) in (0..8).flat_map(|start| (0..4).map(move |target| (start, target))) {
            for words in 1..80 {
                let mut copied = Line([0; WORDS]);
                let into = copied.0[target..].as_mut_ptr();
                let from = source.0[start..].as_ptr();
                let shared = if words % 2 == 0 { from.addr() } else { into.addr() };
                // SAFETY: both ranges lie in their arrays.
                unsafe { copy(from, into, shared, u32::try_from(words).unwrap()) };
                let expected = core::array::from_fn(|word| {
                    let in_range = (target..target + words).contains(&word);
                    if in_range { (word - target + start) as u64 + 1 } else { 0 }
                });
                assert_eq!(copied.0, expected, "{words} words from {start} to {target}");
            }
        }
    }
}
