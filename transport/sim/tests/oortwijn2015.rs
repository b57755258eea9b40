//! Checks the model of the paper's cluster against the authors' measurements: the paper's
//! algorithm (Fig. 1) has the same latencies in simulation.

mod common;

use core::sync::atomic::Ordering::Relaxed;

use common::{local, word};
use probeline_sim::{Cluster, Config, Engine, Model, Rng};
use probeline_transport::{Completion, Segment, Token, Transport};

const CHUNK_BUCKETS: [u32; 5] = [8, 16, 32, 64, 128];
/// Buckets of one part: a load factor step of 0.02 is thousands of inserts.
const PART: u64 = 1 << 20;
const BUCKETS: u64 = 2 * PART;
/// M. With it, 1 % of the inserts are `Full` at load factor 0.92 and C = 8, as in the authors'
/// files.
const MAX_CHUNKS: u64 = 64;
/// The engine executes 1 in this many inserts of a measured step; the others only fill the table.
const SAMPLED: u64 = 4;

const CLAIM: Token = Token(u64::MAX);

/// The paper's find-or-put of new data, blocking, with a clock.
struct Paper {
    engines: Vec<Engine>,
    cluster: Cluster,
    chunk: u32,
    random: Rng,
    held: u64,
    landed: Vec<u32>,
    claimed: Option<u64>,
}

impl Paper {
    fn new(chunk: u32, owners_per_node: u32) -> Self {
        let model = Model { owners_per_node, ..Model::oortwijn2015() };
        let cluster = common::cluster(Config {
            window_words: PART,
            slots: 4,
            slot_words: 128,
            model,
            seed: chunk.into(),
            ..Config::default()
        });
        let engines = common::engines(&cluster);
        let random = Rng::new(chunk.into(), 7);
        Self { engines, cluster, chunk, random, held: 0, landed: vec![], claimed: None }
    }

    /// Fills the table to a load factor, given in percent, without advancing the clock.
    fn fill(&mut self, percent: u64) {
        while self.held < BUCKETS * percent / 100 {
            self.put();
        }
    }

    fn put(&mut self) {
        let mut at = self.random.below(BUCKETS);
        while self.bucket(at).load(Relaxed) != 0 {
            at = (at + 1) % BUCKETS;
        }
        self.bucket(at).store(1, Relaxed);
        self.held += 1;
    }

    fn bucket(&self, at: u64) -> &core::sync::atomic::AtomicU64 {
        let owner = usize::try_from(at / PART).unwrap();
        &self.engines[owner].window()[usize::try_from(at % PART).unwrap()]
    }

    /// Inserts up to a load factor, given in percent. Returns the means of the latency, in
    /// nanoseconds, and of the chunks waited for.
    fn measure(&mut self, percent: u64) -> (f64, f64) {
        let (mut ns, mut chunks, mut inserts) = (0, 0, 0_u32);
        while self.held < BUCKETS * percent / 100 {
            for _ in 1..SAMPLED {
                self.put();
            }
            let start_ns = self.engines[0].now_ns();
            // Inserts alternate between the parts, because random ones would need far more samples.
            let part = u64::from(inserts % 2) * PART;
            let home = part + self.random.below(PART);
            chunks += self.insert(home);
            ns += self.engines[0].now_ns() - start_ns;
            inserts += 1;
            // Wait for the READ posted ahead, so that it does not delay the next insert.
            while self.engines[0].in_flight() > 0 {
                self.poll();
            }
        }
        (ns as f64 / f64::from(inserts), chunks as f64 / f64::from(inserts))
    }

    /// Executes Fig. 1 of the paper; returns the number of chunks waited for.
    fn insert(&mut self, home: u64) -> u64 {
        self.landed = vec![0; 1 + usize::try_from(MAX_CHUNKS).unwrap()];
        self.read_chunk(home, 0);
        for nth in 0..MAX_CHUNKS {
            if nth + 1 < MAX_CHUNKS {
                self.read_chunk(home, nth + 1);
            }
            while self.landed[usize::try_from(nth).unwrap()] < self.chunk {
                self.poll();
            }
            let slot = u32::try_from(nth % 2).unwrap();
            let words = self.engines[0].landed(local(slot, 0, self.chunk)).unwrap();
            if let Some((offset, _)) = (0..).zip(words).find(|(_, word)| **word == 0) {
                let at = (home + nth * u64::from(self.chunk) + offset) % BUCKETS;
                assert_eq!(self.claim(at), 0);
                self.held += 1;
                return nth + 1;
            }
        }
        MAX_CHUNKS
    }

