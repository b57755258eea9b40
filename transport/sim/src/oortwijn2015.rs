//! The model of the paper's cluster, derived from the latencies that the paper's authors measured.

use crate::model::{Cost, Model, Prefetched, Rates, Roundtrips};

/// A single READ between two machines. The time for each word is the runtime's, not the NIC's: at
/// 48 Gbit/s a word would take 1.3 ns.
const REMOTE_READ: Cost = Cost { base_ns: 3_310, word_ps: 11_930 };
/// A claim between two machines. It takes longer than a READ because in Berkeley UPC the owner's
/// CPU executes it on receipt of an active message (its `upcr_atomic.c`).
const REMOTE_ATOMIC_NS: u64 = 3_745;
/// Of two READs posted at once, the second completes 1311 ns after the first.
const READS_PER_S: u64 = 763_000;
/// A READ by loads in the memory of the same machine; 24 words are three cache lines.
const LOCAL_READ: Cost = Cost { base_ns: 36, word_ps: 2_340 };
const LOCAL_PREFETCHED: Prefetched = Prefetched { beyond_words: 24, word_ps: 957 };
const LOCAL_ATOMIC_NS: u64 = 170;

impl Model {
    /// Returns the cluster of W. Oortwijn, T. van Dijk and J. van de Pol, *A Distributed Hash Table
    /// for Shared Memory* (PPAM 2015): DAS-5, 48 Gbit/s Mellanox InfiniBand, Berkeley UPC 2.20.2
    /// over MXM, one process on each of two machines. With
    /// [`owners_per_node`](Self::owners_per_node) = 2 it is two processes on one of the machines.
    ///
    /// With this model, the paper's algorithm (Fig. 1) has the mean latencies of its Table 1 for C
    /// from 8 to 128 and load factors from 0.5 to 0.8 within 3 %. It has those of the authors'
    /// result files up to load factor 0.92, and those of one machine, within 5 %
    /// (`microbench/simulate/tests/paper.rs`).
    ///
    /// Derivation:
    /// - Every measured operation is an insert, and half of them go to the process's own part. So
    ///   twice the mean on two machines minus the mean on one machine is an insert into the other's
    ///   part.
    /// - An insert into the first chunk is a READ and a claim. Two chunk READs are in flight, so
    ///   the increase with each further chunk separates the READ from the claim, and the second
    ///   chunk alone gives the interval between two READs.
    /// - C enters twice: as the words of a READ, and in the share of inserts that need n chunks,
    ///   which follows from linear probing.
    /// - The parameters for two machines are a least-squares fit over five C and 46 load factors.
    ///   Most of the residual is a step of 0.5 us between READs of 16 and of 32 words, which a
    ///   linear cost cannot have.
    /// - On one machine the CPU executes one READ after the other, and the words after the first
    ///   lines take less time. There the parameters minimise the largest deviation.
    ///
    /// The latencies do not determine the rest, which is chosen: a WRITE costs as much as a READ, a
    /// fetch-and-add as much as a claim, a barrier an atomic's roundtrip; posts and completions
    /// take no CPU time; a claim does not wait for READs posted before it; only the rate of READs
    /// is limited.
    #[must_use]
    pub fn oortwijn2015() -> Self {
        Self {
            idle_poll_ns: 50,
            barrier_ns: REMOTE_ATOMIC_NS,
            local: Roundtrips { read: LOCAL_READ, atomic_ns: LOCAL_ATOMIC_NS },
            local_by_cpu: true,
            local_prefetched: LOCAL_PREFETCHED,
            remote: Roundtrips { read: REMOTE_READ, atomic_ns: REMOTE_ATOMIC_NS },
            initiator: Rates { reads_per_s: READS_PER_S, ..Rates::default() },
            ..Self::default()
        }
    }
}
