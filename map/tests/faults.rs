//! Maps on simulated owners with operations that fail, take effect late and execute twice, with torn
//! and scattered READs, and with claims that other clients take over.

mod common;

use std::collections::BTreeSet;

use common::{AnyMap, Key, Value, key, open, sim, value};
use probeline_map::{
    Config, Finished, Mode, OperationError, Outcome, Request, Stats, Tag, Written,
};
use probeline_sim::{Cluster, Faults, Jitter, Model, Order, Rng};
use probeline_testing::{Replay, replayed_seed, seeds};

const OPERATIONS: u32 = 3;
/// Requests of a run.
const REQUESTS: u64 = 300;
/// Steps before a run counts as stuck.
const MAX_STEPS: u64 = 1_000_000;
const STREAM: u64 = 1_700;

/// What is known of a request.
#[derive(Clone, Copy)]
struct Known {
    number: u64,
    /// Whether it writes: a put or a remove.
    writes: bool,
    /// The steps at which it started and ended with an effect.
    started: u64,
    stored: Option<u64>,
    /// Whether it ended without an effect, and never will have one.
    is_void: bool,
    /// The step at which a later put or remove of the key ended.
    superseded: Option<u64>,
}

struct Run {
    cluster: Cluster,
    maps: Vec<AnyMap<Key, Value>>,
    rng: Rng,
    keys: u64,
    ages: bool,
    mode: Mode,
    known: Vec<Known>,
    running: u64,
    /// The outcomes by their counters.
    counts: Stats,
}

