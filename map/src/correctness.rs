//! Correctness: why results are right, whatever a stale, torn or repeated READ shows.
//!
//! Control words change by atomics only, bodies by WRITEs only, and only by the client that has the
//! claim.
//!
//! 1. *No get returns a wrong value.* A hit needs a full control word, the key's bytes, and a check
//!    that matches key, value and bucket. The words of a READ may be of different times, and so may
//!    the bytes of a word if words may tear. Each mixture of two entries, torn word, or remains of a
//!    late WRITE passes the check with a probability of 2^-56; of 2^-40 in [`Mode::BucketLocks`](crate::Mode::BucketLocks).
//! 2. *A hit is current.* The check that matched was in the bucket, in a full control word, at some
//!    time between the post and the completion of the READ, whatever bytes the READ took from which
//!    time. For *only a full word has bytes of its entry's check*: a claim replaces them all by a
//!    ticket, a drop inverts each of them (except for the 16 bits in which
//!    [`Mode::BucketLocks`](crate::Mode::BucketLocks) counts readers, and which its checks do not have). Another word has a byte
//!    of the check by chance only, and all bytes with the probability of rule 1. At the time of that
//!    full word, no other bucket had the key, by rule 3. A put-if-absent that finds the key, and a put
//!    that passes the entry of another key, are right for the same reason.
//! 3. *A key has at most one bucket.* An empty bucket becomes claimed once and never empty again, so
//!    two puts that find the first candidate empty choose the same word, and one compare-and-swap
//!    fails. A put that chooses any other bucket compares the control words of all candidates *after*
//!    its claim, and gives up if one has changed in a way that may be the same key: of two clients that
//!    claim and then compare, at least one sees the other. A claim shows bits of its key's hash, so a
//!    put does not pass another client's claim of its key. If words may tear, claims that anything but a
//!    get passes and words that a put compares come from a fetch-and-add of 0. Nothing else rests on more
//!    of a torn word than its highest byte, which tells the state and never tears: each compare-and-swap
//!    expects the word that was seen, and fails if a tear has made it up. What it replaces was therefore
//!    in the bucket, whether it updates, evicts, removes, cleans, or takes over a claim.
//! 4. *A put passes a full bucket only if its check matches another key.* If three READs in a row show
//!    the same control word and no match, then no client claimed the bucket while the second READ
//!    read its body. A late WRITE has destroyed that body, and the put marks the bucket as dropped.
//!    A get may pass any bucket that does not show the bytes of its key: an entry of the key that
//!    was complete before the get began would show them.
//! 5. *A miss is always right*, because the map is lossy. A get misses a key that is present only while
//!    another client writes to one of its candidates. A remove or a replacement that finds no key says
//!    more: that the key was absent at some time while it ran. The claim of a client that only replaces
//!    the key's value does not show that the key is absent, so both wait for a claim of their key, as a
//!    put does, and do not pass one that a tear shows as another key's (rule 3).
//! 6. *An update is atomic.* It reads a value, and claims the bucket by a compare-and-swap of the
//!    control word that matched that value. If it succeeds, no other client has claimed the bucket
//!    since, or one has published an entry with the same age and check: the same value. An update that
//!    ends as dropped has stored nothing, so it can be repeated.
//! 7. *An operation in error has an unknown outcome.* Its claim stays until other clients take it
//!    over, some ticks later; its ticket is not used again, so a late compare-and-swap fails. Its late
//!    WRITE may destroy an entry of the bucket, which rule 1 turns into a miss.
//! 8. *Ages may be wrong.* They only choose what is evicted and when a claim is taken over, and they
//!    wrap. A client follows another one's clock only by words that were written while its own
//!    operation ran, because any other entry or claim may be old enough to look new.
//!
//! Taking over the claim of a client that is only slow can cost entries, and never makes a value
//! wrong; [`Stats`](crate::Stats) counts it.
