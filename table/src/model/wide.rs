//! The model check of wide keys: what their words mean, and scenarios.
//!
//! The memory has the buckets, then the counter of entries, then the entries. A WRITE changes a
//! word at any time between its post and its completion. A READ of an entry may therefore return,
//! for each word, its value at the post, its value at the completion, or that of a WRITE in flight
//! or of one that failed and takes effect late; if words may tear, also a mix of the halves of two.

use probeline_pipeline::model::{Draw, Verdict};
use probeline_pipeline::{Machine, Operation, Pipeline};

use super::subject::{Case, Driven, Subject, is_detected, report};
use super::{
    KEYS, Memory, Mutant, PAPER, Request, Scenario, Scripts, Shape, Storage, Wire, find, put,
};
use crate::bucket::{OCCUPIED, Wanted};
use crate::config::Config;
use crate::context::Context;
use crate::wide::{Entries, EntryStats, Spares, WideContext, WideFindOrPut, WideMutant};

/// Keys of one word each; the second differs from the first in one bit.
const WIDE: [[u64; 1]; KEYS.len()] = [[0x0101], [0x0100], [0x0707_0000]];

/// Keys of one word in entries of the only owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct WideKeys {
    /// Entries in all.
    entries: usize,
    /// Bits of a reference beyond those that the entries need.
    more_bits: u32,
    /// Entries that a client takes at once.
    run: u64,
    /// The tags of the keys.
    tags: [u64; KEYS.len()],
    pub(super) mutant: WideMutant,
}

impl WideKeys {
    /// Draws tags, entries, and how many of them a client takes at once.
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let (entries, run) = (1 + draw.below(4), 1 + draw.below(2) as u64);
        Self { entries, run, tags: draw.one_of(&[ALIKE, DIFFERENT]), ..KEYS_OF }
    }

    fn layout(&self, scenario: &Scenario) -> Entries {
        let per_owner = (self.entries as u64) << self.more_bits;
        Entries::new(1, per_owner, 1, scenario.buckets as u64 + 1)
    }

    /// Returns a hash with the tag and the home of a key.
    fn hash(&self, scenario: &Scenario, key: usize) -> u64 {
        // Only the highest bits choose among so few buckets.
        const TAG: u64 = 0xffff_ffff;
        let share = (1_u64 << 63).div_ceil(scenario.buckets as u64);
        let hash = (share * scenario.homes[key] as u64 + TAG) & !TAG | self.tags[key];
        assert_eq!(scenario.layout().home_of(hash).index, scenario.homes[key] as u64);
        hash
    }

    /// Returns the places of a key among the buckets.
    fn places(&self, scenario: &Scenario, memory: &Memory, key: usize) -> Vec<usize> {
        let entries = self.layout(scenario);
        let wanted = entries.tagged(self.hash(scenario, key));
        let holds = |word: u64| {
            let at = entries.segment(entries.entry_of(word)).start.index as usize;
            word & OCCUPIED != 0 && wanted.matches(word) && memory[at] == WIDE[key][0]
        };
        (0..scenario.buckets).filter(|&at| holds(memory[at])).collect()
    }
}

impl Subject for WideKeys {
    type Context = WideContext;
    type Machine = WideFindOrPut<1>;

    fn drive(&self, scenario: &Scenario, _: usize) -> Driven<Self> {
        let words = scenario.buckets + 1 + self.entries;
        let trusts = !scenario.words_tear || scenario.mutant == Mutant::TrustsTornWords;
        let slots = WideFindOrPut::<1>::SLOTS * scenario.storage as u32;
        let wire = Wire::new(1, words, slots, 0, trusts);
        let config = Config { direct: false, ..Config::paper(scenario.buckets as u64) };
        let mut table = Context::new(&wire, scenario.layout(), &config, []);
        scenario.limit(&mut table);
        let context = WideContext {
            table,
            entries: self.layout(scenario),
            counter: scenario.buckets as u64,
            me: 0,
            is_direct: false,
            spares: Spares::taking(self.run, &self.layout(scenario)),
            stats: EntryStats::default(),
        };
        let storage = Storage([Operation::EMPTY; 2], scenario.storage);
        Pipeline::new(wire, context, storage).expect("sizes that fit")
    }

