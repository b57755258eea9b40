//! Litmus tests of regions, and the defects that they find.

use super::*;

/// A counter under a lock: each sees the other's additions.
const COUNTER: Litmus = Litmus::new(&[
    &[Acquire(0), Add(SECOND), Release(0)],
    &[Acquire(0), Add(SECOND), Release(0), Acquire(0), Add(SECOND), Release(0)],
]);

/// Different words of one page, each under a lock of its own; the notice comes while the page is edited.
const NEIGHBOURS: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0)],
    &[Acquire(1), Add(2), Acquire(0), View(0), Release(0), Add(2), Release(1)],
]);

/// A word between two that the other rank edits, which are sent together.
const BETWEEN: Litmus = Litmus::new(&[
    &[Acquire(0), Add(2), Release(0)],
    &[Acquire(1), Add(0), Add(5), Release(1), Acquire(0), View(2), Release(0)],
]);

/// Both halves of a word, each under a lock of its own.
const HALF_WORDS: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0), Acquire(1), View(1), Release(1)],
    &[Acquire(1), Add(1), Release(1), Acquire(0), View(0), Release(0)],
]);

/// The second rank tells the third one of what the first one has told it. The third one has a copy.
const CHAIN: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0)],
    &[Acquire(0), View(0), Release(0), Acquire(1), Add(SECOND), Release(1)],
    &[Acquire(0), View(0), Release(0), Acquire(1), View(SECOND), View(0), Release(1)],
]);

/// Two pages in one place of the mirror: an edited one is sent before the other comes.
const EVICTION: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Add(SECOND), Add(0), Release(0)],
    &[Acquire(0), View(SECOND), Add(0), Release(0)],
])
.with_mirror(1);

/// The list of a lock has one notice, and both ranks write more.
const OVERFLOW: Litmus = Litmus::new(&[
    &[Acquire(0), Add(SECOND), Add(0), Release(0), Acquire(0), View(SECOND), Release(0)],
    &[View(SECOND + 1), Acquire(0), View(0), View(SECOND), Add(SECOND), Release(0)],
])
.with_notices(1);

/// Two locks at a time; what is edited after the release of the inner one is told with the outer one.
const NESTED: Litmus = Litmus::new(&[
    &[Acquire(0), Acquire(1), Add(0), Add(1), Release(1), Add(0), Release(0)],
    &[Acquire(1), View(1), Acquire(0), View(0), View(1), Add(0), Release(0), Release(1)],
]);

/// One edited page at a time: the edit of the second page sends the first one, whose lock is released last.
const EARLY_FLUSH: Litmus = Litmus::new(&[
    &[Acquire(0), Acquire(1), Add(0), Add(SECOND), Release(1), Release(0)],
    &[
        View(2),
        View(SECOND + 2),
        Acquire(1),
        View(SECOND),
        Release(1),
        Acquire(0),
        View(0),
        Release(0),
    ],
])
.with_edited_pages(1);

/// The page that a rank has prefetched is changed before the rank gets the lock.
const PREFETCH: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0)],
    &[Ahead(0, 0), Add(0), Release(0), Ahead(0, 0), Release(0)],
]);

/// A prefetched page beside an edited one that becomes stale.
const PREFETCH_BESIDE_EDIT: Litmus = Litmus::new(&[
    &[Acquire(0), Add(SECOND), Add(0), Release(0)],
    &[
        Acquire(1),
        Add(SECOND + 2),
        Ahead(0, 0),
        View(SECOND),
        Release(0),
        Add(SECOND + 2),
        Release(1),
    ],
]);

/// The lock was passed on twice before the third rank acquires it, whose list has room for fewer notices.
const THREE: Litmus = Litmus::new(&[
    &[Acquire(0), Add(SECOND), Add(0), Release(0)],
    &[Acquire(0), Add(0), Release(0)],
    &[View(2), View(SECOND + 2), Acquire(0), View(SECOND), View(0), Release(0)],
]);

/// The notices of a lock reach the third rank by another lock, whose list and log are too short.
const CHAIN_OVERFLOW: Litmus = Litmus::new(&[
    &[Acquire(0), Add(SECOND), Add(0), Release(0)],
    &[Acquire(0), View(0), Release(0), Acquire(1), Add(SECOND + 1), Release(1)],
    &[
        View(2),
        Acquire(1),
        View(SECOND + 1),
        Acquire(0),
        View(SECOND),
        View(0),
        Release(0),
        Release(1),
    ],
])
.with_notices(2);

