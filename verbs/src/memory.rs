//! Memory that a device may access.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use probeline_transport::WORD_BYTES;
use probeline_verbs_sys as sys;

use crate::{ProtectionDomain, VerbFailed};

/// Messages are shorter.
pub(crate) const MESSAGE_LIMIT_BYTES: u32 = 1 << 31;

/// Memory that can be registered with a device.
///
/// Other code may access the same words too, if it uses atomics: a device and peers change them at
/// any time anyway. Only an engine's slots are shown as plain words; the engine therefore allocates
/// them itself.
///
/// # Safety
/// [`words`](Self::words) returns the same words each time. They keep their address, and can be
/// read and written, while the value lives, even if it is moved. Every access to them, through the
/// value or not, uses atomics.
pub unsafe trait Memory {
    /// Returns the words to register, in address order.
    fn words(&self) -> &[AtomicU64];
}

// SAFETY: the buffer does not move with the vector, and cannot grow while a region owns it.
unsafe impl Memory for Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

// SAFETY: static memory.
unsafe impl Memory for &'static [AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

// SAFETY: as for the memory inside, which does not move with its box.
unsafe impl Memory for Box<dyn Memory + Send> {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

#[cfg(feature = "pin")]
// SAFETY: the pages stay mapped until the mapping is dropped, which shows them as atomics only.
unsafe impl Memory for probeline_pin::Mapping {
    fn words(&self) -> &[AtomicU64] {
        probeline_pin::Mapping::words(self)
    }
}

bitflags! {
    /// The permitted operations on a region (ibv_reg_mr(3)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Results of own READs and atomics land in it. [`REMOTE_WRITE`](Self::REMOTE_WRITE) and
        /// [`REMOTE_ATOMIC`](Self::REMOTE_ATOMIC) need it too.
        const LOCAL_WRITE = sys::IBV_ACCESS_LOCAL_WRITE;
        /// Peers may WRITE to it.
        const REMOTE_WRITE = sys::IBV_ACCESS_REMOTE_WRITE;
        /// Peers may READ it.
        const REMOTE_READ = sys::IBV_ACCESS_REMOTE_READ;
        /// Peers may perform atomics on it.
        const REMOTE_ATOMIC = sys::IBV_ACCESS_REMOTE_ATOMIC;
    }
}

impl Access {
    /// A private buffer, for READs to land in and WRITEs to come from.
    pub const PRIVATE: Self = Self::LOCAL_WRITE;
    /// A window: every one-sided operation of peers.
    pub const WINDOW: Self = Self::LOCAL_WRITE
        .union(Self::REMOTE_WRITE)
        .union(Self::REMOTE_READ)
        .union(Self::REMOTE_ATOMIC);

    /// Returns the bits for the library, without unknown ones.
    pub(crate) const fn code(self) -> u32 {
        Self::from_bits_truncate(self.bits()).bits()
    }
}

/// Memory that is registered with a device. Dropping the region deregisters the memory before it is
/// freed.
///
/// All accesses are atomic, so that those of the device can be concurrent:
///
/// ```compile_fail,E0596
/// fn overwrite(region: &mut probeline_verbs::MemoryRegion<Vec<core::sync::atomic::AtomicU64>>) {
///     region.words()[0] = 1.into();
/// }
/// ```
pub struct MemoryRegion<M: Memory> {
    region: NonNull<sys::ibv_mr>,
    start: NonNull<AtomicU64>,
    len: usize,
    domain: ProtectionDomain,
    local_key: u32,
    remote: RemoteRegion,
    memory: ManuallyDrop<M>,
}

// SAFETY: any thread may deregister a region; everything else in it is plain data.
unsafe impl<M: Memory + Send> Send for MemoryRegion<M> {}
// SAFETY: a shared region is read-only, and its words are atomics.
unsafe impl<M: Memory + Sync> Sync for MemoryRegion<M> {}

impl<M: Memory> MemoryRegion<M> {
    /// Registers all words of `memory`, which are pinned in RAM from then on.
    ///
    /// # Errors
    /// [`VerbFailed`]: ENOMEM if the limit of locked memory (`ulimit -l`) is too low.
    pub fn register(
        domain: &ProtectionDomain,
        memory: M,
        access: Access,
    ) -> Result<Self, VerbFailed> {
        let words = memory.words();
        let (start, len, bytes) = (NonNull::from(words).cast(), words.len(), size_of_val(words));
        let (register, access) = (domain.context().verbs().ibv_reg_mr, access.code());
        // SAFETY: until drop, which deregisters first, `memory` keeps the words readable, writable
        // and in place, and all other accesses are atomic: whoever implements `Memory` upholds
        // both.
        let region = unsafe {
            let start: NonNull<AtomicU64> = start;
            register(domain.as_ptr(), start.as_ptr().cast(), bytes, access.cast_signed())
        };
        let region = NonNull::new(region).ok_or_else(|| VerbFailed::last("ibv_reg_mr"))?;
        // SAFETY: the library filled it, and only deregistering changes it.
        let (local_key, key) = unsafe { (region.as_ref().lkey, region.as_ref().rkey) };
        let remote = RemoteRegion { address: start.addr().get() as u64, words: len as u64, key };
        let memory = ManuallyDrop::new(memory);
        Ok(Self { region, start, len, domain: domain.clone(), local_key, remote, memory })
    }

    /// Returns the registered words, in address order.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the words of `memory` keep their address while it lives, as `Memory` requires of
        // its implementation. The address is kept here because `memory.words()` may cost a call.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns the memory that was registered.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the range of `words` words from word `start` on, for work requests of this domain's
    /// queue pairs; `None` if it is empty, not within the region, or at least 2 GiB long, the limit
    /// of a message.
    #[inline]
    #[must_use]
    pub fn local(&self, start: u64, words: u32) -> Option<LocalRange> {
        let address = self.remote.at(start, words)?.address;
        let bytes =
            words.checked_mul(8).filter(|bytes| (1..MESSAGE_LIMIT_BYTES).contains(bytes))?;
        Some(LocalRange { address, bytes, key: self.local_key })
    }

