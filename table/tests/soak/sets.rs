//! Tables against a set: random sizes and loads, random operations in every form of call, several
//! owners in turn.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeSet;

use probeline_exchange::testing::AnyEngine;
use probeline_pipeline::OperationFuture;
use probeline_sim::{Cluster, DirectAccess, Model};
use probeline_table::{Config, Ended, Intent, OneRoundtrip, Probing, TreeConfig};
use probeline_transport::{Alone, Owner, Transport};
use proptest::prelude::*;

use crate::common::account::End;
use crate::common::kinds::{self, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys};

/// A number and what to do with its key, in a table of some owners.
#[derive(Clone, Debug)]
struct Case {
    steps: Vec<(u64, u8)>,
    owners: u32,
    probing: Probing,
    one_roundtrip: OneRoundtrip,
    cache_entries: usize,
    seed: u64,
}

const OPERATIONS: u32 = 4;

fn cases() -> impl Strategy<Value = Case> {
    let probing =
        prop_oneof![Just(Probing::Linear), Just(Probing::Lines), Just(Probing::DoubleHash)];
    let one_roundtrip = prop_oneof![Just(OneRoundtrip::On), Just(OneRoundtrip::Off)];
    let cache_entries = prop_oneof![Just(0), Just(4), Just(64), Just(1_024)];
    let steps = prop::collection::vec((0_u64..400, 0_u8..8), 1..30);
    (steps, 1_u32..5, probing, one_roundtrip, cache_entries, any::<u64>()).prop_map(
        |(steps, owners, probing, one_roundtrip, cache_entries, seed)| Case {
            steps,
            owners,
            probing,
            one_roundtrip,
            cache_entries,
            seed,
        },
    )
}

impl Case {
    /// Checks a table of each kind, whose operations are posted or run by the CPU. Every key has
    /// room.
    fn agrees_with_a_set<K: Numbers>(
        &self,
        adapt: impl Fn(K::Config) -> K::Config,
    ) -> Result<(), TestCaseError> {
        let config = |direct| {
            let buckets = Config {
                probing: self.probing,
                one_roundtrip: self.one_roundtrip,
                chunk_buckets: 8,
                max_chunks: 128,
                direct,
                ..Config::new(1_024)
            };
            adapt(K::config(buckets, 1_200))
        };
        let sizes = K::sizes(&config(false), OPERATIONS);
        let cluster = Cluster::new(probeline_sim::Config {
            direct_access: DirectAccess::None,
            word_reads_whole: false,
            seed: self.seed,
            model: Model { idle_poll_ns: 100, ..Model::simple(2_000) },
            ..probeline_sim::Config::new(self.owners, sizes)
        })
        .unwrap();
        let open = |owner| {
            let engine = cluster.engine(Owner(owner)).unwrap();
            kinds::new(AnyEngine::new(engine), config(false), OPERATIONS, self.cache_entries)
        };
        self.run::<K>((0..self.owners).map(open).collect())?;
        let engine = probeline_shm::Builder::new(sizes).open(&mut Alone).unwrap();
        let engine = AnyEngine::new(engine);
        self.run::<K>(vec![kinds::open(engine, config(true), OPERATIONS, &mut Alone)])
    }

    /// Runs operations in every form of call, and compares their outcomes with a set.
    fn run<K: Numbers>(
        &self,
        tables: Vec<Numbered<AnyEngine<'_>, K>>,
    ) -> Result<(), TestCaseError> {
        let (config, mut set) = (*tables[0].config(), BTreeSet::new());
        let mut tables: Vec<_> = tables.into_iter().map(RefCell::new).collect();
        for (nth, &(number, what)) in self.steps.iter().enumerate() {
            let owner = nth % tables.len();
            // More than there is storage for.
            let last = if what < 2 { number } else { number + 8 };
            let intent = if what % 2 == 0 { Intent::FindOrPut } else { Intent::Find };
            let mut expect = |number| match (set.contains(&number), intent) {
                (true, _) => Ended::Found,
                (_, Intent::Find) => Ended::Absent,
                (_, Intent::FindOrPut) => {
                    set.insert(number);
                    Ended::Inserted
                }
            };
            let expected: Vec<End> = (number..=last).map(|number| Ok(expect(number))).collect();
            let keys: Vec<K::Key> = (number..=last).map(|n| K::key(&config, n)).collect();
            let table = &mut tables[owner];
            let results = match what / 2 {
                3 => run_futures(table, &keys, intent),
                form => kinds::run_in_form(table.get_mut(), &keys, form, intent),
            };
            prop_assert_eq!(results, expected, "step {}", nth);
        }
        let mut tables: Vec<_> = tables.into_iter().map(RefCell::into_inner).collect();
        let parts = tables.iter_mut().flat_map(|table| kinds::part(table).unwrap());
        let (mut content, expected) = (parts.collect::<Vec<_>>(), set.iter().copied());
        content.sort_unstable();
        prop_assert_eq!(content, expected.collect::<Vec<_>>());
        prop_assert_eq!(K::content(&mut tables, (0..410).collect()), Ok(Some(set)));
        Ok(())
    }
}

/// Runs operations as futures, which are polled in turn.
fn run_futures<T: Transport, K: Numbers>(
    table: &RefCell<Numbered<T, K>>,
    keys: &[K::Key],
    intent: Intent,
) -> Vec<End> {
    let mut context = Context::from_waker(Waker::noop());
    let future = |key| (OperationFuture::new(table, key, intent), None);
    let mut futures: Vec<_> = keys.iter().map(future).collect();
    while futures.iter().any(|(_, end)| end.is_none()) {
        for (future, end) in futures.iter_mut().filter(|(_, end)| end.is_none()) {
            if let Poll::Ready(result) = Pin::new(future).poll(&mut context) {
                *end = Some(result);
            }
        }
    }
    futures.into_iter().filter_map(|(_, end)| end).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn narrow_table_agrees_with_set(case in cases()) {
        case.agrees_with_a_set::<NarrowKeys>(|config| config)?;
    }

    #[test]
    fn wide_table_agrees_with_set(case in cases()) {
        case.agrees_with_a_set::<WideKeys<1>>(|config| config)?;
        case.agrees_with_a_set::<WideKeys<2>>(|config| config)?;
        case.agrees_with_a_set::<WideKeys<16>>(|config| config)?;
    }

    #[test]
    fn tree_table_agrees_with_set(case in cases()) {
        let bits = |key_bits| move |config| TreeConfig { key_bits, ..config };
        case.agrees_with_a_set::<TreeKeys<1>>(bits(12))?;
        case.agrees_with_a_set::<TreeKeys<1>>(bits(63))?;
        case.agrees_with_a_set::<TreeKeys<1>>(bits(64))?;
        case.agrees_with_a_set::<TreeKeys<2>>(bits(100))?;
        case.agrees_with_a_set::<TreeKeys<4>>(bits(200))?;
        case.agrees_with_a_set::<TreeKeys<16>>(bits(1_024))?;
    }
}