/// The first rank tells the first lock again what it knows by the second one: the notice of the first page is lost there
/// before the third rank, which has a copy, reads it.
const LOST: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0), Acquire(1), Release(1), Acquire(0), Release(0)],
    &[Acquire(1), Add(SECOND), Release(1), Acquire(0), Release(0)],
    &[View(12), Acquire(0), View(0), Release(0)],
])
.with_notices(2);

/// Both pages and a word of each rank, and edits of the same pages behind the barrier.
const BY_BARRIER: Litmus = Litmus::new(&[
    &[Add(SECOND), Add(0), Barrier, View(2), Add(SECOND + 4), Barrier],
    &[View(SECOND + 12), Add(2), Barrier, View(0), View(SECOND), Barrier],
]);

/// Message passing of two pages, of which the other rank has copies.
const MESSAGE: Litmus = Litmus::new(&[
    &[Add(0), Add(SECOND), Barrier],
    &[View(12), View(SECOND + 12), Barrier, View(0), View(SECOND)],
]);

/// A word that each rank edits before another barrier.
const TWO_BARRIERS: Litmus = Litmus::new(&[
    &[Add(0), Barrier, Add(1), Add(2), Barrier, View(0), View(1)],
    &[Barrier, Add(0), Barrier, View(2), View(1)],
]);

/// A lock whose list both ranks know, before the barrier and behind it.
const LISTS: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0), Barrier, Acquire(0), Add(0), Release(0)],
    &[View(12), Acquire(0), Add(0), Release(0), Barrier, View(12), Acquire(0), View(0), Release(0)],
]);

/// A rank waits for a lock while all pass the barrier, or holds it.
const TRIED: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Barrier, Add(0), Release(0)],
    &[View(12), Try(0), Barrier, View(12), Acquire(0), View(0), Add(1), Release(0)],
]);

/// The READ of a page is in flight while all pass the barrier.
const ACROSS: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0), Add(SECOND), Barrier],
    &[Add(2), AheadOfAll(0), View(SECOND)],
]);

/// Three ranks, one of which has copies.
const THREE_AT_BARRIER: Litmus =
    Litmus::new(&[&[Add(0), Barrier], &[Add(3), Barrier], &[View(12), Barrier, View(0), View(3)]]);

/// The third rank knows by a lock of a page that all are told of by the barrier.
const LOCK_AND_BARRIER: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0), Barrier],
    &[Acquire(0), Add(0), Release(0), Barrier, Acquire(0), Add(0), Release(0)],
    &[View(12), Barrier, View(12), Acquire(0), View(0), Release(0)],
]);

/// Elements are overwritten on both sides of the barrier.
const OVERWRITES_BEHIND: Litmus = Litmus::new(&[
    &[Over(0), Add(4), Barrier, View(6), Over(2), Barrier],
    &[Add(6), Barrier, View(0), Over(0), View(4), Barrier],
]);

#[test]
fn holds_across_barriers() {
    for litmus in [MESSAGE, TWO_BARRIERS, LISTS, TRIED, ACROSS, OVERWRITES_BEHIND] {
        for reaches in 0..2 {
            holds(litmus.with_reach(reaches));
            holds(litmus.with_runs(1).with_reach(reaches));
        }
        // The CPUs do all, in few orders.
        holds_in_part(litmus.with_reach(2));
        for litmus in [litmus, litmus.with_directory()] {
            holds(litmus.with_mirror(1));
            holds(litmus.with_edited_pages(1));
            holds(litmus.with_compares());
            holds(litmus.with_reach(1));
            holds(Litmus { failures: 1, ..litmus });
        }
    }
    for litmus in [MESSAGE, LISTS, TRIED, ACROSS] {
        holds(litmus.in_windows());
        holds_in_part(litmus.in_windows().with_reach(2));
        holds(litmus.in_windows().with_runs(1));
    }
    holds(THREE_AT_BARRIER);
    for litmus in [BY_BARRIER, LOCK_AND_BARRIER] {
        holds_in_part(litmus);
        holds_in_part(litmus.with_runs(1));
        holds_in_part(litmus.with_directory());
        holds_in_part(litmus.in_windows());
    }
}

