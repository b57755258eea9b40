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

#[test]
fn keeps_locked_additions() {
    holds(COUNTER);
    holds(Litmus { failures: 1, ..COUNTER });
    holds(Litmus { tears: HALVES_OF_WORDS, ..COUNTER });
}

#[test]
fn keeps_neighbouring_edits() {
    holds(NEIGHBOURS);
    holds(BETWEEN);
    holds(HALF_WORDS);
    holds(Litmus { tears: HALVES_OF_WORDS, ..HALF_WORDS });
}

#[test]
fn locks_pass_on_earlier_notices() {
    holds(CHAIN);
}

#[test]
fn holds_with_short_memories() {
    holds(EVICTION);
    holds(OVERFLOW);
}

#[test]
fn detects_skipped_notice() {
    finds(Mutant::SkipsNotices, COUNTER);
}

#[test]
fn detects_unread_notices() {
    finds(Mutant::IgnoresStamps, COUNTER);
}

#[test]
fn detects_own_notices_only() {
    finds(Mutant::TellsOwnOnly, CHAIN);
}

#[test]
fn detects_lock_passed_before_list() {
    finds(Mutant::PassesOnEarly, COUNTER);
}

#[test]
fn detects_notices_before_changes() {
    finds(Mutant::DoesNotWait, COUNTER);
}

#[test]
fn detects_pages_sent_whole() {
    finds(Mutant::SendsPages, NEIGHBOURS);
}

#[test]
fn detects_words_written_between_edits() {
    finds(Mutant::ClaimsGaps, BETWEEN);
}

#[test]
fn detects_partly_changed_words_written() {
    finds(Mutant::WritesParts, HALF_WORDS);
}

#[test]
fn detects_forgotten_first_parts() {
    finds(Mutant::RenewsTwin, NESTED);
    finds(Mutant::RenewsTwin, NESTED.with_reach(2));
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

#[test]
fn detects_defects_with_direct_access() {
    finds(Mutant::HidesStores, COUNTER.with_reach(2));
    finds(Mutant::SkipsNotices, COUNTER.with_reach(2));
    finds(Mutant::SendsPages, NEIGHBOURS.with_reach(2));
    finds(Mutant::ClaimsGaps, BETWEEN.with_reach(2));
    finds(Mutant::WritesParts, HALF_WORDS.with_reach(2));
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
    // A part of all orders, which are too many.
    let checked = check_bounded(TWO_WRITERS.with_directory(), 100_000);
    assert!(matches!(checked, Ok(_) | Err(Stopped::Bound)), "{checked:?}");
    holds(Litmus { failures: 1, ..COUNTER.with_directory() });
    holds(Litmus { is_ordered: true, ..COUNTER.with_directory() });
    holds(Litmus { tears: HALVES_OF_WORDS, ..COUNTER.with_directory() });
}

#[test]
fn detects_directory_defects() {
    finds(Mutant::TellsNobody, COUNTER.with_directory());
    finds(Mutant::TellsNobody, TWO_WRITERS.with_directory());
    finds(Mutant::FirstTells, TWO_WRITERS.with_directory());
    finds(Mutant::CountsEarly, TOLD_EARLY.with_directory());
    finds(Mutant::IgnoresWriters, REPEATED.with_directory());
    finds(Mutant::TrustsPrefetched, PREFETCH.with_directory());
    finds(Mutant::DoesNotWait, REPEATED.with_directory());
}

/// Changes are found by comparing pages with their twins.
#[test]
fn compares_pages_with_twins() {
    for litmus in [NEIGHBOURS, BETWEEN, HALF_WORDS, EVICTION, EARLY_FLUSH] {
        holds(litmus.with_compares());
        holds(litmus.with_compares().with_reach(1));
    }
    finds(Mutant::ComparesWords, HALF_WORDS.with_compares());
    finds(Mutant::ComparesWords, HALF_WORDS.with_compares().with_reach(2));
}

#[test]
fn nested_locks_publish_edits() {
    holds(NESTED);
    holds(Litmus { is_ordered: true, ..NESTED });
    holds(EARLY_FLUSH);
    holds(EARLY_FLUSH.with_notices(1));
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
    finds(Mutant::IgnoresStamps, COUNTER.with_reach(2));
    finds(Mutant::IgnoresStamps, NO_NEWS_BETWEEN.with_reach(2));
}

#[test]
fn prefetched_pages_become_stale() {
    holds(PREFETCH);
    holds(PREFETCH.with_notices(1));
    holds(PREFETCH.with_mirror(1));
    holds(PREFETCH_BESIDE_EDIT);
}

#[test]
fn third_ranks_see_earlier_holders() {
    holds(THREE.with_notices(1));
    holds(CHAIN_OVERFLOW);
}

#[test]
fn tickets_wrap() {
    for ticket in [u16::MAX - 1, u16::MAX] {
        holds(Litmus { ticket, ..COUNTER });
    }
}

#[test]
fn holds_over_ordered_writes() {
    holds(Litmus { is_ordered: true, ..COUNTER });
    holds(Litmus { is_ordered: true, ..OVERFLOW });
}

/// An atomic takes effect after a WRITE of the list that fails: the contract promises no order then.
#[test]
fn holds_with_failed_ordered_writes() {
    holds(Litmus { is_ordered: true, failures: 1, ..COUNTER });
}
