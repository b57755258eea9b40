//! Work requests, and lists of them that are posted together.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr;

use probeline_verbs_sys as sys;

use crate::{LocalRange, RemoteAddress};

/// Words that an inline WRITE carries at most: a cache line. Devices take several times as much,
/// but more than a line is better fetched than copied twice.
pub const INLINE_WORDS: usize = 8;

/// A one-sided operation to be posted, with the name under which it completes.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest {
    id: u64,
    verb: Verb,
    remote: RemoteAddress,
    signalled: bool,
    fenced: bool,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Read(LocalRange),
    Write(LocalRange),
    WriteInline([u64; INLINE_WORDS], u32),
    CompareAndSwap { expected: u64, desired: u64, into: LocalRange },
    FetchAdd { addend: u64, into: LocalRange },
}

impl WorkRequest {
    /// READ: the words from `from` on, into all of `into`.
    #[inline]
    #[must_use]
    pub fn read(id: u64, from: RemoteAddress, into: LocalRange) -> Self {
        Self::new(id, Verb::Read(into), from)
    }

    /// WRITE: all of `from`, to the words from `to` on. `from` is read some time before the
    /// request completes.
    #[inline]
    #[must_use]
    pub fn write(id: u64, from: LocalRange, to: RemoteAddress) -> Self {
        Self::new(id, Verb::Write(from), to)
    }

    /// WRITE of `words`, which the request carries itself: the device fetches nothing, and no
    /// memory is registered for it. `None` for none, or more than [`INLINE_WORDS`]; the queue pair
    /// must have been made for as many.
    #[inline]
    #[must_use]
    pub fn write_inline(id: u64, words: &[u64], to: RemoteAddress) -> Option<Self> {
        let mut carried = [0; INLINE_WORDS];
        carried.get_mut(..words.len())?.copy_from_slice(words);
        // At most INLINE_WORDS, as was found just now.
        let len = u32::try_from(words.len()).ok().filter(|&len| len > 0)?;
        Some(Self::new(id, Verb::WriteInline(carried, len), to))
    }

    /// Compare-and-swap of the word at `at`, whose old value lands in the first word of `into`.
    #[inline]
    #[must_use]
    pub fn compare_and_swap(
        id: u64,
        at: RemoteAddress,
        expected: u64,
        desired: u64,
        into: LocalRange,
    ) -> Self {
        Self::new(id, Verb::CompareAndSwap { expected, desired, into }, at)
    }

    /// Fetch-and-add on the word at `at`, whose old value lands in the first word of `into`.
    #[inline]
    #[must_use]
    pub fn fetch_add(id: u64, at: RemoteAddress, addend: u64, into: LocalRange) -> Self {
        Self::new(id, Verb::FetchAdd { addend, into }, at)
    }

    #[inline]
    fn new(id: u64, verb: Verb, remote: RemoteAddress) -> Self {
        Self { id, verb, remote, signalled: true, fenced: false }
    }

    /// Completes in silence: a later, signalled request of its queue pair tells that it has ended.
    /// At least one in as many as the queue pair holds must be signalled.
    #[inline]
    #[must_use]
    pub fn unsignalled(self) -> Self {
        Self { signalled: false, ..self }
    }

    /// Starts only when all READs and atomics before it on its queue pair have ended.
    #[inline]
    #[must_use]
    pub fn fenced(self) -> Self {
        Self { fenced: true, ..self }
    }

    #[inline]
    fn flags(&self) -> u32 {
        let mut flags = 0;
        if self.signalled {
            flags |= sys::IBV_SEND_SIGNALED;
        }
        if self.fenced {
            flags |= sys::IBV_SEND_FENCE;
        }
        if matches!(self.verb, Verb::WriteInline(..)) {
            flags |= sys::IBV_SEND_INLINE;
        }
        flags
    }
}

/// A request as the library takes it.
#[repr(C)]
pub(crate) struct Prepared {
    wr: sys::ibv_send_wr,
    sge: sys::ibv_sge,
    inline: [u64; INLINE_WORDS],
}

