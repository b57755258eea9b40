//! One owner's memory: a control page, then the window that everybody reads and changes.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use probeline_pin::{Mapping, MappingError, MemoryPolicy, Pages, PolicyRefused};
use probeline_transport::Owner;

use crate::OpenError;
use crate::hello::Hello;
use crate::lock::{LOCK_WORDS, Lock};

/// Words before the window: one base page, so that the window starts on a page of its own.
const CONTROL_WORDS: usize = 512;
/// The random number by which peers recognise the memory.
const NONCE_AT: usize = 0;
/// The owner whose loss ended this one's engine, plus 1; 0 while nobody's has.
const LOST_TO_AT: usize = 1;
/// The lock has a cache line of its own.
const LOCK_AT: usize = 8;

/// Mapped memory of one owner, which may be this one.
#[derive(Debug)]
pub(crate) struct Window {
    mapping: Mapping,
    words: usize,
    /// This thread made the lock and holds it.
    held: bool,
    _of_one_thread: PhantomData<*const ()>,
}

impl Window {
    /// This owner's window of zeroes, its lock held, and the descriptor for peers to open.
    pub(crate) fn create(
        words: u64,
        nonce: u64,
        policy: &MemoryPolicy,
    ) -> Result<(Self, OwnedFd), OpenError> {
        let (words, bytes) = size(words)?;
        let (mapping, file) = Mapping::shared(bytes, policy).map_err(OpenError::Memory)?;
        let mut window = Self { mapping, words, held: false, _of_one_thread: PhantomData };
        if let Some(word) = window.mapping.words().get(NONCE_AT) {
            word.store(nonce, SeqCst);
        }
        if let Some(lock) = window.lock() {
            // SAFETY: `drop` releases it before the mapping goes; the type stays on this thread.
            unsafe { lock.create_held() }.map_err(|errno| OpenError::Lock { errno })?;
            window.held = true;
        }
        Ok((window, file))
    }

    /// The window of a peer that said `hello`.
    pub(crate) fn of_peer(owner: Owner, hello: &Hello) -> Result<Self, OpenError> {
        let pid = hello.pid;
        let (words, bytes) = size(hello.window_words)?;
        // In another PID namespace the path may lead to anything: do not wait for it.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/{pid}/fd/{}", hello.fd))
            .map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(0);
                OpenError::Unreachable { owner, pid, errno }
            })?;
        let mapping = Mapping::from_fd(file.as_fd(), bytes).map_err(|error| match error {
            MappingError::NotSealed | MappingError::Short { .. } => {
                OpenError::Stranger { owner, pid }
            }
            source => OpenError::PeerMemory { owner, source },
        })?;
        if mapping.words().get(NONCE_AT).map(|nonce| nonce.load(SeqCst)) != Some(hello.nonce) {
            return Err(OpenError::Stranger { owner, pid });
        }
        Ok(Self { mapping, words, held: false, _of_one_thread: PhantomData })
    }

    /// The words that everybody reads and changes.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.mapping.words().get(CONTROL_WORDS..CONTROL_WORDS + self.words).unwrap_or_default()
    }

    pub(crate) fn pages(&self) -> Pages {
        self.mapping.pages()
    }

    pub(crate) fn policy_refused(&self) -> Option<PolicyRefused> {
        self.mapping.policy_refused()
    }

    /// Whether the owner's engine is open and its thread alive. No system call.
    pub(crate) fn is_alive(&self) -> bool {
        // SAFETY: `create` made the lock before anybody learnt of the window.
        self.lock().is_some_and(|lock| unsafe { lock.is_held() })
    }

    /// The owner whose loss ended this owner's engine.
    pub(crate) fn lost_to(&self) -> Option<Owner> {
        let word = self.mapping.words().get(LOST_TO_AT)?.load(SeqCst);
        u32::try_from(word.checked_sub(1)?).ok().map(Owner)
    }

    /// Leaves word of whose loss has ended this owner's engine.
    pub(crate) fn set_lost_to(&self, owner: Owner) {
        if let Some(word) = self.mapping.words().get(LOST_TO_AT) {
            word.store(u64::from(owner.0) + 1, SeqCst);
        }
    }

    fn lock(&self) -> Option<Lock<'_>> {
        self.mapping.words().get(LOCK_AT..)?.first_chunk::<LOCK_WORDS>().map(Lock)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let (true, Some(lock)) = (self.held, self.lock()) {
            // SAFETY: `create` took it on this thread, and the mapping is dropped after this.
            unsafe { lock.release() };
        }
    }
}

/// Words of the window, and bytes with the control page.
fn size(words: u64) -> Result<(usize, usize), OpenError> {
    usize::try_from(words)
        .ok()
        .and_then(|words| {
            let all = words.checked_add(CONTROL_WORDS)?;
            Some((words, all.checked_mul(size_of::<AtomicU64>())?))
        })
        .ok_or(OpenError::Sizes("the window does not fit the address space"))
}
