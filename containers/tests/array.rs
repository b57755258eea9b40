//! Arrays against a vector, by the CPU and over a transport, on one rank and on two.

#![allow(clippy::cast_possible_truncation, reason = "numbers of elements are small here")]

use probeline_containers::array::{Action, Array, Config, Operation, Order};
use probeline_containers::{
    BatchError, Bytes, CollectiveError, ConfigError, Distribution, OperationError, Plain, Pointer,
};
use probeline_exchange::testing::on_ranks;
use probeline_transport::{Alone, Exchange};
use proptest::prelude::*;

type Engine = probeline_shm::Engine;
type Words<V> = Array<Engine, Vec<Operation<V>>, V>;

fn open<V: Plain>(config: Config, job: &mut (impl Exchange + ?Sized)) -> Words<V> {
    on_shm!(Array::open, config, config.sizes::<V>(job.owners(), 8), 8, job).unwrap()
}

/// Runs `rank` on two ranks, by the CPU and over the transport, for both distributions.
fn on_two_ranks(len: u64, rank: impl Fn(Config, &mut dyn Exchange) + Copy + Send + Sync) {
    for distribution in [Distribution::Block, Distribution::Cyclic] {
        for direct in [false, true] {
            let config = Config { distribution, direct, ..Config::new(len) };
            on_ranks(2, |mut job| rank(config, &mut job));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    One(u64, Action<u64>),
    Scatter(Vec<u64>),
    Add(Vec<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = 0..20_u64;
    let action = prop_oneof![
        Just(Action::Get),
        any::<u64>().prop_map(Action::Put),
        any::<u64>().prop_map(Action::Add),
        (0..3_u64, 0..3_u64).prop_map(|(expected, new)| Action::CompareAndSwap { expected, new }),
        any::<u64>().prop_map(|word| Action::Min(word, Order::Signed)),
        any::<u64>().prop_map(|word| Action::Max(word, Order::Float)),
    ];
    let indices = proptest::collection::vec(index.clone(), 0..40);
    let step = prop_oneof![
        (index, action).prop_map(|(index, action)| Step::One(index, action)),
        indices.clone().prop_map(Step::Scatter),
        indices.prop_map(Step::Add),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Runs an action on a word, and returns the result.
fn run(word: &mut u64, action: Action<u64>) -> u64 {
    let old = *word;
    *word = match action {
        Action::Put(value) => value,
        Action::Add(addend) => old.wrapping_add(addend),
        Action::CompareAndSwap { expected, new } if old == expected => new,
        Action::Get | Action::CompareAndSwap { .. } => old,
        Action::Min(value, Order::Signed) => (old as i64).min(value as i64) as u64,
        Action::Max(value, Order::Float) => {
            let floats = [old, value].map(f64::from_bits);
            if floats[1].total_cmp(&floats[0]).is_gt() { value } else { old }
        }
        other => panic!("{other:?} is not drawn"),
    };
    if let Action::Put(value) = action { value } else { old }
}

proptest! {
    #[test]
    fn matches_vector(steps in steps(), direct: bool, is_cyclic: bool) {
        let distribution = if is_cyclic { Distribution::Cyclic } else { Distribution::Block };
        let config = Config { direct, distribution, first_word: 3, ..Config::new(20) };
        let (mut array, mut model) = (open::<u64>(config, &mut Alone), [0_u64; 20]);
        for step in steps {
            match step {
                Step::One(index, action) => {
                    let old = array.call(&index, action).unwrap();
                    prop_assert_eq!(old, run(&mut model[index as usize], action));
                }
                Step::Scatter(indices) => {
                    // The order of equal indices is free: all get the same value.
                    let values: Vec<u64> = indices.iter().map(|index| index * 3).collect();
                    array.scatter(&indices, &values).unwrap();
                    indices.iter().for_each(|&index| model[index as usize] = index * 3);
                }
                Step::Add(indices) => {
                    array.add_batch(&indices, &vec![5; indices.len()]).unwrap();
                    for index in indices {
                        model[index as usize] = model[index as usize].wrapping_add(5);
                    }
                }
            }
            let (mut all, indices) = ([0; 20], Vec::from_iter(0..20));
            array.gather(&indices, &mut all).unwrap();
            prop_assert_eq!(all, model);
            prop_assert!(array.local().eq((0..).zip(model)));
        }
    }
}

#[test]
fn counts_adds_of_two_ranks() {
    on_two_ranks(1001, |config, job| {
        let mut array = open::<u64>(config, &mut *job);
        let indices: Vec<u64> = (0..20_000).map(|n| n * 8 % 1001).collect();
        array.add_batch(&indices, &vec![1; indices.len()]).unwrap();
        assert_eq!(array.sum(&mut *job).unwrap(), 40_000);
        array.fetch_max(1000, 50_000 + u64::from(job.me().0)).unwrap();
        assert_eq!(array.max(&mut *job).unwrap(), 50_001);
        for _ in 0..100 {
            array.update(0, |old| old + 3).unwrap();
        }
        // Of 20,000 indices of each rank 20 are 0.
        assert_eq!(array.min(&mut *job).unwrap(), 38);
        job.barrier().unwrap();
        assert_eq!(array.get(0).unwrap(), 40 + 600);
        array.fill(&9, &mut *job).unwrap();
        assert_eq!((array.min(&mut *job).unwrap(), array.max(&mut *job).unwrap()), (9, 9));
        array.clear(&mut *job).unwrap();
        assert_eq!(array.sum(&mut *job).unwrap(), 0);
        // The engine closes after the other rank has ended its operations.
        job.barrier().unwrap();
    });
}

#[test]
fn stores_elements_of_any_size() {
    on_two_ranks(90, |config, job| {
        let mine = job.me().0;
        let mut array = open::<[u8; 21]>(config, &mut *job);
        let indices: Vec<u64> = (0..90).filter(|n| n % 2 == u64::from(mine)).collect();
        let values: Vec<[u8; 21]> = indices.iter().map(|&index| [index as u8; 21]).collect();
        array.scatter(&indices, &values).unwrap();
        job.barrier().unwrap();
        let (mut all, indices) = (vec![[0; 21]; 90], Vec::from_iter(0..90));
        array.gather(&indices, &mut all).unwrap();
        assert!(all.iter().zip(0..).all(|(value, index)| *value == [index; 21]));
        assert_eq!(array.get(89).unwrap(), [89; 21]);
        let error = array.call(&0, Action::Add(1)).unwrap_err();
        assert_eq!(error, OperationError::Key { bits: 192, max: 64 });
        job.barrier().unwrap();
    });
    let config = Config { element_bytes: 5, ..Config::new(9) };
    let mut array = open::<Bytes<16>>(config, &mut Alone);
    let value = Bytes::new(b"seven").unwrap();
    array.put(8, &value).unwrap();
    assert_eq!(array.get(8).unwrap(), value);
}

#[test]
fn reports_indices_beyond_end() {
    on_two_ranks(10, |config, job| {
        let mut array = open::<u64>(config, &mut *job);
        let beyond = OperationError::Index { index: 10 };
        assert_eq!(array.get(10), Err(beyond));
        let mut values = [7; 4];
        let error = array.gather(&[0, 10, 11, 9], &mut values).unwrap_err();
        assert_eq!(error, BatchError::Failed { place: 1, error: beyond });
        assert_eq!(values, [0, 7, 7, 0]);
        assert_eq!(array.is_direct(), config.direct);
        job.barrier().unwrap();
    });
}

#[test]
fn points_to_elements() {
    let mut array = open::<Pointer<u64>>(Config::new(6), &mut Alone);
    let to = array.pointer(4).unwrap().cast();
    array.put(1, &to).unwrap();
    let pointer = array.get(1).unwrap();
    assert_eq!(pointer.segment(), to.segment());
    assert_eq!(array.index(pointer.cast()), Some(4));
    assert_eq!(array.pointer(6), None);
}

#[test]
fn orders_floats_and_signed_numbers() {
    let mut floats = open::<f64>(Config::new(3), &mut Alone);
    floats.fill(&1.5, &mut Alone).unwrap();
    assert_eq!(floats.fetch_min(0, -2.0).unwrap(), 1.5);
    assert_eq!(floats.fetch_max(1, 2.5).unwrap(), 1.5);
    assert_eq!(floats.min(&mut Alone).unwrap(), -2.0);
    assert_eq!(floats.max(&mut Alone).unwrap(), 2.5);
    assert_eq!(floats.update(2, |old| old * 2.0).unwrap(), 1.5);
    assert_eq!(floats.get(2).unwrap(), 3.0);
    let mut signed = open::<i64>(Config::new(1), &mut Alone);
    assert_eq!(signed.fetch_add(0, -5).unwrap(), 0);
    assert_eq!(signed.fetch_max(0, -7).unwrap(), -5);
    assert_eq!(signed.fetch_min(0, -7).unwrap(), -5);
    assert_eq!(signed.get(0).unwrap(), -7);
}

#[test]
fn refuses_configurations() {
    let sizes = Config::new(10).sizes::<u64>(1, 4);
    let refused = |config: Config| {
        let opened = on_shm!(Array::<_, _, u64>::open, config, sizes, 4, &mut Alone);
        let Err(CollectiveError::Config(error)) = opened.map(|_| ()) else { panic!("{config:?}") };
        error
    };
    assert!(matches!(refused(Config::new(0)), ConfigError::Range { min: 1, .. }));
    assert_eq!(refused(Config::new(11)), ConfigError::Window { needed: 11, found: 10 });
    let sizes = sizes.with_slots(4, 8);
    let opened = on_shm!(Array::<_, _, [u8; 80]>::open, Config::new(1), sizes, 1, &mut Alone);
    let error = opened.map(|_| ()).unwrap_err();
    assert_eq!(error, CollectiveError::Config(ConfigError::Slot { needed: 10, found: 8 }));
}
