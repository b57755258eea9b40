//! The graph of k-mers: the k-mers that follow one in each direction.

use core::marker::PhantomData;

use crate::kmer::{Kmer, LETTERS};

/// A k-mer in one of its two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node<K> {
    pub(super) forward: K,
    /// Its reverse complement.
    pub(super) backward: K,
}

impl<K: Kmer> Node<K> {
    /// Returns the smaller one of the k-mer and its reverse complement.
    pub(super) fn canonical(self) -> K {
        self.forward.min(self.backward)
    }

    pub(super) fn reversed(self) -> Self {
        Self { forward: self.backward, backward: self.forward }
    }

    /// Returns the letter of its last base.
    pub(super) fn last_letter(self) -> u8 {
        LETTERS[self.forward.base(0)]
    }

    /// Returns the bases that follow, a bit for each.
    fn following(self, mask: u8) -> u8 {
        if self.forward <= self.backward { mask & 0xf } else { mask >> 4 }
    }

    /// Returns whether only one k-mer comes before this one.
    pub(super) fn is_entered_once(self, mask: u8) -> bool {
        self.reversed().following(mask).count_ones() == 1
    }
}

/// The k-mers of one k. The mask of a k-mer has a bit for each base that follows it, in the lowest four for its
/// canonical direction, in the next four for the other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Graph<K> {
    pub(super) k: u32,
    kmer: PhantomData<K>,
}

#[allow(clippy::cast_possible_truncation, reason = "bases are less than 4")]
impl<K: Kmer> Graph<K> {
    pub(super) fn new(k: u32) -> Self {
        Self { k, kmer: PhantomData }
    }

    /// Returns a k-mer in its own direction.
    pub(super) fn node(&self, kmer: K) -> Node<K> {
        Node { forward: kmer, backward: kmer.reverse_complement(self.k) }
    }

    /// Returns the k-mer that follows with a base.
    pub(super) fn next(&self, node: Node<K>, base: u8) -> Node<K> {
        let mut roller = K::new(self.k);
        (roller.forward, roller.backward) = (node.forward, node.backward);
        K::push(&mut roller, base);
        Node { forward: roller.forward, backward: roller.backward }
    }

    /// Returns the only k-mer that follows, unless it is the same one.
    pub(super) fn only_next(&self, node: Node<K>, mask: u8) -> Option<Node<K>> {
        let bases = node.following(mask);
        if bases.count_ones() != 1 {
            return None;
        }
        let next = self.next(node, bases.trailing_zeros() as u8);
        (next.canonical() != node.canonical()).then_some(next)
    }
}
