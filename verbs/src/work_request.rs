//! Work requests, and lists of them that are posted together.

use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use probeline_verbs_sys as sys;

use crate::{LocalRange, RemoteAddress};

/// The maximum number of words of an inline WRITE: a cache line. Devices support more, but fetching
/// more than a line is faster than copying it twice.
pub const INLINE_WORDS: usize = 8;

/// A one-sided operation, with the ID under which it completes.
#[derive(Clone, Copy, Debug)]
pub struct WorkRequest {
    id: u64,
    verb: Verb,
    remote: RemoteAddress,
    signalled: bool,
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
    /// Creates a READ of the words from `from` on into the whole range `into`.
    #[inline]
    #[must_use]
    pub fn read(id: u64, from: RemoteAddress, into: LocalRange) -> Self {
        Self::new(id, Verb::Read(into), from)
    }

    /// Creates a WRITE of the whole range `from` to the words from `to` on. The device reads `from`
    /// at any time until the request completes.
    #[inline]
    #[must_use]
    pub fn write(id: u64, from: LocalRange, to: RemoteAddress) -> Self {
        Self::new(id, Verb::Write(from), to)
    }

    /// Creates a WRITE of `words`, which the request contains, so that they need no registered
    /// memory. `None` for no words or more than [`INLINE_WORDS`]. The [`Capacity`](crate::Capacity)
    /// of the queue pair must allow as many.
    #[inline]
    #[must_use]
    pub fn write_inline(id: u64, words: &[u64], to: RemoteAddress) -> Option<Self> {
        let mut carried = [0; INLINE_WORDS];
        carried.get_mut(..words.len())?.copy_from_slice(words);
        // At most INLINE_WORDS, by the line above.
        let len = u32::try_from(words.len()).ok().filter(|&len| len > 0)?;
        Some(Self::new(id, Verb::WriteInline(carried, len), to))
    }

    /// Creates a compare-and-swap of the word at `at`. The old value lands in the first word of
    /// `into`.
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

    /// Creates a fetch-and-add on the word at `at`. The old value lands in the first word of `into`.
    #[inline]
    #[must_use]
    pub fn fetch_add(id: u64, at: RemoteAddress, addend: u64, into: LocalRange) -> Self {
        Self::new(id, Verb::FetchAdd { addend, into }, at)
    }

    #[inline]
    fn new(id: u64, verb: Verb, remote: RemoteAddress) -> Self {
        Self { id, verb, remote, signalled: true }
    }

    /// Generates no completion: that of a later, signalled request of the queue pair shows that
    /// this one has completed. Before the queue pair is full a request must be signalled.
    #[inline]
    #[must_use]
    pub fn unsignalled(self) -> Self {
        Self { signalled: false, ..self }
    }

    #[inline]
    fn flags(&self) -> u32 {
        let mut flags = 0;
        if self.signalled {
            flags |= sys::IBV_SEND_SIGNALED;
        }
        if matches!(self.verb, Verb::WriteInline(..)) {
            flags |= sys::IBV_SEND_INLINE;
        }
        flags
    }
}