#[test]
fn holds_in_every_order() {
    for litmus in
        [COUNTER, NEIGHBOURS, BETWEEN, HALF_WORDS, CHAIN, EVICTION, OVERFLOW, NESTED, EARLY_FLUSH]
    {
        holds(litmus);
    }
    for litmus in [COUNTER, HALF_WORDS] {
        holds(Litmus { tears: HALVES_OF_WORDS, ..litmus });
    }
    holds(Litmus { failures: 1, ..COUNTER });
    holds(EARLY_FLUSH.with_notices(1));
    holds(THREE.with_notices(1));
    holds(CHAIN_OVERFLOW);
    holds_in_part(LOST);
    for ticket in [u16::MAX - 1, u16::MAX] {
        holds(Litmus { ticket, ..COUNTER });
    }
}

#[test]
fn holds_over_ordered_writes() {
    for litmus in [COUNTER, OVERFLOW, NESTED] {
        holds(Litmus { is_ordered: true, ..litmus });
    }
    // An atomic takes effect after a WRITE of the list that fails: the contract promises no order then.
    holds(Litmus { is_ordered: true, failures: 1, ..COUNTER });
}

#[test]
fn detects_defects() {
    for (mutant, litmus) in [
        (Mutant::SkipsNotices, COUNTER),
        (Mutant::IgnoresStamps, COUNTER),
        (Mutant::TellsOwnOnly, CHAIN),
        (Mutant::PassesOnEarly, COUNTER),
        (Mutant::TellsEarly, COUNTER),
        (Mutant::SendsPages, NEIGHBOURS),
        (Mutant::ClaimsGaps, BETWEEN),
        (Mutant::WritesParts, HALF_WORDS),
        (Mutant::RenewsTwin, NESTED),
        (Mutant::RenewsTwin, NESTED.with_reach(2)),
        (Mutant::HidesStores, COUNTER.with_reach(2)),
        (Mutant::SkipsNotices, COUNTER.with_reach(2)),
        (Mutant::SendsPages, NEIGHBOURS.with_reach(2)),
        (Mutant::ClaimsGaps, BETWEEN.with_reach(2)),
        (Mutant::WritesParts, HALF_WORDS.with_reach(2)),
        (Mutant::IgnoresStamps, COUNTER.with_reach(2)),
        (Mutant::IgnoresStamps, NO_NEWS_BETWEEN.with_reach(2)),
        (Mutant::ComparesWords, HALF_WORDS.with_compares()),
        (Mutant::ComparesWords, HALF_WORDS.with_compares().with_reach(2)),
        (Mutant::KeepsOverwritten, OVERWRITES),
        (Mutant::KeepsOverwritten, OVERWRITES.with_reach(2)),
        (Mutant::TellsNobody, COUNTER.with_directory()),
        (Mutant::TellsNobody, TWO_WRITERS.with_directory()),
        (Mutant::FirstTells, TWO_WRITERS.with_directory()),
        (Mutant::CountsEarly, TOLD_EARLY.with_directory()),
        (Mutant::IgnoresWriters, REPEATED.with_directory()),
        (Mutant::TrustsPrefetched, PREFETCH.with_directory()),
        (Mutant::TellsEarly, REPEATED.with_directory()),
        (Mutant::HidesStores, AT_HOME),
        (Mutant::HidesStores, AT_HOME.with_reach(2)),
        (Mutant::TellsNobody, AT_HOME.with_directory()),
        (Mutant::TellsEarly, AT_HOME),
        (Mutant::KeepsCopies, LOST),
        (Mutant::SendsPages, NEIGHBOURS.in_windows()),
        (Mutant::DropsLastWait, OVERFLOW.with_notices(2)),
        (Mutant::TellsEarly, MESSAGE),
        (Mutant::SendsNoPages, MESSAGE),
        (Mutant::SendsNoPages, MESSAGE.with_runs(1)),
        (Mutant::SendsNoPages, TWO_BARRIERS.with_runs(1)),
        (Mutant::SendsNoPages, ACROSS),
        (Mutant::SendsNoPages, MESSAGE.in_windows().with_reach(2)),
        (Mutant::KeepsLists, LISTS),
        (Mutant::DropsLastWait, TWO_BARRIERS),
        (Mutant::SkipsNotices, TRIED),
        (Mutant::SendsNoPages, OVERWRITES_BEHIND),
        (Mutant::SendsNoPages, BY_BARRIER),
        (Mutant::SendsNoPages, THREE_AT_BARRIER),
        (Mutant::SendsNoPages, LOCK_AND_BARRIER),
        (Mutant::KeepsLists, LOCK_AND_BARRIER),
        (Mutant::HidesStores, MESSAGE.with_reach(2)),
    ] {
        finds(mutant, litmus);
    }
}

