//! The shape of the trees: which pairs a key consists of.

use probeline_pipeline::Error;

/// Bits of a reference, and the most bits of a slot: two of them and the mark of a root fill the 63
/// bits of a bucket.
pub(super) const REFERENCE_BITS: u32 = 31;
const REFERENCE: u64 = (1 << REFERENCE_BITS) - 1;
/// The mark of a root.
const ROOT: u64 = 1 << (2 * REFERENCE_BITS);
const WORD_BITS: u32 = u64::BITS;

/// The shape of the trees of keys with a number of bits.
///
/// Nodes have the numbers of a heap: the root is 1, and the children of node n are 2n and 2n + 1.
/// A child whose number is at least the number of slots is a slot. The depths of two slots differ
/// by at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    key_bits: u32,
    slots: u32,
    slot_bits: u32,
    /// The number of the first child at the largest depth.
    deepest: u32,
}

/// The number of a node that is not a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node(u32);

impl Node {
    pub(crate) const ROOT: Self = Self(1);

    #[inline(always)]
    pub(crate) fn is_root(self) -> bool {
        self == Self::ROOT
    }

    /// Returns the node after this one in an order that ends with the root, children first.
    #[inline(always)]
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_sub(1).max(1))
    }
}

/// The references of a key's nodes, by number. Words of 64 bits make fewer than three slots each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct References<const W: usize>([[u32; 3]; W]);

impl<const W: usize> References<W> {
    pub(crate) const EMPTY: Self = Self([[0; 3]; W]);

    #[inline(always)]
    pub(crate) fn set(&mut self, Node(number): Node, reference: u32) {
        match self.0.as_flattened_mut().get_mut(number as usize) {
            Some(place) => *place = reference,
            None => debug_assert!(false, "no room for node {number}"),
        }
    }

    #[inline(always)]
    fn get(&self, number: u32) -> u64 {
        self.0.as_flattened().get(number as usize).copied().unwrap_or_default().into()
    }
}

/// A key whose pairs are taken apart, from the root on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<const W: usize> {
    /// The bits of the slots that were reached.
    pub(crate) key: [u64; W],
    references: References<W>,
}

impl<const W: usize> Parts<W> {
    pub(crate) const EMPTY: Self = Self { key: [0; W], references: References::EMPTY };

    /// Returns the reference to a node whose parent was taken apart.
    pub(crate) fn reference(&self, Node(number): Node) -> u64 {
        self.references.get(number)
    }
}

impl Shape {
    /// Returns the shape of keys of `key_bits` bits, at least 1.
    pub(crate) const fn new(key_bits: u32) -> Self {
        let slots = key_bits.div_ceil(REFERENCE_BITS);
        let slots = if slots < 2 { 2 } else { slots };
        let slot_bits = key_bits.div_ceil(slots);
        Self { key_bits, slots, slot_bits, deepest: slots.next_power_of_two() }
    }

    /// Returns the first node in the order of [`Node::next`].
    #[inline(always)]
    pub(crate) fn first(&self) -> Node {
        Node(self.slots - 1)
    }

    /// Returns whether a key has no bits beyond those of the shape.
    #[inline]
    fn fits<const W: usize>(&self, key: &[u64; W]) -> bool {
        let mut left = self.key_bits;
        key.iter().all(|word| {
            let bits = left.min(WORD_BITS);
            left -= bits;
            bits == WORD_BITS || word >> bits == 0
        })
    }

    /// Refuses a key that has bits beyond those of the shape.
    #[inline(always)]
    pub(crate) fn check<const W: usize>(&self, key: &[u64; W]) -> Result<(), Error> {
        if self.fits(key) { Ok(()) } else { Err(self.refuse(key)) }
    }

    #[cold]
    fn refuse(&self, key: &[u64]) -> Error {
        let words = (1..).zip(key);
        let used = words.filter(|(_, word)| **word != 0);
        let bits = used.map(|(nth, word)| nth * WORD_BITS - word.leading_zeros()).last();
        Error::Key { bits: bits.unwrap_or(0), max: self.key_bits }
    }

    /// Returns the pair of a node, whose children have these references.
    #[inline(always)]
    pub(crate) fn pair<const W: usize>(
        &self,
        Node(number): Node,
        key: &[u64; W],
        references: &References<W>,
    ) -> u64 {
        let child = |number: u32| match self.slot(number) {
            Some(slot) => self.bits_of_slot(slot, key),
            None => references.get(number),
        };
        let pair = child(2 * number) << REFERENCE_BITS | child(2 * number + 1);
        if number == 1 { pair | ROOT } else { pair }
    }

    /// Returns whether the pair is that of a root.
    pub(crate) fn is_root(pair: u64) -> bool {
        pair & ROOT != 0
    }

