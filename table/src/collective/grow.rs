//! Growth of any kind of table: every owner moves the keys of its part into a larger table.
//!
//! The call stores nothing in the buckets and entries that the keys come from. They hold every key
//! until it has returned on all owners, even if owners die.

use probeline_pipeline::{Collective, CollectiveError, Host, Kind};
use probeline_transport::{Exchange, Owner, Transport};

use super::TRIES;
use crate::outcome::Outcome;
use crate::set::{Keys, batch, read_part};
use crate::{BatchError, OperationError};

/// Keys of one batch call: enough to keep the target's operations in flight, on the stack.
const BATCH: usize = 128;
/// Batches of a piece, after which owners agree on whether to go on.
const PIECE: usize = 512;
/// The keys left of an owner that ends early: more than any table has.
const EARLY: u64 = 1 << 62;

type KeyOf<H> = <<H as Host>::Kind as Kind>::Key;

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
pub(crate) fn grow<
    A: Host<Kind: Keys>,
    B: Host<Kind: Keys<Key = KeyOf<A>>>,
    E: Exchange + ?Sized,
>(
    table: &mut A,
    target: &mut B,
    mut call: Collective<'_, E>,
    mut keep: impl FnMut(&KeyOf<A>) -> bool,
    mut go_on: impl FnMut() -> bool,
) -> Result<u64, CollectiveError> {
    let quiet = quiesce(table).and(quiesce(target)).map_err(CollectiveError::from);
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
    let held = call.sum(count(target).map_err(CollectiveError::from))?;
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

fn start(
    table: &mut impl Host<Kind: Keys>,
    target: &mut impl Host<Kind: Keys>,
) -> Result<Progress, CollectiveError> {
    let (mine, theirs) = (rank(table), rank(target));
    if mine != theirs {
        let ([me, owners], [target_me, target_owners]) = (mine, theirs);
        let (me, target_me) = (Owner(me), Owner(target_me));
        return Err(CollectiveError::Job { me, owners, target_me, target_owners });
    }
    Ok(Progress { of_part: count(table)?, ..Progress::default() })
}

fn rank(table: &mut impl Host) -> [u32; 2] {
    let geometry = table.structure().transport().geometry();
    [geometry.me.0, geometry.owners]
}

/// Returns the number of keys in this owner's part.
fn count<H: Host<Kind: Keys>>(table: &mut H) -> Result<u64, OperationError> {
    let structure = table.structure();
    let window = structure.transport().window();
    H::Kind::count(structure.config(), structure.context(), window)
}

fn quiesce(table: &mut impl Host<Kind: Keys>) -> Result<(), OperationError> {
    table.structure().pipeline().quiesce()
}

/// Moves the next keys of this owner's part, up to the first batch for which the target is full.
///
/// Homes have the same order in tables of any size. Keys in the order of their buckets therefore
/// go to neighbouring buckets of the target, mostly in this owner's part.
fn move_piece<A: Host<Kind: Keys>, B: Host<Kind: Keys<Key = KeyOf<A>>>>(
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
    quiesce(target)?;
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
fn read<A: Host<Kind: Keys>>(
    table: &mut A,
    next: &mut u64,
    keys: &mut [KeyOf<A>],
) -> Result<usize, OperationError> {
    let first = *next;
    let mut read = read_part(table, next, keys, true);
    for _ in 1..TRIES {
        if !matches!(read, Err(OperationError::Failed(_))) {
            break;
        }
        *next = first;
        read = read_part(table, next, keys, true);
    }
    read
}

/// Puts the keys into the target, with up to [`TRIES`] attempts for each. Returns false if the
/// target is full for one of them. Overwrites keys.
fn put_all<B: Host<Kind: Keys>>(
    target: &mut B,
    mut keys: &mut [KeyOf<B>],
) -> Result<bool, OperationError> {
    let mut failure = Ok(true);
    for _ in 0..TRIES {
        let mut results = [Ok(Outcome::Full); BATCH];
        let results = results.get_mut(..keys.len()).unwrap_or_default();
        batch(target, keys, results).map_err(stopped)?;
        failure = Ok(true);
        for result in &*results {
            match *result {
                Ok(Outcome::Found | Outcome::Inserted) => {}
                Ok(Outcome::Full) => return Ok(false),
                Err(error @ OperationError::Failed(_)) => failure = Err(error),
                Err(error) => return Err(error),
            }
        }
        if failure.is_ok() {
            break;
        }
        let mut ended = results.iter();
        keys = keep_first(keys, &mut |_| ended.next().is_some_and(Result::is_err));
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
