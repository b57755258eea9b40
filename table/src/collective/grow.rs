//! Growth of any kind of table: every owner moves the keys of its part into a larger table.
//!
//! Nothing is stored in the buckets and entries that the keys come from. Until the call has
//! returned on all owners, they hold every key, whoever dies.

use probeline_transport::{Exchange, Owner, Transport};

use super::{Phase, TRIES};
use crate::error::{BatchError, CollectiveError, GrowError, OperationError};
use crate::outcome::Outcome;

/// Keys of one batch call: enough to keep the target's operations in flight, on the stack.
const BATCH: usize = 128;

/// The result of one key of a batch.
pub(crate) type KeyResult = Result<Outcome, OperationError>;

/// A table whose keys can be moved, or into which keys can be moved.
pub(crate) trait Grows {
    type Transport: Transport;
    type Key: Copy;
    /// Any key: the initial value of storage.
    const ANY: Self::Key;

    fn phase(&mut self) -> Phase<'_, Self::Transport>;

    fn quiesce(&mut self) -> Result<(), OperationError>;

    /// Returns the number of keys in this owner's part.
    fn keys_in(phase: &Phase<'_, Self::Transport>) -> Result<u64, OperationError> {
        phase.occupied()
    }

    /// Reads keys of this owner's buckets from index `next` on, after a barrier, and advances
    /// `next` past them. Returns their number, which is less than that of `keys` only at the end.
    fn read_part(
        &mut self,
        next: &mut u64,
        keys: &mut [Self::Key],
    ) -> Result<usize, OperationError>;

    /// Stores the result of find-or-put of each key at the same index of `results`.
    fn put(&mut self, keys: &[Self::Key], results: &mut [KeyResult]) -> Result<(), BatchError>;
}

/// What an owner moved.
struct Moved {
    /// Keys of its part.
    keys: u64,
    /// Those that were not moved, because the target is full.
    left: u64,
}

/// Moves all keys of `table` into `target`, and returns their number.
pub(crate) fn grow<A: Grows, B: Grows<Key = A::Key>>(
    table: &mut A,
    target: &mut B,
    exchange: &mut (impl Exchange + ?Sized),
) -> Result<u64, GrowError> {
    let (quiet, target_quiet) = (table.quiesce(), target.quiesce());
    exchange.barrier().map_err(CollectiveError::from)?;
    let quiet = quiet.and(target_quiet).map_err(GrowError::from);
    let moved =
        quiet.and_then(|()| same_job(table, target)).and_then(|()| move_part(table, target));
    // READs that the last batch did not wait for may be in flight.
    let settled = target.quiesce();
    let mine = moved.and_then(|moved| Ok(settled.map(|()| moved)?));
    let totals = totals(table, target, &mine, exchange);
    mine?;
    let Totals { keys, left, held } = totals?;
    if left > 0 {
        return Err(GrowError::Full { left });
    }
    if held != keys {
        return Err(GrowError::Differs { keys, held });
    }
    Ok(keys)
}

fn same_job(table: &mut impl Grows, target: &mut impl Grows) -> Result<(), GrowError> {
    let (mine, theirs) = (rank(&table.phase()), rank(&target.phase()));
    if mine == theirs {
        return Ok(());
    }
    let ([me, owners], [target_me, target_owners]) = (mine, theirs);
    Err(GrowError::Job { me: Owner(me), owners, target_me: Owner(target_me), target_owners })
}

fn rank(phase: &Phase<'_, impl Transport>) -> [u32; 2] {
    [phase.me(), phase.layout.owners()]
}

/// Moves the keys of this owner's part, up to the first batch for which the target is full.
///
/// Homes have the same order in tables of any size. Keys in the order of their buckets therefore
/// go to neighbouring buckets of the target, mostly in this owner's part.
fn move_part<A: Grows, B: Grows<Key = A::Key>>(
    table: &mut A,
    target: &mut B,
) -> Result<Moved, GrowError> {
    let of_part = A::keys_in(&table.phase())?;
    let (mut next, mut moved) = (0, 0);
    let mut keys = [A::ANY; BATCH];
    // Each batch but the last has BATCH of the part's keys.
    loop {
        let count = read(table, &mut next, &mut keys)?;
        let batch = keys.get_mut(..count).unwrap_or_default();
        if !put_all(target, batch)? {
            return Ok(Moved { keys: of_part, left: of_part - moved });
        }
        moved += count as u64;
        if count < BATCH {
            break;
        }
    }
    if moved != of_part {
        return Err(GrowError::Differs { keys: of_part, held: moved });
    }
    Ok(Moved { keys: moved, left: 0 })
}

