//! Edits of whole words beside edits of their parts.

use super::*;

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

const ALL: [Litmus; 5] = [PART_THEN_WHOLE, RUN, TAKES_OVER, EVICTED_WORDS, OVERWRITES];

#[test]
fn whole_words_and_parts() {
    // With a directory RUN takes minutes.
    holds(PART_THEN_WHOLE.with_directory().with_reach(1));
    holds(OVERWRITES.with_directory().with_reach(1));
    for (nth, litmus) in ALL.into_iter().enumerate() {
        for reaches in 0..3 {
            println!("{nth} {reaches}");
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

#[test]
fn detects_kept_overwritten_words() {
    finds(Mutant::KeepsOverwritten, OVERWRITES);
    finds(Mutant::KeepsOverwritten, OVERWRITES.with_reach(2));
}
