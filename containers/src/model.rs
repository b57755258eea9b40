//! Defects that the model checks of the containers must find.

use core::cell::Cell;

/// A defect of operations, which a model check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// An operation ignores the word that its compare-and-swap returned.
    IgnoresLostSwaps,
    /// It passes a bucket whose first word was another one.
    PassesLostSwaps,
    /// It treats the words of a READ as confirmed.
    TrustsTornWords,
    /// An insert passes a bucket that is being claimed.
    PassesTornClaims,
    /// A claim without a value counts as one of zeros.
    TrustsClaims,
    /// A check does not cover the words that it is for.
    ReadyBeforeData,
    /// A slot or a block is written before the last one of the same place was taken.
    Overrun,
    /// A push takes its ticket before it knows that the ring has room, and gives it back if it has none.
    UndoesTickets,
    /// A pop compares a tail and a head that were seen in any order.
    EmptyFromStaleWords,
    /// The number of a block is not compared.
    AnyNumber,
}

thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Returns whether operations of this thread have a defect.
pub(crate) fn has(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// Runs a check of operations that have a defect.
pub(crate) fn with<R>(mutant: Mutant, check: impl FnOnce() -> R) -> R {
    MUTANT.set(Some(mutant));
    let result = check();
    MUTANT.set(None);
    result
}
