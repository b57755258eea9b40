//! The memory of one owner: a page of control words, followed by the window.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Release, SeqCst};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use probeline_pin::{Mapping, MemoryPolicy, Pages};
use probeline_transport::engine::{PAGE_WORDS, lost_owner, lost_word};
use probeline_transport::{Fingerprint, OneThread, Owner, SetupError};

use crate::OpenError;
use crate::lock::{LOCK_WORDS, Lock};

/// The number of control words, which precede the window.
const CONTROL_WORDS: usize = PAGE_WORDS;
/// The index of the random number by which peers recognise the memory.
const NONCE_AT: usize = 0;
/// The index of the control word that names the lost owner in the fault of this owner's engine.
const LOST_TO_AT: usize = 1;
/// The index of the lock, on its own cache line.
const LOCK_AT: usize = 8;

/// The record and the control words in front of a window.
pub(crate) const PROTOCOL: Fingerprint = Fingerprint::new(3).with_all(&[
    CONTROL_WORDS as u64,
    NONCE_AT as u64,
    LOST_TO_AT as u64,
    LOCK_AT as u64,
    LOCK_WORDS as u64,
]);

/// The information that an owner sends to its peers: its sizes, and where its window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) pid: u64,
    /// The descriptor of the memory in that process.
    pub(crate) fd: u64,
    /// A random number, also stored in the memory, by which peers recognise it.
    pub(crate) nonce: u64,
    pub(crate) window_words: u64,
    pub(crate) slot_words: u64,
}

impl ConnectionInfo {
    pub(crate) const WORDS: usize = 5;

    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let Self { pid, fd, nonce, window_words, slot_words } = self;
        [pid, fd, nonce, window_words, slot_words]
    }

    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [pid, fd, nonce, window_words, slot_words] = words;
        Self { pid, fd, nonce, window_words, slot_words }
    }
}

/// The mapped memory of one owner, this one or a peer.
#[derive(Debug)]
pub(crate) struct Window {
    mapping: Mapping,
    words: usize,
    /// Whether this thread created the lock and holds it.
    held: bool,
    _one_thread: OneThread,
}

impl Window {
    /// Creates this owner's window of zeros and acquires its lock. Peers open the descriptor; an owner without
    /// peers has private memory, for which kernels give huge pages more readily.
    pub(crate) fn create(
        words: u64,
        nonce: u64,
        has_peers: bool,
        policy: &MemoryPolicy,
    ) -> Result<(Self, Option<OwnedFd>), OpenError> {
        let (words, bytes) = size(words)?;
        let mapped = match has_peers {
            true => Mapping::shared(bytes, policy).map(|(mapping, file)| (mapping, Some(file))),
            false => Mapping::anonymous(bytes, policy).map(|mapping| (mapping, None)),
        };
        let (mapping, file) = mapped.map_err(OpenError::Memory)?;
        let mut window = Self { mapping, words, held: false, _one_thread: OneThread::NEW };
        if let Some(word) = window.mapping.words().get(NONCE_AT) {
            word.store(nonce, SeqCst);
        }
        if let Some(lock) = window.lock() {
            // SAFETY: `drop` releases it before the mapping is dropped; the type stays on this
            // thread.
            unsafe { lock.create_held() }.map_err(|errno| OpenError::Lock { errno })?;
            window.held = true;
        }
        Ok((window, file))
    }

    /// Maps the window of a peer.
    pub(crate) fn map_peer(owner: Owner, info: &ConnectionInfo) -> Result<Self, OpenError> {
        let pid = info.pid;
        let (words, bytes) = size(info.window_words)?;
        // In another PID namespace the path may name any file, so opening it must not block.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(format!("/proc/{pid}/fd/{}", info.fd))
            .map_err(|error| {
                let errno = error.raw_os_error().unwrap_or(0);
                OpenError::Unreachable { owner, pid, errno }
            })?;
        let mapping = Mapping::from_fd(file.as_fd(), bytes).map_err(|error| match error {
            probeline_pin::Error::NotSealed | probeline_pin::Error::Short { .. } => {
                OpenError::WrongMemory { owner, pid }
            }
            source => OpenError::PeerMemory { owner, source },
        })?;
        if mapping.words().get(NONCE_AT).map(|nonce| nonce.load(SeqCst)) != Some(info.nonce) {
            return Err(OpenError::WrongMemory { owner, pid });
        }
        Ok(Self { mapping, words, held: false, _one_thread: OneThread::NEW })
    }

    /// Returns the words that all owners read and write.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.mapping.words().get(CONTROL_WORDS..CONTROL_WORDS + self.words).unwrap_or_default()
    }

    /// Returns the address of the first word; all stay mapped while this value lives.
    pub(crate) fn first(&self) -> NonNull<AtomicU64> {
        NonNull::from(self.words()).cast()
    }

    pub(crate) fn pages(&self) -> Pages {
        self.mapping.pages()
    }

    pub(crate) fn policy_refused(&self) -> Option<&probeline_pin::Error> {
        self.mapping.policy_refused()
    }

    /// Returns whether the owner's engine is open and its thread alive. It makes no system call.
    pub(crate) fn is_alive(&self) -> bool {
        // SAFETY: `create` created the lock before any peer received the window's descriptor.
        self.lock().is_some_and(|lock| unsafe { lock.is_held() })
    }

    /// Returns the lost owner in the fault of this owner's engine, if it is one of `owners`.
    pub(crate) fn lost_to(&self, owners: u32) -> Option<Owner> {
        lost_owner(self.mapping.words().get(LOST_TO_AT)?, owners)
    }

    /// Records the lost owner in the fault of this owner's engine.
    pub(crate) fn set_lost_to(&self, owner: Owner) {
        if let Some(word) = self.mapping.words().get(LOST_TO_AT) {
            word.store(lost_word(owner), Release);
        }
    }

    fn lock(&self) -> Option<Lock<'_>> {
        self.mapping.words().get(LOCK_AT..)?.first_chunk::<LOCK_WORDS>().map(Lock)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let (true, Some(lock)) = (self.held, self.lock()) {
            // SAFETY: `create` acquired it on this thread, and the mapping is dropped after this.
            unsafe { lock.release() };
        }
    }
}

/// Returns the words of the window, and the bytes of the window with its control words.
fn size(words: u64) -> Result<(usize, usize), OpenError> {
    usize::try_from(words)
        .ok()
        .and_then(|words| {
            let all = words.checked_add(CONTROL_WORDS)?;
            Some((words, all.checked_mul(size_of::<AtomicU64>())?))
        })
        .ok_or(OpenError::Setup(SetupError::WINDOW_TOO_LARGE))
}
