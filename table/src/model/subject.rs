//! What is checked: the machine, its context, and what the words of the memory mean.

use core::fmt::Debug;
use core::hash::Hash;

use probeline_pipeline::{Machine, Operation, Pipeline, Run};

use super::{KEYS, MOST_BUCKETS, Memory, Mutant, Request, Scenario, Storage, Verdict, Wire};
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::context::Context;
use crate::direct::Direct;
use crate::find_or_put::FindOrPut;
use crate::options::OneRoundtrip;
use crate::outcome::Ended as Outcome;

pub(super) type Driven<S> = Pipeline<
    Wire,
    Storage<<S as Subject>::Machine>,
    <S as Subject>::Context,
    <S as Subject>::Machine,
>;

pub(super) trait Subject: Copy + Debug {
    type Context: Clone + Hash;
    type Machine: Run<Self::Context> + Machine<Outcome = Outcome> + Clone + Hash;

    /// Creates the pipeline of one client.
    fn drive(&self, scenario: &Scenario, who: usize) -> Driven<Self>;
    /// Creates the operation of a client's request.
    fn operation(
        &self,
        scenario: &Scenario,
        who: usize,
        request: Request,
        context: &Self::Context,
    ) -> Self::Machine;
    /// Returns whether a key is in the table.
    fn is_there(&self, scenario: &Scenario, memory: &Memory, key: usize) -> bool;
    /// Checks that each key is in at most one bucket, and that no bucket before it is empty.
    fn check_memory(&self, scenario: &Scenario, memory: &Memory) -> Verdict;
    /// Drops what a client knows of the table before it is cleared.
    fn forget(&self, context: &mut Self::Context);
}

/// Narrow keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow;

#[derive(Clone, Debug, Hash)]
pub(super) struct CacheEntries([CacheEntry; 8], usize);

impl AsMut<[CacheEntry]> for CacheEntries {
    fn as_mut(&mut self) -> &mut [CacheEntry] {
        &mut self.0[..self.1]
    }
}

impl Subject for Narrow {
    type Context = Context<CacheEntries>;
    type Machine = FindOrPut;

    fn drive(&self, scenario: &Scenario, who: usize) -> Driven<Self> {
        let part = scenario.buckets / scenario.owners as usize;
        let trusts = !scenario.words_tear || scenario.mutant == Mutant::TrustsTornWords;
        let reaches = u32::from(scenario.direct[who] != Direct::Off);
        let slots = 2 * scenario.storage as u32;
        let wire = Wire::new(scenario.owners, part, slots, reaches, trusts);
        let one_roundtrip =
            if scenario.one_roundtrip[who] { OneRoundtrip::On } else { OneRoundtrip::Off };
        let config = Config { one_roundtrip, ..Config::paper(part as u64) };
        let entries = CacheEntries([CacheEntry::EMPTY; 8], scenario.cache_entries);
        let mut context = Context::new(&wire, scenario.layout(), &config, entries);
        scenario.limit(&mut context);
        context.direct = scenario.direct[who];
        context.learns_torn_words = scenario.mutant == Mutant::LearnsTornWords;
        let storage = Storage([Operation::EMPTY; 2], scenario.storage);
        Pipeline::new(wire, context, storage).expect("sizes that fit")
    }

    fn operation(
        &self,
        scenario: &Scenario,
        who: usize,
        Request { intent, key }: Request,
        context: &Self::Context,
    ) -> FindOrPut {
        let operation = FindOrPut::starting_at(scenario.walk(intent, key));
        if scenario.mutant == Mutant::BelievesRead && scenario.one_roundtrip[who] {
            return operation.believing_its_read(context);
        }
        operation
    }

    fn is_there(&self, _: &Scenario, memory: &Memory, key: usize) -> bool {
        memory.contains(&KEYS[key])
    }

    fn check_memory(&self, scenario: &Scenario, memory: &Memory) -> Verdict {
        for (key, word) in KEYS.iter().enumerate() {
            let places = (0..MOST_BUCKETS).filter(|&at| memory[at] == *word).collect();
            scenario.check_place(memory, key, places)?;
        }
        Ok(())
    }

    fn forget(&self, context: &mut Self::Context) {
        context.cache.forget();
    }
}
