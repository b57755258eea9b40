//! Checks the results of a run against a set: whether all of them can be correct together.

use std::collections::{BTreeMap, BTreeSet};

use probeline_table::{BatchError, Ended, Intent, OperationError};
use probeline_transport::PostError;

use super::Wrong;

/// The result of an operation.
pub(crate) type End = Result<Ended, OperationError>;

/// The error in the results of a batch before the call.
pub(crate) const UNTOUCHED: OperationError = OperationError::Post(PostError::OutOfRange);

/// Returns how the operations of a batch of `keys` keys ended, of any answer.
pub(crate) fn ends<A: Copy + Into<Ended>>(
    keys: usize,
    batch: impl FnOnce(&mut [Result<A, OperationError>]) -> Result<(), BatchError>,
) -> Result<Vec<End>, BatchError> {
    let mut results = vec![Err(UNTOUCHED); keys];
    batch(&mut results)?;
    Ok(results.into_iter().map(|result| result.map(A::into)).collect())
}

/// The knowledge about one key.
#[derive(Default)]
struct Known {
    /// A find-or-put of it has started.
    tried: bool,
    /// It was found or inserted, and therefore stays.
    present: bool,
    /// The table was full for it, and stays so.
    full: bool,
    /// Number of times that it was reported inserted.
    inserted: u32,
    /// A find-or-put of it failed: the key may be in the table although no result reported it.
    unknown: bool,
}

struct Running {
    key: u64,
    intent: Intent,
    /// Whether the key was known to be present when the operation started.
    was_present: bool,
}

/// All operations of a run, in the order in which they started and completed.
#[derive(Default)]
pub(crate) struct Account {
    known: BTreeMap<u64, Known>,
    running: BTreeMap<u64, Running>,
}

impl Account {
    /// Records the start of an operation, under a unique tag.
    pub(crate) fn begin(&mut self, tag: u64, key: u64, intent: Intent) {
        let known = self.known.entry(key).or_default();
        known.tried |= intent == Intent::FindOrPut;
        let running = Running { key, intent, was_present: known.present };
        assert!(self.running.insert(tag, running).is_none(), "the test used tag {tag} twice");
    }

    /// Records that an operation was refused.
    pub(crate) fn refused(&mut self, tag: u64) {
        self.running.remove(&tag);
    }

    /// Records the result of an operation. Returns its key and intent.
    pub(crate) fn end(&mut self, tag: u64, end: End) -> Result<(u64, Intent), Wrong> {
        let Some(Running { key, intent, was_present }) = self.running.remove(&tag) else {
            return Err(format!("tag {tag} ended {end:?}, but is not running"));
        };
        let known = self.known.entry(key).or_default();
        let is_put = intent == Intent::FindOrPut;
        let right = match end {
            Ok(Ended::Found) => known.tried,
            Ok(Ended::Inserted) => is_put && !was_present && known.inserted == 0,
            Ok(Ended::Full) => is_put && !was_present,
            Ok(Ended::Absent) => !is_put && !was_present,
            Err(_) => true,
        };
        known.present |= matches!(end, Ok(Ended::Found | Ended::Inserted));
        known.full |= end == Ok(Ended::Full);
        known.inserted += u32::from(end == Ok(Ended::Inserted));
        known.unknown |= is_put && end.is_err();
        if !right || (known.present && known.full) {
            return Err(format!(
                "{intent:?} of {key} ended {end:?}; known to be there before: {was_present}, \
                 inserted {} times, full: {}",
                known.inserted, known.full
            ));
        }
        Ok((key, intent))
    }

    /// Returns the keys of all operations.
    pub(crate) fn keys(&self) -> BTreeSet<u64> {
        self.known.keys().copied().collect()
    }

    /// Compares the results of all operations with the content of the table.
    pub(crate) fn check(&self, content: &BTreeSet<u64>) -> Result<(), Wrong> {
        if let Some(tag) = self.running.keys().next() {
            return Err(format!("tag {tag} never ended, one of {}", self.running.len()));
        }
        for (key, known) in &self.known {
            let is_there = content.contains(key);
            let right = if known.present {
                is_there && (known.unknown || known.inserted == 1)
            } else {
                !is_there || known.unknown
            };
            if !right {
                return Err(format!(
                    "{key} in the table: {is_there}, known to be: {}, inserted {} times, \
                     ended in error: {}",
                    known.present, known.inserted, known.unknown
                ));
            }
        }
        match content.iter().find(|key| !self.known.contains_key(key)) {
            Some(key) => Err(format!("{key} is in the table, and no operation inserted it")),
            None => Ok(()),
        }
    }
}