impl Run {
    fn new(seed: u64, faults: Faults, mode: Mode) -> Self {
        let mut rng = Rng::new(seed, STREAM);
        let owners = u32::try_from(1 + rng.below(3)).unwrap();
        let buckets = 2 + rng.below(12);
        let config = Config {
            candidates: u32::try_from(1 + rng.below(6)).unwrap(),
            claims_with_read: rng.below(2) == 0,
            claim_ticks: 1,
            direct: false,
            mode,
            ..Config::new(buckets)
        };
        let sizes = sim::<Key, Value>(&config, owners, OPERATIONS);
        let sim = probeline_sim::Config {
            seed,
            order: if rng.below(4) > 0 { Order::Shuffled } else { Order::ByTime },
            model: Model {
                jitter: Jitter::Exponential { mean_ns: 100 + rng.below(2_000) },
                ..Model::simple(2_000)
            },
            faults,
            scatter_reads: rng.below(4) > 0,
            word_reads_whole: faults.torn_read_ppm == 0,
            write_then_atomic: rng.below(2) == 0,
            ..sizes
        };
        let cluster = Cluster::new(sim).unwrap();
        let maps = (0..owners).map(|owner| open(&cluster, owner, config, OPERATIONS)).collect();
        Self {
            cluster,
            maps,
            keys: 1 + rng.below(2 * buckets * u64::from(owners)),
            ages: seed % 2 == 1,
            mode,
            rng,
            known: Vec::new(),
            running: 0,
            counts: Stats::default(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for step in 0..MAX_STEPS {
            let is_over = self.known.len() as u64 >= REQUESTS;
            if is_over && self.running == 0 {
                return self.check_end();
            }
            let client = usize::try_from(self.rng.below(self.maps.len() as u64)).unwrap();
            if self.ages && self.rng.below(16) == 0 {
                self.maps[client].advance_age();
            }
            if !is_over && self.rng.below(2) == 0 {
                self.submit(client, step)?;
            } else {
                self.poll(client, step)?;
            }
        }
        Err("stuck".into())
    }

    fn submit(&mut self, client: usize, step: u64) -> Result<(), String> {
        if !self.maps[client].has_room() {
            return Ok(());
        }
        // Half of the requests race for a few keys.
        let range = if self.rng.below(2) == 0 { self.keys.min(2) } else { self.keys };
        let (number, put) = (self.rng.below(range), self.known.len() as u64);
        let request = match self.rng.below(10) {
            0..4 => Request::Get,
            4..7 => Request::Put(value(number, put)),
            7..9 => Request::PutIfAbsent(value(number, put)),
            _ => Request::Remove,
        };
        let writes = request != Request::Get;
        self.maps[client].submit(Tag(put), &key(number), request).map_err(|e| e.to_string())?;
        let known =
            Known { number, writes, started: step, stored: None, is_void: false, superseded: None };
        self.known.push(known);
        self.running += 1;
        Ok(())
    }

    fn poll(&mut self, client: usize, step: u64) -> Result<(), String> {
        let mut out = [Finished::default(); 2];
        let ended = self.maps[client].poll_into(&mut out).map_err(|error| error.to_string())?;
        for end in ended {
            self.running -= 1;
            let nth = usize::try_from(end.tag.0).unwrap();
            match end.result {
                Ok(outcome) => self.ended(nth, outcome, step)?,
                Err(OperationError::Failed(_)) => self.counts.failed += 1,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn ended(&mut self, nth: usize, outcome: Outcome<Value>, step: u64) -> Result<(), String> {
        let Known { number, started, writes, .. } = self.known[nth];
        let written = match outcome {
            Outcome::Hit(found) => {
                self.counts.hits += 1;
                return self.check_hit(number, started, found);
            }
            Outcome::Miss => {
                self.counts.misses += 1;
                return if writes { Err("a write ended as a miss".into()) } else { Ok(()) };
            }
            Outcome::Written(written) => written,
        };
        match written {
            Written::Inserted => self.counts.inserts += 1,
            Written::Updated => self.counts.updates += 1,
            Written::Evicted => self.counts.evictions += 1,
            Written::Present => self.counts.present += 1,
            Written::Removed => self.counts.removes += 1,
            Written::Absent => self.counts.absent += 1,
            Written::Dropped => self.counts.drops += 1,
        }
        use Written::{Evicted, Inserted, Removed, Updated};
        if !matches!(written, Inserted | Updated | Evicted | Removed) {
            self.known[nth].is_void = true;
            return Ok(());
        }
        for older in &mut self.known {
            if older.number == number && older.stored.is_some_and(|stored| stored < started) {
                older.superseded.get_or_insert(step);
            }
        }
        self.known[nth].stored = Some(step);
        Ok(())
    }

    fn check_hit(&self, number: u64, started: u64, found: Value) -> Result<(), String> {
        let put = usize::try_from(found[0]).unwrap_or(usize::MAX);
        let Some(known) = self.known.get(put) else {
            return Err(format!("{found:?} was never put"));
        };
        if known.number != number || found != value(number, found[0]) {
            return Err(format!("{found:?} is not a value of key {number}"));
        }
        // Without locks or claims, a key may be in two buckets, and what is dropped may be there.
        if self.mode == Mode::Unlocked {
            return Ok(());
        }
        if known.is_void || known.superseded.is_some_and(|superseded| superseded < started) {
            return Err(format!("the value of request {put} is stale"));
        }
        Ok(())
    }

    /// Compares the content and the counters with the outcomes.
    fn check_end(&mut self) -> Result<(), String> {
        self.cluster.settle();
        let mut there = BTreeSet::new();
        let (mut twice, mut stats) = (None, Stats::default());
        for map in &self.maps {
            let each = |found: &Key, has: &Value| {
                let number = (0..self.keys).find(|number| key(*number) == *found);
                let is_right = number.is_some_and(|number| *has == value(number, has[0]));
                let is_new = there.insert(*found) || self.mode == Mode::Unlocked;
                if !is_right || !is_new {
                    twice = Some(*found);
                }
            };
            map.for_each_local(each).map_err(|error| error.to_string())?;
            stats = stats.plus(map.stats());
        }
        if let Some(found) = twice {
            return Err(format!("{found:?} is there twice, or with a wrong value"));
        }
        let counted = Stats {
            absent: stats.absent - stats.dropped_removes,
            drops: stats.drops + stats.dropped_removes,
            busy: 0,
            dropped_removes: 0,
            looks: 0,
            failed_checks: 0,
            lost_claims: 0,
            stolen_claims: 0,
            given_up: 0,
            lost_entries: 0,
            ..stats
        };
        if counted == self.counts {
            Ok(())
        } else {
            Err(format!("{stats:?} for {:?}", self.counts))
        }
    }
}

#[test]
fn agrees_with_requests_under_all_faults() {
    let (mut stats, mut sums) = (Stats::default(), probeline_sim::Counters::default());
    for seed in seeds(1_000) {
        let _replay = Replay(seed);
        let mut faults = Faults { death: None, ..Faults::swarm(seed) };
        if seed % 3 == 0 {
            faults.torn_read_ppm = 500_000;
        }
        let mut run = Run::new(seed, faults, Mode::Claims);
        assert_eq!(run.run(), Ok(()), "seed {seed}");
        for map in &run.maps {
            stats = stats.plus(map.stats());
        }
        let counters = run.cluster.counters();
        sums.errors_done += counters.errors_done;
        sums.errors_undone += counters.errors_undone;
        sums.late_effects += counters.late_effects;
        sums.torn_words += counters.torn_words;
    }
    println!("{stats:?}");
    if replayed_seed().is_none() {
        let happened = [
            stats.hits,
            stats.busy,
            stats.inserts,
            stats.updates,
            stats.evictions,
            stats.drops,
            stats.present,
            stats.removes,
            stats.failed,
            stats.failed_checks,
            stats.lost_claims,
            stats.stolen_claims,
            stats.given_up,
            sums.errors_done,
            sums.errors_undone,
            sums.late_effects,
            sums.torn_words,
        ];
        assert!(happened.iter().all(|times| *times > 0), "{happened:?}");
    }
}

/// The paper's modes, which assume that no operation fails: the same rules, except that
/// [`Mode::Unlocked`] may return older values.
#[test]
fn agrees_with_requests_in_all_modes() {
    for mode in [Mode::PartLocks, Mode::BucketLocks, Mode::Unlocked] {
        let mut stats = Stats::default();
        for seed in seeds(200) {
            let _replay = Replay(seed);
            let mut run = Run::new(seed, Faults::none(), mode);
            assert_eq!(run.run(), Ok(()), "seed {seed}, {mode:?}");
            for map in &run.maps {
                assert_eq!(map.held_lock(), None, "seed {seed}, {mode:?}");
                stats = stats.plus(map.stats());
            }
        }
        println!("{mode:?}: {stats:?}");
        assert!(stats.hits > 0 && stats.evictions > 0 && stats.removes > 0);
    }
}
