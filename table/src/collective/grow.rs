//! Growth of any kind of table: every owner moves the keys of its part into a larger table.
//!
//! The call stores nothing in the buckets and entries that the keys come from. They hold every key
//! until it has returned on all owners, even if owners die.

use probeline_pipeline::{Collective, CollectiveError, Kind, OperationOf};
use probeline_transport::{Exchange, Owner, Transport};

use super::{Phase, TRIES};
use crate::outcome::Outcome;
use crate::set::{Keys, Set};
use crate::{BatchError, OperationError};

/// Keys of one batch call: enough to keep the target's operations in flight, on the stack.
const BATCH: usize = 128;
/// Batches of a piece, after which owners agree on whether to go on.
const PIECE: usize = 512;
/// The keys left of an owner that ends early: more than any table has.
const EARLY: u64 = 1 << 62;

/// The result of one key of a batch.
type KeyResult = Result<Outcome, OperationError>;

/// A table whose keys are moved, or into which keys are moved.
pub(crate) trait Grows {
    type Transport: Transport;
    type Kind: Keys;

    fn phase(&mut self) -> Phase<'_, Self::Transport>;

    fn quiesce(&mut self) -> Result<(), OperationError>;

    /// As [`Keys::read_part`], between barriers.
    fn read_part(
        &mut self,
        next: &mut u64,
        keys: &mut [KeyOf<Self>],
    ) -> Result<usize, OperationError>;

    /// Stores the result of find-or-put of each key at the same index of `results`.
    fn put(&mut self, keys: &[KeyOf<Self>], results: &mut [KeyResult]) -> Result<(), BatchError>;
}

type KeyOf<A> = <<A as Grows>::Kind as Kind>::Key;

impl<T: Transport, S: AsMut<[OperationOf<K>]>, K: Keys> Grows for Set<T, S, K> {
    type Transport = T;
    type Kind = K;

    fn phase(&mut self) -> Phase<'_, T> {
        Self::phase(self)
    }

    fn quiesce(&mut self) -> Result<(), OperationError> {
        self.pipeline().quiesce()
    }

    fn read_part(&mut self, next: &mut u64, keys: &mut [K::Key]) -> Result<usize, OperationError> {
        Self::read_part(self, next, keys, true)
    }

    fn put(&mut self, keys: &[K::Key], results: &mut [KeyResult]) -> Result<(), BatchError> {
        self.find_or_put_batch(keys, results)
    }
}

/// The progress of an owner that moves the keys of its part.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Keys of the part.
    of_part: u64,
    /// The bucket to read next.
    next: u64,
    read: u64,
    /// Keys in the target.
    moved: u64,
    /// Whether the target is full.
    is_full: bool,
    has_ended: bool,
}

impl Progress {
    /// Returns the number of keys that were not moved; not 0 before the end.
    fn left(&self) -> u64 {
        if self.has_ended { 0 } else { self.of_part.saturating_sub(self.read).max(1) }
    }
}

/// Moves the keys of `table` that `keep` accepts into `target`, and returns their number. Ends early
/// if `go_on` returns false on an owner.
pub(crate) fn grow<A: Grows, B: Grows<Kind: Kind<Key = KeyOf<A>>>, E: Exchange + ?Sized>(
    table: &mut A,
    target: &mut B,
    mut call: Collective<'_, E>,
    mut keep: impl FnMut(&KeyOf<A>) -> bool,
    mut go_on: impl FnMut() -> bool,
) -> Result<u64, CollectiveError> {
    let quiet = table.quiesce().and(target.quiesce()).map_err(CollectiveError::from);
    call.together(quiet)?;
    let mut mine = start(table, target);
    // Each iteration moves a piece of every part, until all have ended.
    let moved = loop {
        mine = mine.and_then(|part| move_piece(table, target, part, &mut keep));
        let stops = !go_on();
        let left = mine.map(|part| if stops || part.is_full { EARLY } else { part.left() });
        let left = call.sum(left)?;
        let part = mine?;
        match left {
            0 => break part.moved,
            EARLY.. => return Err(end_early(part, stops, &mut call)?),
            _ => {}
        }
    };
    let keys = call.sum::<CollectiveError>(Ok(moved))?;
    let held = call.sum(B::Kind::keys_in(&target.phase()).map_err(CollectiveError::from))?;
    if held != keys {
        return Err(CollectiveError::NotMoved { keys, held });
    }
    Ok(keys)
}