    /// Returns the inner nodes, parents before their children.
    pub(crate) fn inner_nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (2..self.slots).map(Node)
    }

    /// Takes apart the pair of a node whose parent was taken apart before.
    pub(crate) fn take_apart<const W: usize>(
        &self,
        Node(number): Node,
        pair: u64,
        parts: &mut Parts<W>,
    ) {
        let children = [pair >> REFERENCE_BITS & REFERENCE, pair & REFERENCE];
        for (child, value) in (2 * number..).zip(children) {
            match self.slot(child) {
                Some(slot) => self.set_bits_of_slot(slot, value, &mut parts.key),
                // A reference has 31 bits.
                #[allow(clippy::cast_possible_truncation)]
                None => parts.references.set(Node(child), value as u32),
            }
        }
    }

    /// Returns the key whose root is this pair; `load` returns the pair to which a reference leads.
    #[cfg(test)]
    pub(crate) fn key<const W: usize, E>(
        &self,
        root: u64,
        load: impl Fn(u32) -> Result<u64, E>,
    ) -> Result<[u64; W], E> {
        let mut parts = Parts::EMPTY;
        self.take_apart(Node::ROOT, root, &mut parts);
        for node in self.inner_nodes() {
            let reference = u32::try_from(parts.reference(node)).unwrap();
            self.take_apart(node, load(reference)?, &mut parts);
        }
        Ok(parts.key)
    }

    /// Returns the slot that a child is, counted from the low bits of a key on; `None` if it is a
    /// node.
    #[inline(always)]
    fn slot(&self, number: u32) -> Option<u32> {
        if number < self.slots {
            None
        } else if number >= self.deepest {
            Some(number - self.deepest)
        } else {
            Some(number + self.slots - self.deepest)
        }
    }

    /// Returns the first bit of a slot, and how many bits it has.
    #[inline(always)]
    fn range(&self, slot: u32) -> (u32, u32) {
        let first = slot.saturating_mul(self.slot_bits).min(self.key_bits);
        (first, (self.key_bits - first).min(self.slot_bits))
    }

    #[inline(always)]
    fn bits_of_slot<const W: usize>(&self, slot: u32, key: &[u64; W]) -> u64 {
        let (first, bits) = self.range(slot);
        let (word, offset) = ((first / WORD_BITS) as usize, first % WORD_BITS);
        let at = |word: usize| key.get(word).copied().unwrap_or_default();
        let low = at(word) >> offset;
        let value = if offset + bits > WORD_BITS {
            low | at(word + 1) << (WORD_BITS - offset)
        } else {
            low
        };
        value & ((1 << bits) - 1)
    }

    fn set_bits_of_slot<const W: usize>(&self, slot: u32, value: u64, key: &mut [u64; W]) {
        let (first, bits) = self.range(slot);
        let (word, offset) = ((first / WORD_BITS) as usize, first % WORD_BITS);
        if let Some(word) = key.get_mut(word) {
            *word |= value << offset;
        }
        if offset + bits > WORD_BITS
            && let Some(word) = key.get_mut(word + 1)
        {
            *word |= value >> (WORD_BITS - offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decodes_key_from_pairs(words: [u64; 16], key_bits in 1_u32..=1024) {
            let shape = Shape::new(key_bits);
            let mut key = words;
            for bit in key_bits..1024 {
                key[bit as usize / 64] &= !(1 << (bit % 64));
            }
            prop_assert!(shape.fits(&key));
            if key_bits < 1024 {
                let mut wide = key;
                wide[key_bits as usize / 64] |= 1 << (key_bits % 64);
                prop_assert!(!shape.fits(&wide));
            }
            let mut pairs = HashMap::new();
            let mut references = References::EMPTY;
            let mut node = shape.first();
            let mut reference = u32::MAX / 2;
            while !node.is_root() {
                let pair = shape.pair(node, &key, &references);
                prop_assert!(!Shape::is_root(pair));
                pairs.insert(reference, pair);
                references.set(node, reference);
                reference -= 1;
                node = node.next();
            }
            let root = shape.pair(node, &key, &references);
            prop_assert!(Shape::is_root(root) && root < 1 << 63);
            let decoded = shape.key(root, |reference| pairs.get(&reference).copied().ok_or(()));
            prop_assert_eq!(decoded, Ok(key));
        }
    }

    #[test]
    fn references_hold_all_nodes() {
        fn nodes<const W: usize>() -> (usize, usize) {
            let slots = Shape::new(u32::try_from(W).unwrap() * 64).slots as usize;
            (slots, References::<W>::EMPTY.0.as_flattened().len())
        }
        for (slots, room) in [nodes::<1>(), nodes::<2>(), nodes::<4>(), nodes::<16>()] {
            assert!(slots <= room, "{slots} slots, {room} places");
        }
    }
}
