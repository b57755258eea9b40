//! The memory footprint of a cluster.

use core::mem::size_of;

use crate::fabric::{Entry, Member};
use crate::network::WORD_GROUPS;
use crate::record::Record;
use crate::{Config, Moment};

const WORD_BYTES: u64 = probeline_transport::WORD_BYTES as u64;
/// Bytes that an allocator adds to each buffer for its header and rounding.
const ALLOCATION_BYTES: u64 = 16;

impl Config {
    /// Bytes that a cluster of this configuration and all its engines occupy, within 10 %.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let words_free = if self.model.atomic_word_ns == 0 { 0 } else { WORD_GROUPS as u64 };
        let owner = (self.window_words + words_free)
            .saturating_mul(WORD_BYTES)
            .saturating_add(self.slots_bytes())
            .saturating_add(u64::from(self.records()).saturating_mul(self.record_bytes()))
            .saturating_add(bytes_of::<Member>());
        let trace = u64::from(self.trace_events) * bytes_of::<Moment>();
        owner.saturating_mul(self.owners.into()).saturating_add(trace)
    }

    /// Bytes of one owner's slots: their words, and 16 bytes of state for each slot.
    fn slots_bytes(&self) -> u64 {
        u64::from(self.slots) * (u64::from(self.slot_words) * WORD_BYTES + 2 * WORD_BYTES)
    }

    /// Bytes of one operation in flight: its record, its words, its entries in two queues and in
    /// the list of free records.
    fn record_bytes(&self) -> u64 {
        let buffers = 1 + u64::from(self.tears());
        let words = u64::from(self.slot_words);
        let order = if self.scatter_reads { words * bytes_of::<u32>() } else { 0 };
        let queues = 2 * bytes_of::<Entry>() + bytes_of::<u32>();
        bytes_of::<Record>() + buffers * (words * WORD_BYTES + ALLOCATION_BYTES) + order + queues
    }
}

fn bytes_of<T>() -> u64 {
    size_of::<T>() as u64
}
