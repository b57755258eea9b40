//! Adds to, and gathers of, random elements of an array by two ranks on one machine, beside plain loops over
//! words that two threads share; each loop also with the word requested 16 places ahead. All take turns;
//! prints medians.
//!
//! `cargo run --release -p probeline-containers --example speed -- [ROUNDS]`

#![allow(clippy::cast_possible_truncation, reason = "indices of memory")]
#![allow(clippy::cast_precision_loss, reason = "rates")]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use probeline_containers::Array;
use probeline_containers::array::{Config, Operation};
use probeline_shm::{Builder, Engine};
use probeline_transport::{Exchange, prefetch};

/// Words of both ranks together.
const LEN: u64 = 1 << 21;
/// Elements that a rank accesses in a measurement.
const COUNT: usize = 1 << 21;
const AHEAD: usize = 16;
const NAMES: [&str; 6] = [
    "adds of the array",
    "adds of a loop",
    "adds of a loop that prefetches",
    "gathers of the array",
    "reads of a loop",
    "reads of a loop that prefetches",
];

struct Rank {
    array: Array<Engine, Vec<Operation<u64>>, u64>,
    words: &'static [AtomicU64],
    indices: Vec<u64>,
    ones: Vec<u64>,
    values: Vec<u64>,
}

impl Rank {
    fn run(&mut self, what: usize) {
        let Self { array, words, indices, ones, values } = self;
        let word = |index: &u64| words.get(*index as usize);
        let request = |nth: usize| {
            if let Some(words) = indices.get(nth + AHEAD).and_then(|at| words.get(*at as usize..)) {
                prefetch(words);
            }
        };
        let is_ahead = what % 3 == 2;
        match what {
            0 => array.add_batch(indices, ones).expect("valid indices"),
            3 => array.gather(indices, values).expect("valid indices"),
            1 | 2 => {
                for (nth, index) in indices.iter().enumerate() {
                    if is_ahead {
                        request(nth);
                    }
                    word(index).map(|word| word.fetch_add(1, SeqCst));
                }
            }
            _ => {
                for ((nth, index), value) in indices.iter().enumerate().zip(values.iter_mut()) {
                    if is_ahead {
                        request(nth);
                    }
                    *value = word(index).map_or(0, |word| word.load(SeqCst));
                }
            }
        }
        black_box(values);
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(9_usize);
    let words: &[AtomicU64] = (0..LEN).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    std::thread::scope(|scope| {
        for mut job in probeline_exchange::threads(2) {
            scope.spawn(move || {
                let config = Config::new(LEN);
                let engine =
                    Builder::new(config.sizes::<u64>(2, 32)).open(&mut job).expect("memory");
                let operations = vec![Operation::EMPTY; 32];
                let array = Array::open(engine, config, operations, &mut job).expect("an array");
                let mut state = 77 + u64::from(job.me().0);
                let indices = core::iter::repeat_with(|| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % LEN
                });
                let indices = indices.take(COUNT).collect();
                let (ones, values) = (vec![1; COUNT], vec![0; COUNT]);
                let mut rank = Rank { array, words, indices, ones, values };
                let mut rates = NAMES.map(|_| Vec::new());
                for _ in 0..rounds {
                    for (what, rates) in rates.iter_mut().enumerate() {
                        job.barrier().expect("two ranks");
                        let begun = Instant::now();
                        rank.run(what);
                        job.barrier().expect("two ranks");
                        rates.push(2.0 * COUNT as f64 / begun.elapsed().as_secs_f64() / 1e6);
                    }
                }
                if job.me().0 == 0 {
                    for (name, rates) in NAMES.iter().zip(&mut rates) {
                        rates.sort_by(f64::total_cmp);
                        println!("{name}: {:.0} million a second", rates[rounds / 2]);
                    }
                }
            });
        }
    });
}
