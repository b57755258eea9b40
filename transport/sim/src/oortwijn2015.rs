//! The paper's cluster: what its latencies say that READs and claims took there.

use crate::model::{Cost, Model, Prefetched, Rates, Roundtrips};

/// A READ between two machines, posted alone. It says nothing of a NIC: 48 Gbit/s would be 1.3 ns
/// a word.
const REMOTE_READ: Cost = Cost { base_ns: 3_310, word_ps: 11_930 };
/// A claim between two machines. Berkeley UPC has the owner's CPU do it, told by an active message
/// (its `upcr_atomic.c`), so that it takes longer than a READ.
const REMOTE_ATOMIC_NS: u64 = 3_745;
/// Of two READs posted at once the second ends 1311 ns after the first.
const READS_PER_S: u64 = 763_000;
/// The same by loads and stores in the memory of one machine, where 24 words are three lines.
const LOCAL_READ: Cost = Cost { base_ns: 36, word_ps: 2_340 };
const LOCAL_PREFETCHED: Prefetched = Prefetched { beyond_words: 24, word_ps: 957 };
const LOCAL_ATOMIC_NS: u64 = 170;

impl Model {
    /// The cluster of W. Oortwijn, T. van Dijk and J. van de Pol, *A Distributed Hash Table for
    /// Shared Memory* (PPAM 2015): DAS-5, 48 Gbit/s Mellanox InfiniBand, Berkeley UPC 2.20.2 over
    /// MXM, one process on each of two machines. With [`owners_per_node`](Self::owners_per_node)
    /// 2 it is two processes on one of them.
    ///
    /// With it the paper's algorithm (Fig. 1) has the mean latencies of its Table 1, C from 8 to
    /// 128 and load factors from 0.5 to 0.9, within 3 %, and those of its result files at 0.92
    /// within 5 %, on one machine too (`tests/oortwijn2015.rs`).
    ///
    /// How it is derived: every operation measured there is an insert, half of them into the own
    /// part, so that twice the mean on two machines less the mean on one is an insert into the
    /// other's part. Where the first chunk does, that is a READ and a claim; by how much each
    /// further chunk raises it, two being in flight, tells the READ from the claim, and the second
    /// chunk alone tells how far two READs are apart. C enters twice, as words of a READ and in
    /// the share of inserts that need n chunks, which linear probing gives. The parameters are
    /// those of least squares over five C and 46 load factors. Most of what remains is a step of
    /// 0.5 us between READs of 16 and of 32 words, which no straight line has. On one machine the CPU
    /// does one READ after the other, and the words behind the first lines take less: there the
    /// parameters are those of which the largest deviation is least.
    ///
    /// What the latencies cannot tell is chosen: a WRITE is as a READ, a fetch-and-add as a claim,
    /// a barrier takes an atomic's roundtrip, posts and completions take no CPU time, a claim waits
    /// for no READ posted before it, and there are no limits but the one on READs.
    #[must_use]
    pub const fn oortwijn2015() -> Self {
        Self {
            idle_poll_ns: 50,
            barrier_ns: REMOTE_ATOMIC_NS,
            local: alike(LOCAL_READ, LOCAL_ATOMIC_NS),
            local_by_cpu: true,
            local_prefetched: LOCAL_PREFETCHED,
            remote: alike(REMOTE_READ, REMOTE_ATOMIC_NS),
            initiator: Rates { copies_per_s: READS_PER_S, atomics_per_s: 0 },
            ..Self::instant()
        }
    }
}

const fn alike(copy: Cost, atomic_ns: u64) -> Roundtrips {
    Roundtrips { read: copy, write: copy, atomic_ns }
}