/// Pages of one rank or of both are loaded and stored by the CPUs of both.
#[test]
fn holds_with_direct_access() {
    for reaches in [1, 2] {
        for litmus in [COUNTER, NEIGHBOURS, HALF_WORDS, EVICTION, NESTED, EARLY_FLUSH, PREFETCH] {
            holds(litmus.with_reach(reaches));
        }
    }
    holds(Litmus { failures: 1, ..COUNTER.with_reach(2) });
    holds(CHAIN.with_reach(3));
}

/// A copy from before the page was written, one from after it, and a third rank that has the page from the second one.
const REPEATED: Litmus = Litmus::new(&[
    &[Acquire(0), View(0), Release(0), Acquire(0), View(0), Release(0)],
    &[Acquire(0), Add(0), Release(0), Acquire(0), Add(0), Release(0)],
]);

/// Two first writers of a page at once, under locks of their own, the second of which tells the third rank.
const TWO_WRITERS: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0)],
    &[Acquire(1), Add(3), Release(1)],
    &[View(12), Acquire(1), View(3), Release(1)],
]);

/// The second rank is told of its page in the first section, and sees that in the second one.
const TOLD_EARLY: Litmus = Litmus::new(&[
    &[Acquire(1), Add(3), Release(1)],
    &[View(12), Acquire(0), Acquire(1), View(3), Release(1), Release(0)],
]);

/// Checks a part of all orders, which are too many.
fn holds_in_part(litmus: Litmus) {
    let checked = check(litmus, 100_000);
    assert!(matches!(checked, Ok(_) | Err(Stopped::Bound)), "{checked:?}");
}

#[test]
fn holds_with_directory() {
    for litmus in
        [COUNTER, HALF_WORDS, EVICTION, NESTED, EARLY_FLUSH, PREFETCH, REPEATED, TOLD_EARLY]
    {
        holds(litmus.with_directory());
    }
    for litmus in [NEIGHBOURS, REPEATED] {
        holds(litmus.with_directory().with_reach(1));
    }
    holds(COUNTER.with_directory().with_reach(2));
    holds_in_part(TWO_WRITERS.with_directory());
    holds(Litmus { failures: 1, ..COUNTER.with_directory() });
    holds(Litmus { is_ordered: true, ..COUNTER.with_directory() });
    holds(Litmus { tears: HALVES_OF_WORDS, ..COUNTER.with_directory() });
}

/// The home of a page changes it between two changes of a rank that has a copy.
const AT_HOME: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0)],
    &[Acquire(0), Add(0), Release(0), Acquire(0), Add(0), Release(0)],
])
.in_windows();

/// A home is edited and viewed in place, and its changes are told as others are.
#[test]
fn holds_in_windows() {
    for litmus in [
        COUNTER,
        NEIGHBOURS,
        BETWEEN,
        CHAIN,
        OVERFLOW,
        EARLY_FLUSH,
        PREFETCH,
        PREFETCH_BESIDE_EDIT,
        REPEATED,
        RELAYED,
    ] {
        holds(litmus.in_windows());
        holds(litmus.in_windows().with_reach(litmus.scripts.len() as u32));
    }
    holds(AT_HOME);
    for litmus in [AT_HOME, EARLY_FLUSH, PREFETCH, REPEATED] {
        holds(litmus.in_windows().with_directory());
        holds(Litmus { failures: 1, ..litmus.in_windows() });
    }
    holds(THREE.in_windows().with_notices(1));
}

/// Changes are found by comparing pages with their twins.
#[test]
fn compares_pages_with_twins() {
    for litmus in [NEIGHBOURS, BETWEEN, HALF_WORDS, EVICTION, EARLY_FLUSH] {
        holds(litmus.with_compares());
        holds(litmus.with_compares().with_reach(1));
    }
}

/// Locks released in both orders, each rank with edits between the releases.
const BETWEEN_RELEASES: Litmus = Litmus::new(&[
    &[Acquire(0), Acquire(1), Add(0), Release(0), Add(1), Release(1)],
    &[Acquire(0), View(0), Acquire(1), Add(1), Release(1), Add(0), Release(0)],
]);