    /// Returns `count` blocks of `words` words each, from word `start` on, for requests of ranges
    /// within a block; `None` if they are not within the region.
    pub(crate) fn local_blocks(&self, start: u64, count: u32, words: u32) -> Option<LocalBlocks> {
        let all = u64::from(count) * u64::from(words);
        let address = self.remote.at(start, 0)?.address;
        let fits = start.checked_add(all).is_some_and(|end| end <= self.remote.words);
        let block_bytes = u64::from(words) * WORD_BYTES as u64;
        fits.then_some(LocalBlocks { address, block_bytes, key: self.local_key })
    }

    /// Returns the address and key by which peers access the region.
    #[must_use]
    pub fn remote(&self) -> RemoteRegion {
        self.remote
    }
}

impl<M: Memory> Drop for MemoryRegion<M> {
    fn drop(&mut self) {
        let dereg = self.domain.context().verbs().ibv_dereg_mr;
        // SAFETY: registered in `register`, deregistered here only.
        if unsafe { dereg(self.region.as_ptr()) } != 0 {
            // The device may still access the memory: it is leaked, and so is its domain.
            core::mem::forget(self.domain.clone());
            return;
        }
        // SAFETY: dropped here only.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

impl<M: Memory> fmt::Debug for MemoryRegion<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegion").field("words", &self.remote.words).finish_non_exhaustive()
    }
}

/// A range of words of a region of this process. It does not keep the region alive: a request with
/// a range of a deregistered region fails.
#[derive(Clone, Copy, Debug)]
pub struct LocalRange {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) key: u32,
}

/// Blocks of words of a region of this process, of which the caller checks ranges itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalBlocks {
    address: u64,
    block_bytes: u64,
    key: u32,
}

impl LocalBlocks {
    /// Returns the range of `words` words from word `start` of a block on. The caller has checked
    /// that it is not empty, shorter than 2 GiB, and within one of the blocks; a request of any
    /// other range may fail.
    #[inline]
    pub(crate) fn range(self, block: u32, start: u32, words: u32) -> LocalRange {
        let start = u64::from(start) * WORD_BYTES as u64;
        let offset = u64::from(block).wrapping_mul(self.block_bytes).wrapping_add(start);
        let address = self.address.wrapping_add(offset);
        LocalRange { address, bytes: words.wrapping_mul(8), key: self.key }
    }
}

/// The address and key of a peer's region, which the peer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// The address of the first word in the peer's process.
    pub address: u64,
    /// The number of words of the region.
    pub words: u64,
    /// The key, which the peer's device demands.
    pub key: u32,
}

/// The address of a word of a peer's region.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddress {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

impl RemoteRegion {
    /// Returns the first `words` words, or all if there are fewer, and the others.
    pub(crate) fn split_at(&self, words: u64) -> (Self, Self) {
        let words = words.min(self.words);
        let address = self.address.wrapping_add(words.wrapping_mul(WORD_BYTES as u64));
        (Self { words, ..*self }, Self { address, words: self.words - words, key: self.key })
    }

    /// Returns the address of word `start`; `None` if the `words` words from there on are not all
    /// within the region.
    #[inline]
    #[must_use]
    pub fn at(&self, start: u64, words: u32) -> Option<RemoteAddress> {
        self.contains(start, words).then(|| self.address(start))
    }

    /// Returns whether the `words` words from word `start` on are all within the region.
    #[inline]
    pub(crate) fn contains(&self, start: u64, words: u32) -> bool {
        start.checked_add(u64::from(words)).is_some_and(|end| end <= self.words)
    }

    /// Returns the address of word `start`. A request of a word outside the region fails at the
    /// peer.
    #[inline]
    pub(crate) fn address(&self, start: u64) -> RemoteAddress {
        let address = self.address.wrapping_add(start.wrapping_mul(WORD_BYTES as u64));
        RemoteAddress { address, key: self.key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: RemoteRegion = RemoteRegion { address: 0x7000, words: 64, key: 0xabcd_0123 };

    #[test]
    fn refuses_words_outside_region() {
        assert_eq!(REGION.at(0, 64).unwrap().address, 0x7000);
        assert_eq!(REGION.at(63, 1).unwrap().address, 0x7000 + 63 * 8);
        for (start, words) in [(0, 65), (64, 1), (63, 2), (u64::MAX, 1), (u64::MAX, 2)] {
            assert!(REGION.at(start, words).is_none(), "{start} {words}");
        }
    }

    #[test]
    fn splits_region_at_word() {
        let (first, rest) = REGION.split_at(24);
        assert_eq!((first.words, first.at(23, 1).unwrap().address), (24, 0x7000 + 23 * 8));
        assert_eq!((rest.words, rest.at(0, 40).unwrap().address), (40, 0x7000 + 24 * 8));
        assert!(first.at(24, 1).is_none() && rest.at(0, 41).is_none());
        assert_eq!(first.at(0, 1).unwrap().key, rest.at(0, 1).unwrap().key);
        let (all, none) = REGION.split_at(65);
        assert_eq!((all.words, none.words), (64, 0));
    }

    #[test]
    fn block_range_address_and_key() {
        let blocks = LocalBlocks { address: 0x9000, block_bytes: 24 * 8, key: 7 };
        let LocalRange { address, bytes, key } = blocks.range(2, 5, 19);
        assert_eq!((address, bytes, key), (0x9000 + (2 * 24 + 5) * 8, 19 * 8, 7));
    }
}
