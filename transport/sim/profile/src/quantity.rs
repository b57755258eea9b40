//! Every quantity that a profile may give.

/// A quantity's name, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The table of the file, a dot, and the key in it, which ends with the unit.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
}

const fn quantity(name: &'static str, about: &'static str) -> Quantity {
    Quantity { name, about }
}

/// All quantities, in the order in which files have them.
pub const QUANTITIES: &[Quantity] = &[
    quantity("cpu.post_ns", "CPU time of a post"),
    quantity("cpu.completion_ns", "CPU time of a completion"),
    quantity("local.read_base_ns", "a READ by the CPU in its own machine, of any length"),
    quantity("local.read_word_ps", "the same, more for each word"),
    quantity(
        "local.prefetched_beyond_words",
        "words of it after which the CPU has fetched the rest",
    ),
    quantity("local.prefetched_word_ps", "what it takes for each of those"),
    quantity("local.atomic_ns", "a compare-and-swap by the CPU in its own machine"),
    quantity("remote.read_base_ns", "a READ's roundtrip from post to completion, of any length"),
    quantity("remote.read_word_ps", "the same, more for each word"),
    quantity("remote.long_read_words", "the most words of a READ that is not long"),
    quantity("remote.long_read_ns", "what a long READ takes more"),
    quantity("remote.atomic_ns", "a compare-and-swap's roundtrip"),
    quantity("remote.jitter_mean_ns", "what chance adds to a roundtrip, exponentially distributed"),
    quantity("remote.neighbour_ns", "what each further busy rank of the machine adds to it"),
    quantity("remote.socket_neighbour_ns", "what each of them on the same socket adds besides"),
    quantity("remote.idle_owner_ns", "what an owner with nothing in flight adds to a roundtrip"),
    quantity("owner.serves_atomics", "1 where the paper's program had owners' CPUs do atomics"),
    quantity("machine.socket_cores", "cores of a socket, which ranks fill one after the other"),
    quantity("switch.nodes_each", "machines that one switch holds"),
    quantity("switch.count", "switches, at all of which machines stand that one does not hold"),
    quantity("switch.further_ns", "what a roundtrip to another switch takes longer"),
    quantity("rank.reads_per_s", "READs that one rank sends"),
    quantity("rank.atomics_per_s", "compare-and-swaps that one rank sends"),
    quantity("nic.reads_per_s", "READs that a NIC sends, and as many that it answers"),
    quantity("nic.atomics_per_s", "compare-and-swaps that a NIC answers"),
    quantity("nic.bytes_per_s", "bytes that a NIC's link carries, each way"),
    quantity("nic.header_bytes", "bytes of a request or a response besides its words"),
    quantity("nic.outstanding_knee", "operations of a NIC in flight that its rate stands"),
    quantity("nic.outstanding_halved_by", "how many more halve it"),
    quantity("nic.connections_knee", "queue pairs of a NIC that its rate stands"),
    quantity("nic.connections_halved_by", "how many more halve it"),
    quantity("word.atomic_ns", "how long an atomic keeps its word from the next"),
];

impl Quantity {
    /// The quantity of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        QUANTITIES.iter().find(|quantity| quantity.name == name)
    }

    /// The file's table that it stands in, and its key there.
    pub(crate) fn parts(&self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }
}
