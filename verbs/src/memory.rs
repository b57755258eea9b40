//! Memory that a device may reach.

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

/// Memory that can be registered with a device.
///
/// Other code may hold the same words and change them too, if it uses atomics: a device and peers
/// change them at any time anyway. Only an engine's slots are shown as plain words; the engine
/// therefore allocates them itself.
///
/// # Safety
/// [`words`](Self::words) returns the same words each time. They keep their address, and can be
/// read and written, while the value lives, even if it is moved. Every access to them, through the
/// value or not, uses atomics.
pub unsafe trait Memory {
    /// The words.
    fn words(&self) -> &[AtomicU64];
}

// SAFETY: its buffer does not move with it, and cannot grow while a region owns it.
unsafe impl Memory for Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

// SAFETY: it never moves nor ends.
unsafe impl Memory for &'static [AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

// SAFETY: as the memory inside, which does not move with its box.
unsafe impl Memory for Box<dyn Memory + Send> {
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

#[cfg(feature = "pin")]
// SAFETY: the pages stay until the mapping is dropped, and it hands out atomics only.
unsafe impl Memory for probeline_pin::Mapping {
    fn words(&self) -> &[AtomicU64] {
        probeline_pin::Mapping::words(self)
    }
}

bitflags! {
    /// What may be done to a region (ibv_reg_mr(3)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// This side's READs and atomics land in it. Those that peers write need it too.
        const LOCAL_WRITE = sys::IBV_ACCESS_LOCAL_WRITE;
        /// Peers WRITE to it.
        const REMOTE_WRITE = sys::IBV_ACCESS_REMOTE_WRITE;
        /// Peers READ it.
        const REMOTE_READ = sys::IBV_ACCESS_REMOTE_READ;
        /// Peers do atomics on it.
        const REMOTE_ATOMIC = sys::IBV_ACCESS_REMOTE_ATOMIC;
        /// The device may reorder its writes to it; given up where it cannot.
        const RELAXED_ORDERING = sys::IBV_ACCESS_RELAXED_ORDERING;
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

    /// The bits that are named above, and no others.
    pub(crate) const fn code(self) -> u32 {
        Self::from_bits_truncate(self.bits()).bits()
    }
}

/// Memory registered with a device, which it owns. Dropping it ends every right to it first.
///
/// All access is through atomics, so a device that still works on it does no harm:
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
// SAFETY: a shared region is read only, its words are atomics.
unsafe impl<M: Memory + Sync> Sync for MemoryRegion<M> {}

impl<M: Memory> MemoryRegion<M> {
    /// Registers all words of `memory`, which stay in RAM from then on.
    ///
    /// # Errors
    /// [`VerbFailed`]: ENOMEM where the limit on locked memory is in the way (`ulimit -l`).
    pub fn register(
        domain: &ProtectionDomain,
        memory: M,
        access: Access,
    ) -> Result<Self, VerbFailed> {
        let words = memory.words();
        let (start, len, bytes) = (NonNull::from(words).cast(), words.len(), size_of_val(words));
        let verbs = domain.context().verbs();
        // SAFETY: `memory` keeps the words mapped and in place (its trait's promise) until drop,
        // which deregisters first. A device's changes meet atomics only.
        let region = unsafe {
            let start: NonNull<AtomicU64> = start;
            sys::ibv_reg_mr(verbs, domain.as_ptr(), start.as_ptr().cast(), bytes, access.code())
        };
        let region = NonNull::new(region).ok_or_else(|| VerbFailed::last("ibv_reg_mr"))?;
        // SAFETY: the library filled it, and only deregistering changes it.
        let (local_key, key) = unsafe { (region.as_ref().lkey, region.as_ref().rkey) };
        let remote = RemoteRegion { address: start.addr().get() as u64, words: len as u64, key };
        let memory = ManuallyDrop::new(memory);
        Ok(Self { region, start, len, domain: domain.clone(), local_key, remote, memory })
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: what `memory` gave when it was registered stays in place while it lives (its
        // trait's promise). Kept here, because asking it may cost a call.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The memory itself.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// `words` words from `start` on, for work requests of this domain's queue pairs; `None` for
    /// none, where they leave the region, or for 2 GiB, which no message is longer than.
    #[inline]
    #[must_use]
    pub fn local(&self, start: u64, words: u32) -> Option<LocalRange> {
        let address = self.remote.at(start, words)?.address;
        let bytes = words.checked_mul(8).filter(|bytes| (1..1 << 31).contains(bytes))?;
        Some(LocalRange { address, bytes, key: self.local_key })
    }

    /// What peers need to know, to use it within its access rights.
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
            // The device may reach the memory still: it stays, for as long as the process, and so
            // does what the region is in.
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

/// A run of words of a region of this process. It keeps nothing alive: once the region is gone, a
/// request with it fails.
#[derive(Clone, Copy, Debug)]
pub struct LocalRange {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) key: u32,
}

/// A region of a peer, as the peer told: who knows it can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    pub(crate) address: u64,
    pub(crate) words: u64,
    pub(crate) key: u32,
}

/// A word of a peer's region from which on it is read or written.
#[derive(Clone, Copy, Debug)]
pub struct RemoteAddress {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

impl RemoteRegion {
    /// Bytes of its encoding.
    pub const BYTES: usize = 20;

    /// Its encoding for an exchange: address, words, key, little endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (address, rest) = bytes.split_at_mut(8);
        let (words, key) = rest.split_at_mut(8);
        address.copy_from_slice(&self.address.to_le_bytes());
        words.copy_from_slice(&self.words.to_le_bytes());
        key.copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) has encoded.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, rest @ ..] = *bytes;
        let [w0, w1, w2, w3, w4, w5, w6, w7, key @ ..] = rest;
        Self {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            words: u64::from_le_bytes([w0, w1, w2, w3, w4, w5, w6, w7]),
            key: u32::from_le_bytes(key),
        }
    }

    /// The word `start`, of which on `words` are to be used; `None` where they leave the region.
    #[inline]
    #[must_use]
    pub fn at(&self, start: u64, words: u32) -> Option<RemoteAddress> {
        let end = start.checked_add(u64::from(words))?;
        let address = self.address.wrapping_add(start.wrapping_mul(WORD_BYTES as u64));
        (end <= self.words).then_some(RemoteAddress { address, key: self.key })
    }

    /// The same words under another key, which opens them only if the peer says so.
    #[must_use]
    pub fn with_key(self, key: u32) -> Self {
        Self { key, ..self }
    }

    /// The same start and key with more or fewer words than the peer has registered.
    #[must_use]
    pub fn with_words(self, words: u64) -> Self {
        Self { words, ..self }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: RemoteRegion = RemoteRegion { address: 0x7000, words: 64, key: 0xabcd_0123 };

    #[test]
    fn a_region_survives_its_encoding() {
        assert_eq!(RemoteRegion::from_bytes(&REGION.to_bytes()), REGION);
        let odd = RemoteRegion { address: u64::MAX - 6, words: 1 << 40, key: 1 };
        assert_eq!(RemoteRegion::from_bytes(&odd.to_bytes()), odd);
    }

    #[test]
    fn only_words_of_the_region_have_an_address() {
        assert_eq!(REGION.at(0, 64).unwrap().address, 0x7000);
        assert_eq!(REGION.at(63, 1).unwrap().address, 0x7000 + 63 * 8);
        for (start, words) in [(0, 65), (64, 1), (63, 2), (u64::MAX, 1), (u64::MAX, 2)] {
            assert!(REGION.at(start, words).is_none(), "{start} {words}");
        }
    }
}