/// A request in the layout of the library.
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

    /// Links `next` behind `this`, and sets the scatter/gather list of `this` to its own entry.
    ///
    /// # Safety
    /// `this` is valid for writes, and does not move until it is posted.
    #[inline]
    pub(crate) unsafe fn link(this: *mut Self, next: *mut Self) {
        // SAFETY: the caller upholds that `this` is valid for writes.
        unsafe {
            (*this).wr.next = next.cast();
            (*this).wr.sg_list = &raw mut (*this).sge;
            (*this).wr.num_sge = 1;
            // Some providers read it with any opcode.
            (*this).wr.__bindgen_anon_1.imm_data = 0;
        }
    }

    /// Fills `this`, which is linked, with `request`. Fields that `request` does not use keep their
    /// values, or stay uninitialised: the library reads only those of the opcode.
    ///
    /// # Safety
    /// As for `link`.
    #[inline]
    pub(crate) unsafe fn fill(this: *mut Self, request: &WorkRequest) {
        // SAFETY: the caller upholds that `this` is valid for writes. Fields are accessed through raw
        // pointers, so that a pointer to one field stays valid when another one is written. Union
        // fields are plain numbers.
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
                    // The library casts it to a pointer.
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

/// Requests that are posted with one doorbell, in memory that is allocated once.
pub struct WorkRequestList {
    /// All requests, filled or not. The pointers below are to them, or to the end of the buffer,
    /// which neither moves nor grows.
    requests: Vec<Prepared>,
    /// The first request that is not posted.
    first: NonNull<Prepared>,
    /// The request that the next push fills.
    next: NonNull<Prepared>,
    /// The first request that a push does not fill: `end`, or `first` if the list is closed.
    limit: NonNull<Prepared>,
    /// The end of the buffer.
    end: NonNull<Prepared>,
}

// SAFETY: the pointers inside are to the list itself, and only its user follows them.
unsafe impl Send for WorkRequestList {}

impl WorkRequestList {
    /// Creates an empty list for `capacity` requests.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let mut requests: Vec<_> = (0..capacity).map(|_| Prepared::empty()).collect();
        let base = requests.as_mut_ptr();
        for place in 0..capacity {
            // SAFETY: `place` is the index of a request in the buffer. The last request is linked to
            // the end of the buffer; `first` sets that link to null before a post.
            unsafe { Prepared::link(base.add(place), base.add(place + 1)) };
        }
        // A vector's pointer is never null.
        let first = NonNull::new(base).unwrap_or(NonNull::dangling());
        // SAFETY: the end of the buffer.
        let end = unsafe { first.add(capacity) };
        Self { requests, first, next: first, limit: end, end }
    }

    /// Returns the number of requests.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        (self.next.addr().get() - self.first.addr().get()) / size_of::<Prepared>()
    }

    /// Returns whether there is no request.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// Returns whether [`push`](Self::push) appends a request.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.next < self.limit
    }

    /// Refuses requests until [`open`](Self::open) or
    /// [`clear`](Self::clear).
    #[inline]
    pub(crate) fn close(&mut self) {
        self.limit = self.first;
    }

    /// Accepts requests up to the capacity.
    #[inline]
    pub(crate) fn open(&mut self) {
        self.limit = self.end;
    }

    #[inline]
    fn base(&mut self) -> NonNull<Prepared> {
        NonNull::new(self.requests.as_mut_ptr()).unwrap_or(self.first)
    }

    /// Returns the IDs of the requests, in their order.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        let posted =
            (self.first.addr().get() - self.requests.as_ptr().addr()) / size_of::<Prepared>();
        self.requests.iter().skip(posted).take(self.len()).map(|request| request.wr.wr_id)
    }

    /// Appends a request. Returns false if the list is full, or holds requests whose post has failed:
    /// post it, then push again.
    #[inline]
    #[must_use]
    pub fn push(&mut self, request: &WorkRequest) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: `next` is a request of the buffer, because it is before `limit`. `new` has linked
        // all requests.
        unsafe {
            Prepared::fill(self.next.as_ptr(), request);
            self.next = self.next.add(1);
        }
        true
    }

    /// Removes all requests.
    #[inline]
    pub fn clear(&mut self) {
        self.relink();
        (self.first, self.next) = (self.base(), self.base());
        self.open();
    }

    /// Links the request that `first` has made the last one to the next one again.
    #[inline]
    fn relink(&mut self) {
        if self.is_empty() {
            return;
        }
        // SAFETY: `next` is behind `first`, so there is a request before it. The link is to the next
        // request or to the end of the buffer.
        unsafe { (*self.next.sub(1).as_ptr()).wr.next = self.next.as_ptr().cast() };
    }

    /// Returns the first request, with the others linked behind it; `None` if there is none.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<*mut sys::ibv_send_wr> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: as in `relink`.
        unsafe { (*self.next.sub(1).as_ptr()).wr.next = ptr::null_mut() };
        Some(self.first.as_ptr().cast())
    }

    /// Removes the requests before `refused`, one of the list: the library has taken them. Returns
    /// their number.
    #[cold]
    pub(crate) fn keep_from(&mut self, refused: *const sys::ibv_send_wr) -> usize {
        let offset = refused.addr().saturating_sub(self.first.addr().get());
        let taken = (offset / size_of::<Prepared>()).min(self.len());
        self.relink();
        // SAFETY: at most at `next`, by the line above.
        self.first = unsafe { self.first.add(taken) };
        if self.base() < self.first {
            self.close();
        }
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

// A pointer to a Prepared is passed as one to its first field.
const _: () = assert!(core::mem::offset_of!(Prepared, wr) == 0);
