//! Reads the keys whose roots are in an owner's part of the buckets. Their inner nodes are in any
//! owner's part.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use arrayvec::ArrayVec;
use probeline_transport::{Segment, Transport};

use super::shape::{Node, Parts, Shape};
use crate::OperationError;
use crate::bucket::Bucket;
use crate::collective::Phase;
use crate::set::READ_AT_ONCE;

/// Reads up to [`READ_AT_ONCE`] keys in the order of their roots in this owner's buckets, from the bucket
/// with index `next` on, and advances `next` past them. The CPU `may_load` nodes if atomics are atomic
/// with it. Returns the number of keys, which is less than that of `keys` only at the end.
pub(super) fn read_keys<const W: usize>(
    phase: &mut Phase<'_, impl Transport>,
    shape: &Shape,
    may_load: bool,
    next: &mut u64,
    keys: &mut [[u64; W]],
) -> Result<usize, OperationError> {
    let mut group = ArrayVec::<Parts<W>, READ_AT_ONCE>::new();
    while group.len() < keys.len().min(READ_AT_ONCE)
        && let Some(root) = phase.next_of(next, root)?
    {
        let mut parts = Parts::EMPTY;
        shape.take_apart(Node::ROOT, root, &mut parts);
        group.try_push(parts).map_err(|_| OperationError::Window)?;
    }
    for node in shape.inner_nodes() {
        read_nodes(phase, shape, may_load, node, &mut group)?;
    }
    keys.iter_mut().zip(&group).for_each(|(key, parts)| *key = parts.key);
    Ok(group.len())
}

/// Takes apart one inner node of each key.
///
/// A READ shows it: it is posted after the root was seen, and the claim of the node had completed
/// before the root was claimed. A CPU load shows it only if atomics are atomic with the CPU.
fn read_nodes<const W: usize>(
    phase: &mut Phase<'_, impl Transport>,
    shape: &Shape,
    may_load: bool,
    node: Node,
    group: &mut [Parts<W>],
) -> Result<(), OperationError> {
    let mut reads = ArrayVec::<_, READ_AT_ONCE>::new();
    for (place, parts) in group.iter_mut().enumerate() {
        let at = phase.layout.position_of(parts.reference(node));
        let from = Segment { start: phase.layout.word(at), words: 1 };
        match phase.transport.direct(from).filter(|_| may_load) {
            Some([word]) => shape.take_apart(node, pair(word.load(SeqCst))?, parts),
            _ => reads.try_push((place, from)).map_err(|_| OperationError::Window)?,
        }
    }
    phase.read_all(&reads, |place, words| {
        let word = words.first().copied().unwrap_or_default();
        if let Some(parts) = group.get_mut(place) {
            shape.take_apart(node, pair(word)?, parts);
        }
        Ok(())
    })
}

/// Returns the number of buckets that hold a root.
pub(super) fn roots(buckets: &[AtomicU64]) -> u64 {
    buckets.iter().map(|bucket| bucket.load(SeqCst)).filter_map(root).count() as u64
}

/// Returns the pair of a root in a bucket's word.
fn root(word: u64) -> Option<u64> {
    let pair = Bucket::from_word(word)?.key();
    Shape::is_root(pair).then_some(pair)
}

/// Returns the pair in the word of a bucket to which a node refers.
fn pair(word: u64) -> Result<u64, OperationError> {
    let bucket = Bucket::from_word(word);
    debug_assert!(bucket.is_some(), "a reference leads to an empty bucket");
    bucket.map(Bucket::key).ok_or(OperationError::Window)
}