impl Prepared {
    pub(crate) fn empty() -> Self {
        // SAFETY: numbers and null pointers, for which zero is valid.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// Puts `next` behind `this`, and its own scatter/gather entry into it.
    ///
    /// # Safety
    /// `this` is valid for writes, and stays where it is until it was posted.
    #[inline]
    pub(crate) unsafe fn link(this: *mut Self, next: *mut Self) {
        // SAFETY: `this` is valid by the caller's promise.
        unsafe {
            (*this).wr.next = next.cast();
            (*this).wr.sg_list = &raw mut (*this).sge;
            (*this).wr.num_sge = 1;
            // Some providers hand it on whatever the opcode is.
            (*this).wr.__bindgen_anon_1.imm_data = 0;
        }
    }

    /// Makes `this`, which is linked, the request `request`. What `request` does not use keeps
    /// what it held, or stays uninitialised: the library looks at the opcode's own fields only.
    ///
    /// # Safety
    /// As for `link`.
    #[inline]
    pub(crate) unsafe fn fill(this: *mut Self, request: &WorkRequest) {
        // SAFETY: `this` is valid by the caller's promise; fields are reached by raw places, so
        // that pointers to one of them outlive writes to another. Writing a union's field of
        // plain numbers is safe.
        unsafe {
            let wr = &raw mut (*this).wr;
            (*wr).wr_id = request.id;
            (*wr).send_flags = request.flags();
            let RemoteAddress { address, key } = request.remote;
            let local = match request.verb {
                Verb::Read(local) | Verb::Write(local) => local,
                Verb::CompareAndSwap { into, .. } | Verb::FetchAdd { into, .. } => {
                    LocalRange { bytes: 8, ..into }
                }
                Verb::WriteInline(words, len) => {
                    (*this).inline = words;
                    // The library makes a pointer of it again.
                    let address = (&raw const (*this).inline).expose_provenance() as u64;
                    LocalRange { address, bytes: len * 8, key: 0 }
                }
            };
            (*this).sge =
                sys::ibv_sge { addr: local.address, length: local.bytes, lkey: local.key };
            match request.verb {
                Verb::Read(_) | Verb::Write(_) | Verb::WriteInline(..) => {
                    let read = matches!(request.verb, Verb::Read(_));
                    (*wr).opcode =
                        if read { sys::IBV_WR_RDMA_READ } else { sys::IBV_WR_RDMA_WRITE };
                    (*wr).wr.rdma.remote_addr = address;
                    (*wr).wr.rdma.rkey = key;
                }
                Verb::CompareAndSwap { expected, desired, .. } => {
                    (*wr).opcode = sys::IBV_WR_ATOMIC_CMP_AND_SWP;
                    (*wr).wr.atomic.remote_addr = address;
                    (*wr).wr.atomic.compare_add = expected;
                    (*wr).wr.atomic.swap = desired;
                    (*wr).wr.atomic.rkey = key;
                }
                Verb::FetchAdd { addend, .. } => {
                    (*wr).opcode = sys::IBV_WR_ATOMIC_FETCH_AND_ADD;
                    (*wr).wr.atomic.remote_addr = address;
                    (*wr).wr.atomic.compare_add = addend;
                    (*wr).wr.atomic.rkey = key;
                }
            }
        }
    }
}

/// Requests that are posted with one doorbell, in memory of their own: filling and posting it
/// allocates nothing.
pub struct WorkRequestList {
    /// As many as it was made for, filled or not.
    requests: Vec<Prepared>,
    len: usize,
    /// As many as it takes: none while it holds requests whose post has failed.
    room: usize,
    /// How many of them the library has taken: some, after a post that failed.
    posted: usize,
}

// SAFETY: the pointers inside lead to the list itself, and are used by whoever posts it.
unsafe impl Send for WorkRequestList {}

/// The list is full: post it, then push again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListFull;

impl fmt::Display for ListFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list of work requests is full")
    }
}

impl Error for ListFull {}

impl WorkRequestList {
    /// An empty list for `capacity` requests.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let mut requests: Vec<_> = (0..capacity).map(|_| Prepared::empty()).collect();
        let base = requests.as_mut_ptr();
        for place in 0..capacity {
            // SAFETY: a request of the buffer, which neither moves nor grows; the last is linked
            // to its end, to which `first` lets nobody go.
            unsafe { Prepared::link(base.add(place), base.add(place + 1)) };
        }
        Self { room: capacity, requests, len: 0, posted: 0 }
    }

    /// Requests in it.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len - self.posted
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == self.posted
    }

    /// The names of the requests in it, in their order.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().take(self.len).skip(self.posted).map(|request| request.wr.wr_id)
    }

    /// Appends a request.
    ///
    /// # Errors
    /// [`ListFull`], also as long as it holds requests whose post has failed.
    #[inline]
    pub fn push(&mut self, request: &WorkRequest) -> Result<(), ListFull> {
        if self.len >= self.room {
            return Err(ListFull);
        }
        // SAFETY: `len` is less than the number of requests, so the first is one of them and the
        // next is one, or the end of the buffer, to which `first` lets nobody go. The buffer
        // neither moves nor grows.
        unsafe {
            Prepared::fill(self.requests.as_mut_ptr().add(self.len), request);
        }
        self.len += 1;
        Ok(())
    }

    /// Forgets all requests.
    #[inline]
    pub fn clear(&mut self) {
        self.relink();
        (self.len, self.room, self.posted) = (0, self.requests.len(), 0);
    }

    /// Has the request that `first` made the last one lead on again.
    #[inline]
    fn relink(&mut self) {
        let Some(last) = self.len.checked_sub(1) else { return };
        let base = self.requests.as_mut_ptr();
        // SAFETY: one of the requests, and what is behind it, or the end of the buffer.
        unsafe { (*base.add(last)).wr.next = base.add(self.len).cast() };
    }

    /// The first request, with the others linked behind it; `None` if there is none.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<*mut sys::ibv_send_wr> {
        if self.is_empty() {
            return None;
        }
        let base = self.requests.as_mut_ptr();
        // SAFETY: neither the last nor the first that was not posted is beyond the requests.
        unsafe {
            (*base.add(self.len - 1)).wr.next = ptr::null_mut();
            Some(base.add(self.posted).cast())
        }
    }

    /// The library has taken the requests before `refused`, one of the list's. Says how many.
    #[cold]
    pub(crate) fn keep_from(&mut self, refused: *const sys::ibv_send_wr) -> usize {
        let offset = refused.addr().saturating_sub(self.requests.as_ptr().addr());
        let taken = (offset / size_of::<Prepared>()).clamp(self.posted, self.len) - self.posted;
        self.posted += taken;
        self.relink();
        self.room = if self.posted > 0 { 0 } else { self.room };
        taken
    }
}

impl fmt::Debug for WorkRequestList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkRequestList")
            .field("len", &self.len())
            .field("capacity", &self.requests.len())
            .finish()
    }
}

// The library is given a Prepared where it expects its first field.
const _: () = assert!(core::mem::offset_of!(Prepared, wr) == 0);
