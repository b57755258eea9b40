//! The direct path: the CPU accesses the words of all owners.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

use probeline_pipeline::{Error, Plain};
use probeline_transport::{load_bytes, store_bytes};

use super::access::{Action, MAX_ATTEMPTS};

/// Runs an action on the words of an element of this many bytes.
#[inline(always)]
pub(crate) fn run<V: Plain>(
    element: &[AtomicU64],
    action: &Action<V>,
    bytes: usize,
) -> Result<V, Error> {
    let [word] = element else { return run_words(element, action, bytes) };
    let old = match *action {
        Action::Get => word.load(Acquire),
        Action::Put(value) => {
            store(&value, element);
            return Ok(value);
        }
        Action::Add(addend) => word.fetch_add(addend, SeqCst),
        Action::CompareAndSwap { expected, new } => {
            word.compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|found| found)
        }
        Action::Min(..) | Action::Max(..) => replace(word, action)?,
    };
    Ok(V::from_words(&mut core::iter::once(old), bytes))
}

/// As [`run`], for an element of several words.
#[inline(always)]
fn run_words<V: Plain>(
    element: &[AtomicU64],
    action: &Action<V>,
    bytes: usize,
) -> Result<V, Error> {
    action.check(u32::try_from(element.len()).unwrap_or(u32::MAX))?;
    if let Action::Put(value) = *action {
        store(&value, element);
        return Ok(value);
    }
    let mut value = V::zeroed(bytes);
    load_bytes(element, value.bytes_mut());
    Ok(value)
}

/// Replaces a word by that of a minimum or maximum, and returns the word before.
fn replace<V>(word: &AtomicU64, action: &Action<V>) -> Result<u64, Error> {
    let mut found = word.load(Acquire);
    for _ in 0..MAX_ATTEMPTS {
        let Some(new) = action.over(found) else { return Ok(found) };
        match word.compare_exchange(found, new, SeqCst, SeqCst) {
            Ok(old) => return Ok(old),
            Err(other) => found = other,
        }
    }
    Err(Error::Contended { attempts: MAX_ATTEMPTS })
}

/// Stores an element.
#[inline(always)]
pub(crate) fn store<V: Plain>(value: &V, element: &[AtomicU64]) {
    store_bytes(value.bytes(), element);
}