    fn read_chunk(&mut self, home: u64, nth: u64) {
        let start = (home + nth * u64::from(self.chunk)) % BUCKETS;
        let (owner, index) = (u32::try_from(start / PART).unwrap(), start % PART);
        let first = u32::try_from((PART - index).min(self.chunk.into())).unwrap();
        let slot = u32::try_from(nth % 2).unwrap();
        for (start, begin, words) in
            [(word(owner, index), 0, first), (word(1 - owner, 0), first, self.chunk - first)]
        {
            if words > 0 {
                let into = local(slot, begin, words);
                let token = Token(nth << 32 | u64::from(words));
                self.engines[0].read(token, Segment { start, words }, into).unwrap();
            }
        }
    }

    fn claim(&mut self, at: u64) -> u64 {
        let at = word(u32::try_from(at / PART).unwrap(), at % PART);
        self.engines[0].compare_and_swap(CLAIM, at, 0, 1).unwrap();
        self.claimed = None;
        loop {
            self.poll();
            if let Some(old) = self.claimed {
                return old;
            }
        }
    }

    fn poll(&mut self) {
        let mut completions = [Completion::default(); 4];
        let count = self.engines[0].poll(&mut completions).unwrap();
        for completion in &completions[..count] {
            let value = completion.result.unwrap();
            if completion.token == CLAIM {
                self.claimed = Some(value);
            } else {
                let nth = usize::try_from(completion.token.0 >> 32).unwrap();
                self.landed[nth] += u32::try_from(completion.token.0 & 0xffff_ffff).unwrap();
            }
        }
    }
}

/// Measures each C at each load factor, in percent, and compares the means with `expected`
/// nanoseconds.
fn compare<const N: usize>(owners_per_node: u32, expected: [(u64, [f64; 5]); N], within: f64) {
    let mut deviations = Vec::new();
    for (column, chunk) in CHUNK_BUCKETS.into_iter().enumerate() {
        let mut paper = Paper::new(chunk, owners_per_node);
        for (percent, row) in expected {
            paper.fill(percent - 2);
            let (ns, chunks) = paper.measure(percent);
            let off = ns / row[column] - 1.0;
            println!(
                "C = {chunk}, load {percent} %: {ns:.0} ns, there {}, {:+.2} %; {chunks:.3} chunks",
                row[column],
                off * 100.0
            );
            deviations.push(off.abs());
        }
        assert_eq!(paper.cluster.counters().posted, paper.cluster.counters().completed);
    }
    let worst = deviations.iter().copied().fold(0.0, f64::max);
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    println!("worst {:.2} %, mean {:.2} %", worst * 100.0, mean * 100.0);
    assert!(worst < within, "{worst:.4}");
}

/// Table 1 of the paper.
#[test]
fn latencies_of_two_machines_are_those_of_table_1() {
    let table_1 = [
        (50, [3_690.0, 3_710.0, 3_990.0, 4_170.0, 4_500.0]),
        (60, [3_740.0, 3_720.0, 4_000.0, 4_180.0, 4_500.0]),
        (70, [3_900.0, 3_780.0, 4_000.0, 4_180.0, 4_510.0]),
        (80, [4_500.0, 4_000.0, 4_090.0, 4_200.0, 4_520.0]),
        (90, [7_700.0, 5_640.0, 4_920.0, 4_540.0, 4_660.0]),
    ];
    compare(1, table_1, 0.03);
}

/// The authors' result files.
#[test]
fn latencies_at_load_factor_092_are_the_authors() {
    compare(1, [(92, [9_754.7, 6_813.0, 5_577.7, 4_854.7, 4_812.7])], 0.05);
}

/// The authors' result files.
#[test]
fn latencies_of_one_machine_are_the_authors() {
    let on_one_machine = [
        (10, [277.3, 310.7, 356.7, 423.3, 537.0]),
        (50, [286.7, 314.3, 356.7, 427.7, 542.7]),
        (80, [348.3, 354.0, 381.0, 440.0, 553.0]),
        (90, [532.7, 487.7, 480.3, 496.7, 590.3]),
    ];
    compare(2, on_one_machine, 0.05);
}
