//! The quantities of a profile.

use crate::error::ProfileError;

/// A quantity's name and description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The table of the file, a dot, and the key in it, which ends with the unit.
    pub name: &'static str,
    /// The description of the quantity.
    pub about: &'static str,
}

const fn quantity(name: &'static str, about: &'static str) -> Quantity {
    Quantity { name, about }
}

/// All quantities, in the order in which they stand in a file.
pub const QUANTITIES: &[Quantity] = &[
    quantity("cpu.post_ns", "CPU time of a post"),
    quantity("cpu.completion_ns", "CPU time of a completion"),
    quantity("local.read_base_ns", "fixed cost of a READ by the CPU within its machine"),
    quantity("local.read_word_ps", "cost of each word of such a READ"),
    quantity(
        "local.prefetched_beyond_words",
        "words of such a READ after which the CPU's prefetcher keeps up",
    ),
    quantity("local.prefetched_word_ps", "cost of each prefetched word"),
    quantity("local.atomic_ns", "a compare-and-swap by the CPU within its machine"),
    quantity("remote.read_base_ns", "fixed cost of a READ's roundtrip, post to completion"),
    quantity("remote.read_word_ps", "cost of each word of a READ"),
    quantity("remote.long_read_words", "words of the longest READ without the cost of a long READ"),
    quantity("remote.long_read_ns", "additional cost of a long READ"),
    quantity("remote.atomic_ns", "a compare-and-swap's roundtrip"),
    quantity("remote.jitter_mean_ns", "mean of a roundtrip's exponentially distributed jitter"),
    quantity("remote.neighbour_ns", "cost of each other busy rank of the machine to a roundtrip"),
    quantity("remote.socket_neighbour_ns", "further cost of each busy rank of the same socket"),
    quantity("remote.idle_owner_ns", "cost to a roundtrip of an owner with nothing in flight"),
    quantity("owner.serves_atomics", "1 if owners' CPUs perform atomics in the paper's program"),
    quantity("machine.socket_cores", "cores of a socket; ranks fill one socket after the other"),
    quantity("switch.nodes_each", "machines that fit on one switch"),
    quantity("switch.count", "switches over which more machines than that are spread"),
    quantity("switch.further_ns", "additional roundtrip time to another switch"),
    quantity("rank.reads_per_s", "READs that one rank posts"),
    quantity("rank.atomics_per_s", "compare-and-swaps that one rank posts"),
    quantity("nic.reads_per_s", "READs that a NIC sends, and the number that it answers"),
    quantity("nic.sent_reads_per_s", "READs that a NIC sends, if it answers more"),
    quantity("nic.sent_writes_per_s", "WRITEs that a NIC sends, without READs between them"),
    quantity("nic.atomics_per_s", "compare-and-swaps that a NIC answers"),
    quantity("nic.bytes_per_s", "bytes that a NIC's link carries in each direction"),
    quantity("nic.header_bytes", "bytes of a request or a response besides its words"),
    quantity("nic.outstanding_knee", "operations in flight up to which a NIC keeps its rate"),
    quantity("nic.outstanding_halved_by", "further operations in flight that halve the rate"),
    quantity("nic.connections_knee", "queue pairs up to which a NIC keeps its rate"),
    quantity("nic.connections_halved_by", "further queue pairs that halve the rate"),
    quantity("word.atomic_ns", "time for which an atomic keeps its word from the next atomic"),
];

/// The largest value: above every rate and time of a network, and far below any overflow of the
/// model.
const MAX_VALUE: u64 = 1 << 48;
/// Quantities that cannot be 0, besides rates: every roundtrip takes time.
const NEVER_ZERO: [&str; 4] =
    ["local.read_base_ns", "local.atomic_ns", "remote.read_base_ns", "remote.atomic_ns"];

impl Quantity {
    /// Returns the quantity of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        QUANTITIES.iter().find(|quantity| quantity.name == name)
    }

    /// Returns the quantity of this name, if it can have this value, of a file or of a user.
    ///
    /// # Errors
    /// There is no quantity of this name, or the value is above 2^48, or 0 where 0 makes no sense.
    pub fn checked(name: &str, value: u64) -> Result<&'static Self, ProfileError> {
        let quantity = Self::named(name).ok_or_else(|| ProfileError::Unknown(name.to_owned()))?;
        let is_rate = name.ends_with("_per_s");
        let min = u64::from(is_rate || NEVER_ZERO.contains(&name));
        if (min..=MAX_VALUE).contains(&value) {
            return Ok(quantity);
        }
        Err(ProfileError::Range { name: quantity.name, value, min, max: MAX_VALUE })
    }

    /// Returns the table of the file, and the key in it.
    pub(crate) fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }
}