/// Agrees with all owners on why they end early.
fn end_early(
    part: Progress,
    stops: bool,
    call: &mut Collective<'_, impl Exchange + ?Sized>,
) -> Result<CollectiveError, CollectiveError> {
    let stops = call.sum::<CollectiveError>(Ok(stops.into()))?;
    let left = call.sum::<CollectiveError>(Ok(if part.is_full { part.left() } else { 0 }))?;
    Ok(if stops > 0 { CollectiveError::Stopped } else { CollectiveError::Full { left } })
}

fn start<A: Grows, B: Grows>(table: &mut A, target: &mut B) -> Result<Progress, CollectiveError> {
    same_job(table, target)?;
    Ok(Progress { of_part: A::Kind::keys_in(&table.phase())?, ..Progress::default() })
}

fn same_job(table: &mut impl Grows, target: &mut impl Grows) -> Result<(), CollectiveError> {
    let (mine, theirs) = (rank(&table.phase()), rank(&target.phase()));
    if mine == theirs {
        return Ok(());
    }
    let ([me, owners], [target_me, target_owners]) = (mine, theirs);
    Err(CollectiveError::Job { me: Owner(me), owners, target_me: Owner(target_me), target_owners })
}

fn rank(phase: &Phase<'_, impl Transport>) -> [u32; 2] {
    [phase.me(), phase.layout.owners()]
}

/// Moves the next keys of this owner's part, up to the first batch for which the target is full.
///
/// Homes have the same order in tables of any size. Keys in the order of their buckets therefore
/// go to neighbouring buckets of the target, mostly in this owner's part.
fn move_piece<A: Grows, B: Grows<Kind: Kind<Key = KeyOf<A>>>>(
    table: &mut A,
    target: &mut B,
    mut progress: Progress,
    keep: &mut impl FnMut(&KeyOf<A>) -> bool,
) -> Result<Progress, CollectiveError> {
    let mut keys = [A::Kind::ANY; BATCH];
    for _ in 0..PIECE {
        if progress.has_ended {
            break;
        }
        let count = read(table, &mut progress.next, &mut keys)?;
        let kept = keep_first(keys.get_mut(..count).unwrap_or_default(), keep);
        progress.is_full = !put_all(target, kept)?;
        if progress.is_full {
            break;
        }
        progress.read += count as u64;
        progress.moved += kept.len() as u64;
        // Each batch but the last has BATCH of the part's keys.
        progress.has_ended = count < BATCH;
    }
    // READs that the last batch did not wait for may be in flight.
    target.quiesce()?;
    let Progress { of_part: keys, read: held, has_ended, .. } = progress;
    if has_ended && held != keys {
        return Err(CollectiveError::NotMoved { keys, held });
    }
    Ok(progress)
}

/// Moves the keys that `keep` accepts to the front, and returns them.
fn keep_first<'k, K: Copy>(keys: &'k mut [K], keep: &mut impl FnMut(&K) -> bool) -> &'k mut [K] {
    let mut kept = 0;
    for at in 0..keys.len() {
        let Some(key) = keys.get(at).copied().filter(|key| keep(key)) else { continue };
        if let Some(place) = keys.get_mut(kept) {
            *place = key;
        }
        kept += 1;
    }
    keys.get_mut(..kept).unwrap_or_default()
}

/// Reads keys of this owner's part, with up to [`TRIES`] attempts.
fn read<A: Grows>(
    table: &mut A,
    next: &mut u64,
    keys: &mut [KeyOf<A>],
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
fn put_all<B: Grows>(target: &mut B, mut keys: &mut [KeyOf<B>]) -> Result<bool, OperationError> {
    let mut failure = Ok(true);
    for _ in 0..TRIES {
        let mut results = [Ok(Outcome::Full); BATCH];
        let results = results.get_mut(..keys.len()).unwrap_or_default();
        target.put(keys, results).map_err(stopped)?;
        failure = Ok(true);
        let mut failed = 0;
        for (at, result) in results.iter().enumerate() {
            match *result {
                Ok(Outcome::Found | Outcome::Inserted) => {}
                Ok(Outcome::Full) => return Ok(false),
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
