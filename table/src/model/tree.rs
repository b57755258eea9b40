//! The model check of keys as trees of pairs: what their words mean, and scenarios.
//!
//! A key has two nodes: the pair of its first two slots, and the root, which refers to it. Words do
//! not tear here: each node is a search of narrow keys, whose own check covers that.

use probeline_pipeline::model::{Draw, Verdict};
use probeline_pipeline::{Machine, Operation, Pipeline};

use super::subject::{Case, Driven, Subject, report};
use super::{
    KEYS, Memory, PAPER, Request, Scenario, Scripts, Shape as TableShape, Storage, Wire, find, put,
};
use crate::bucket::Bucket;
use crate::config::Config;
use crate::context::Context;
use crate::options::OneRoundtrip;
use crate::tree::{PairCacheLine, Shape, TreeConfig, TreeContext, TreeFindOrPut, TreeMutant};

const KEY_BITS: u32 = 64;
/// Bits of a slot.
const SLOT: u32 = 22;

/// The keys of a scenario.
type Keys = [[u64; 1]; KEYS.len()];

const fn key(slots: [u64; 3]) -> [u64; 1] {
    [slots[0] | slots[1] << SLOT | slots[2] << (2 * SLOT)]
}

/// Returns two keys that share a node, and one of which the pair of the first two slots is that of
/// a root of the others, but for the mark: a reference to bucket 0, 1 or 2, and the third slot.
const fn keys(seed: u64) -> Keys {
    let shared = [seed, 7 * seed];
    [key([shared[0], shared[1], 5]), key([shared[0], shared[1], 6]), key([seed % 3, 5, seed])]
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TreeKeys {
    keys: Keys,
    pub(super) mutant: TreeMutant,
}

impl TreeKeys {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self { keys: keys(1 + draw.below(30) as u64), mutant: TreeMutant::None }
    }
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Lines([PairCacheLine; 1], usize);

impl AsMut<[PairCacheLine]> for Lines {
    fn as_mut(&mut self) -> &mut [PairCacheLine] {
        &mut self.0[..self.1]
    }
}

/// Returns the keys whose roots are in the memory.
fn content(scenario: &Scenario, memory: &Memory) -> Result<Vec<[u64; 1]>, String> {
    let shape = Shape::new(KEY_BITS);
    let words = &memory[..scenario.buckets];
    let pair = |at: usize| Bucket::from_word(*words.get(at)?).map(Bucket::key);
    let roots = (0..scenario.buckets).filter_map(pair).filter(|pair| Shape::is_root(*pair));
    let inner = |reference: u32| match pair(reference as usize) {
        Some(pair) if !Shape::is_root(pair) => Ok(pair),
        other => Err(format!("reference {reference} leads to {other:x?}, memory {memory:x?}")),
    };
    roots.map(|root| shape.key(root, inner)).collect()
}

impl Subject for TreeKeys {
    type Context = TreeContext<Lines>;
    type Machine = TreeFindOrPut<1>;

    fn drive(&self, scenario: &Scenario, who: usize) -> Driven<Self> {
        let part = scenario.buckets / scenario.owners as usize;
        let slots = TreeFindOrPut::<1>::SLOTS * scenario.storage as u32;
        let wire = Wire::new(scenario.owners, part, slots, 0, true);
        let one_roundtrip =
            if scenario.one_roundtrip[who] { OneRoundtrip::On } else { OneRoundtrip::Off };
        let buckets = Config { one_roundtrip, ..Config::paper(part as u64) };
        let lines = Lines([PairCacheLine::EMPTY], scenario.cache_entries);
        let mut table = Context::new(&wire, scenario.layout(), &buckets, []);
        scenario.limit(&mut table);
        let config = TreeConfig { buckets, key_bits: KEY_BITS };
        let context = TreeContext { table, ..TreeContext::new(&wire, &config, lines) };
        let storage = Storage([Operation::EMPTY; 2], scenario.storage);
        Pipeline::new(wire, context, storage).expect("sizes that fit")
    }

    fn operation(
        &self,
        _: &Scenario,
        _: usize,
        Request { intent, key }: Request,
        context: &Self::Context,
    ) -> TreeFindOrPut<1> {
        let mut operation = TreeFindOrPut::new(&self.keys[key], intent, context);
        operation.mutant = self.mutant;
        operation
    }

    fn is_there(&self, scenario: &Scenario, memory: &Memory, key: usize) -> bool {
        content(scenario, memory).is_ok_and(|keys| keys.contains(&self.keys[key]))
    }

    fn check_memory(&self, scenario: &Scenario, memory: &Memory) -> Verdict {
        for (at, word) in memory[..scenario.buckets].iter().enumerate() {
            let Some(bucket) = Bucket::from_word(*word) else { continue };
            let home = scenario.layout().number(scenario.layout().home(bucket)) as usize;
            let mut before = scenario.order(home).take_while(|&probe| probe != at);
            if let Some(probe) = before.find(|&probe| memory[probe] == 0 || memory[probe] == *word)
            {
                return Err(format!(
                    "bucket {at} holds the pair of bucket {probe}, or it is empty"
                ));
            }
        }
        match content(scenario, memory)?.iter().find(|key| !self.keys.contains(key)) {
            Some(other) => Err(format!("{other:x?} is not a key, memory {memory:x?}")),
            None => Ok(()),
        }
    }

    fn forget(&self, context: &mut Self::Context) {
        context.cache.forget();
    }
}

/// Too few buckets for the nodes of two keys, and enough.
const SHAPES: &[TableShape] = &[(2, 2, 1), (3, 3, 1), (4, 2, 2)];
/// Keys with different homes.
const SEEDS: [u64; 2] = [1, 12];

/// A shared node, finds among puts, and a node like a root.
const ALL: [Scripts; 3] =
    [&[&[put(0)], &[put(1), put(0)]], &[&[put(0), find(1)], &[put(1)]], &[&[put(0)], &[put(2)]]];

#[test]
fn trees() {
    let cached = Scenario { cache_entries: 1, ..PAPER };
    let claiming = Scenario { one_roundtrip: [true; 3], ..PAPER };
    for switched in [
        PAPER,
        cached,
        Scenario { clears: true, ..cached },
        claiming,
        Scenario { ahead_from: u32::MAX, cache_entries: 1, ..claiming },
        Scenario { failures: 1, ahead_from: u32::MAX, ..cached },
    ] {
        for (scripts, seed) in ALL.iter().flat_map(|scripts| SEEDS.map(|seed| (scripts, seed))) {
            let subject = TreeKeys { keys: keys(seed), mutant: TreeMutant::None };
            for &(buckets, chunk, max_chunks) in SHAPES {
                let scenario = Scenario { buckets, chunk, max_chunks, scripts, ..switched };
                report("trees", &[Case { scenario, subject }]);
            }
        }
    }
}