    fn operation(
        &self,
        scenario: &Scenario,
        _: usize,
        Request { intent, key }: Request,
        context: &WideContext,
    ) -> WideFindOrPut<1> {
        let hash = self.hash(scenario, key);
        let mut operation = WideFindOrPut::from_hash(&WIDE[key], hash, intent, context);
        operation.mutant = self.mutant;
        operation
    }

    fn is_there(&self, scenario: &Scenario, memory: &Memory, key: usize) -> bool {
        !self.places(scenario, memory, key).is_empty()
    }

    fn check_memory(&self, scenario: &Scenario, memory: &Memory) -> Verdict {
        let mut occupied = 0;
        for key in 0..KEYS.len() {
            let places = self.places(scenario, memory, key);
            occupied += places.len();
            scenario.check_place(memory, key, places)?;
        }
        if memory[..scenario.buckets].iter().filter(|word| **word != 0).count() != occupied {
            return Err(format!("a bucket's entry has another key: {memory:x?}"));
        }
        let entries = self.layout(scenario);
        let used = memory[..scenario.buckets].iter().filter(|word| **word != 0);
        let mut used: Vec<_> = used.map(|word| entries.place(entries.entry_of(*word))).collect();
        used.sort_unstable();
        match used.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(format!("entry {twice:?} has two buckets")),
            None => Ok(()),
        }
    }

    fn forget(&self, context: &mut WideContext) {
        context.spares.forget(&context.entries);
    }
}

const SHAPES: &[Shape] = &[(2, 2, 1), (3, 1, 3)];
/// Shapes for failures, after which there are many more worlds.
const SMALL_SHAPES: &[Shape] = &[(2, 2, 1)];

/// The tags of all keys equal, or all different.
const ALIKE: [u64; 3] = [0x0001; 3];
const DIFFERENT: [u64; 3] = [0x0001, 0x0101, 0x0100];

const KEYS_OF: WideKeys =
    WideKeys { entries: 4, more_bits: 0, run: 1, tags: ALIKE, mutant: WideMutant::None };

const CROSSED: Scripts = &[&[put(0), put(1)], &[put(1), put(0)]];
const FINDS: Scripts = &[&[put(0), find(1)], &[put(1), find(0)]];
const ONE_KEY: Scripts = &[&[put(0)], &[put(0)], &[find(0)]];
/// An entry is used for the next key.
const REUSED: Scripts = &[&[put(0), put(2)], &[put(0), find(2)]];
const FAILING: Scripts = &[&[put(0), put(2)], &[put(0)]];
const ONE_KEY_FAILING: Scripts = &[&[put(0)], &[put(0)]];

const ALL: [Scripts; 4] = [CROSSED, FINDS, ONE_KEY, REUSED];

fn cases(keys: WideKeys, scripts: Scripts, switched: Scenario) -> Vec<Case<WideKeys>> {
    let shapes = if switched.failures > 0 { SMALL_SHAPES } else { SHAPES };
    switched.in_shapes(keys, scripts, shapes)
}

fn check_each(all: &[Scripts], keys: WideKeys, switched: Scenario) {
    all.iter().for_each(|scripts| report("wide keys", &cases(keys, scripts, switched)));
}

#[test]
fn wide_keys() {
    for tags in [ALIKE, DIFFERENT] {
        check_each(&ALL, WideKeys { tags, ..KEYS_OF }, PAPER);
        check_each(&ALL, WideKeys { tags, ..KEYS_OF }, Scenario { words_tear: true, ..PAPER });
    }
    let failing = Scenario { failures: 1, ..PAPER };
    check_each(&[FAILING, ONE_KEY_FAILING, FINDS], KEYS_OF, failing);
    // Runs of two entries, and fewer entries than keys.
    for (entries, run) in [(4, 2), (3, 2), (1, 1), (2, 1)] {
        check_each(&ALL, WideKeys { entries, run, ..KEYS_OF }, PAPER);
    }
}

/// A reference of more than a byte may be torn while the tag is whole. It then leads elsewhere.
#[test]
fn detects_trusted_torn_reference() {
    let keys = WideKeys { more_bits: 12, ..KEYS_OF };
    let right = Scenario { words_tear: true, ..PAPER };
    let mutant = Scenario { mutant: Mutant::TrustsTornWords, ..right };
    is_detected(&cases(keys, FINDS, mutant), &cases(keys, FINDS, right));
}