/// Reads keys of this owner's part, with up to [`TRIES`] attempts.
fn read<A: Grows>(
    table: &mut A,
    next: &mut u64,
    keys: &mut [A::Key],
) -> Result<usize, OperationError> {
    let first = *next;
    let mut read = table.read_part(next, keys);
    for _ in 1..TRIES {
        if !matches!(read, Err(OperationError::Failed(_))) {
            break;
        }
        *next = first;
        read = table.read_part(next, keys);
    }
    read
}

/// Puts the keys into the target, with up to [`TRIES`] attempts for each. Returns false if the
/// target is full for one of them. Overwrites keys.
fn put_all<B: Grows>(target: &mut B, mut keys: &mut [B::Key]) -> Result<bool, OperationError> {
    let mut failure = Ok(true);
    for _ in 0..TRIES {
        let mut results = [Ok(Outcome::Absent); BATCH];
        let results = results.get_mut(..keys.len()).unwrap_or_default();
        target.put(keys, results).map_err(stopped)?;
        failure = Ok(true);
        let mut failed = 0;
        for (at, result) in results.iter().enumerate() {
            match *result {
                Ok(Outcome::Found | Outcome::Inserted) => {}
                Ok(Outcome::Full | Outcome::Absent) => return Ok(false),
                Err(error @ OperationError::Failed(_)) => {
                    failure = Err(error);
                    let key = keys.get(at).copied();
                    if let Some((place, key)) = keys.get_mut(failed).zip(key) {
                        *place = key;
                    }
                    failed += 1;
                }
                Err(error) => return Err(error),
            }
        }
        keys = keys.get_mut(..failed).unwrap_or_default();
        if failed == 0 {
            break;
        }
    }
    failure
}

/// Returns the error of a batch that stopped early.
fn stopped(error: BatchError) -> OperationError {
    match error {
        BatchError::Operation(error) | BatchError::Failed { error, .. } => error,
        BatchError::Lengths { .. } => {
            debug_assert!(false, "a batch has a result for each key");
            OperationError::Window
        }
    }
}

/// What all owners moved together.
struct Totals {
    keys: u64,
    left: u64,
    /// Keys in the target.
    held: u64,
}

/// Adds up what all owners moved. An owner with an error makes all barriers too, and publishes its
/// failure at each.
fn totals<B: Grows>(
    table: &mut impl Grows,
    target: &mut B,
    mine: &Result<Moved, GrowError>,
    exchange: &mut (impl Exchange + ?Sized),
) -> Result<Totals, CollectiveError> {
    let failed = CollectiveError::PartFailed { owner: exchange.me() };
    let publish = |field: fn(&Moved) -> u64| mine.as_ref().map(field).map_err(|_| failed);
    let left = publish(|moved| moved.left);
    let left = in_step(table.phase().sum_trying(TRIES, left, exchange))?;
    let keys = left.and_then(|_| publish(|moved| moved.keys));
    let keys = in_step(table.phase().sum_trying(TRIES, keys, exchange))?;
    let mut target = target.phase();
    let held = keys.and_then(|_| Ok(B::keys_in(&target)?));
    let held = target.sum_trying(TRIES, held, exchange);
    Ok(Totals { left: left?, keys: keys?, held: held? })
}

/// Returns the error of an exchange: without the exchange there is no step to keep.
fn in_step(
    sum: Result<u64, CollectiveError>,
) -> Result<Result<u64, CollectiveError>, CollectiveError> {
    match sum {
        Err(CollectiveError::Exchange(_)) => sum.map(Ok),
        _ => Ok(sum),
    }
}