/// A release of the second lock without new notices, after an interval whose notices the first one has.
const NO_NEWS_BETWEEN: Litmus = Litmus::new(&[
    &[Acquire(1), Release(1), Acquire(0), Add(0), Release(0), Acquire(1), Add(1), Release(1)],
    &[View(12), Acquire(1), View(1), Release(1), Acquire(0), View(0), Release(0)],
]);

/// Notices of the first rank reach the third one through the second, which changes nothing.
const RELAYED: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Release(0)],
    &[Acquire(1), Acquire(0), Release(0), Release(1), Acquire(1), Release(1)],
    &[View(12), Acquire(1), Release(1), Acquire(0), View(0), Release(0)],
]);

/// The CPUs take and pass on no lock, those of one owner, or all.
#[test]
fn releases_without_news_tell_all() {
    for reaches in 0..3 {
        holds(BETWEEN_RELEASES.with_reach(reaches));
        holds(BETWEEN_RELEASES.with_reach(reaches).with_notices(1));
        holds(NO_NEWS_BETWEEN.with_reach(reaches));
        holds(NO_NEWS_BETWEEN.with_reach(reaches).with_notices(1));
    }
    for reaches in [0, 1, 3] {
        holds(RELAYED.with_reach(reaches));
    }
    holds(NO_NEWS_BETWEEN.with_directory().with_reach(2));
}

#[test]
fn prefetched_pages_become_stale() {
    holds(PREFETCH);
    holds(PREFETCH.with_notices(1));
    holds(PREFETCH.with_mirror(1));
    holds(PREFETCH_BESIDE_EDIT);
}

/// A word is edited in part, then as a whole, and the reverse, in one interval.
const PART_THEN_WHOLE: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Acquire(1), Both(0), Release(0), Release(1)],
    &[Acquire(0), Acquire(1), Both(0), Add(1), Release(1), View(0), Release(0)],
]);

/// Half words of other ranks at both ends of a run of whole ones.
const RUN: Litmus = Litmus::new(&[
    &[Acquire(0), Five(2), Add(6), Release(0)],
    &[Acquire(1), Add(7), Add(1), Release(1), Acquire(0), View(6), Five(2), Release(0)],
]);

/// The half of a word changes elsewhere while the other is edited; then the whole is edited.
const TAKES_OVER: Litmus = Litmus::new(&[
    &[Acquire(0), Add(0), Acquire(1), Both(0), Release(1), Add(0), Release(0)],
    &[Acquire(1), Add(1), Release(1), Acquire(1), Add(1), View(1), Release(1)],
]);

/// Whole words of a page that leaves the mirror with edits.
const EVICTED_WORDS: Litmus = Litmus::new(&[
    &[Acquire(0), Both(0), Five(SECOND), Add(0), View(1), Release(0)],
    &[Acquire(0), Five(SECOND), Both(0), Add(SECOND), Release(0)],
]);

/// A word of a page that the rank lacks or has a stale copy of, and then another word of it.
const OVERWRITES: Litmus = Litmus::new(&[
    &[View(12), Acquire(1), Acquire(0), Over(0), View(3), Add(0), Release(0), Release(1)],
    &[Acquire(1), Add(3), Release(1), Acquire(0), Over(4), Add(4), View(0), Release(0)],
]);

const WORDS: [Litmus; 5] = [PART_THEN_WHOLE, RUN, TAKES_OVER, EVICTED_WORDS, OVERWRITES];

#[test]
fn whole_words_and_parts() {
    // With a directory RUN takes minutes.
    holds(PART_THEN_WHOLE.with_directory().with_reach(1));
    holds(OVERWRITES.with_directory().with_reach(1));
    for litmus in WORDS {
        for reaches in 0..3 {
            holds(litmus.with_reach(reaches));
        }
        holds(litmus.with_mirror(1));
        holds(litmus.with_mirror(1).with_reach(1));
        holds(litmus.with_edited_pages(1));
        holds(litmus.with_notices(1));
        holds(Litmus { failures: 1, ..litmus });
        holds(Litmus { failures: 1, ..litmus.with_reach(1) });
        holds(Litmus { is_ordered: true, ..litmus });
        holds(litmus.with_compares().with_mirror(1));
    }
}
