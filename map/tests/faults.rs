//! Maps on simulated owners with operations that fail, take effect late and execute twice, with torn
//! and scattered READs, and with claims that other clients take over.

use core::cell::RefCell;
use std::collections::BTreeSet;

use crate::common::{AnyMap, Key, Value, key, open, sim, value};
use probeline_exchange::testing::{Replay, replayed_seed, seeds};
use probeline_map::{Config, Mode, OperationError, Outcome, Request, Stats, Written};
use probeline_pipeline::model::{Below, Count, Past, soak};
use probeline_sim::{Cluster, Faults, Rng};

const OPERATIONS: u32 = 3;
/// Requests of a run.
const REQUESTS: u64 = 300;
const STREAM: u64 = 1_700;

/// Knowledge of a request.
#[derive(Clone, Copy, Default)]
struct Known {
    number: u64,
    /// Whether it writes: a put or a remove.
    writes: bool,
    /// The steps at which it began and ended with an effect.
    begun: u64,
    stored: Option<u64>,
    /// Whether it ended without an effect, and never will have one.
    is_void: bool,
    /// The step at which a later put or remove of the key ended.
    superseded: Option<u64>,
}

struct Run {
    cluster: Cluster,
    maps: Vec<AnyMap<Key, Value>>,
    keys: u64,
    mode: Mode,
    known: Vec<Known>,
    /// The outcomes by their counters.
    counts: Stats,
}

impl Run {
    /// Runs random requests.
    fn new(seed: u64, faults: Faults, mode: Mode) -> (Self, Vec<Past<Outcome<Value>>>) {
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
        let sim = sim::<Key, Value>(&config, owners, OPERATIONS).faulty(seed, 0, &mut rng);
        let sim = probeline_sim::Config {
            faults,
            scatter_reads: rng.below(4) > 0,
            word_reads_whole: faults.torn_read_ppm == 0,
            write_then_atomic: rng.below(2) == 0,
            ..sim
        };
        let cluster = Cluster::new(sim).unwrap();
        let open = |owner| RefCell::new(open(&cluster, owner, config, OPERATIONS));
        let maps: Vec<_> = (0..owners).map(open).collect();
        let keys = 1 + rng.below(2 * buckets * u64::from(owners));
        let mut known = Vec::new();
        let draw = |put, map: &mut AnyMap<Key, Value>, below: Below<'_>| {
            if seed % 2 == 1 && below(2) == 0 {
                map.advance_age();
            }
            // Half of the requests race for a few keys.
            let range = if below(2) == 0 { keys.min(2) } else { keys };
            let number = below(range);
            let request = match below(10) {
                0..4 => Request::Get,
                4..7 => Request::Put(value(number, put)),
                7..9 => Request::PutIfAbsent(value(number, put)),
                _ => Request::Remove,
            };
            known.push(Known { number, writes: request != Request::Get, ..Known::default() });
            (key(number), request)
        };
        let blocks = !matches!(mode, Mode::PartLocks | Mode::BucketLocks);
        let mut work = Count { count: REQUESTS, blocks, draw };
        let history = soak(&maps, &mut work, &mut |bound| rng.below(bound)).unwrap();
        let maps = maps.into_iter().map(RefCell::into_inner).collect();
        (Self { cluster, maps, keys, mode, known, counts: Stats::default() }, history)
    }

    fn check(&mut self, history: &[Past<Outcome<Value>>]) -> Result<(), String> {
        for past in history {
            self.known[usize::try_from(past.number).unwrap()].begun = past.begun;
        }
        for past in history {
            match past.result {
                Ok(outcome) => self.ended(past, outcome)?,
                Err(OperationError::Failed(_)) => self.counts.failed += 1,
                Err(error) => return Err(error.to_string()),
            }
        }
        self.check_end()
    }

    fn ended(
        &mut self,
        past: &Past<Outcome<Value>>,
        outcome: Outcome<Value>,
    ) -> Result<(), String> {
        let nth = usize::try_from(past.number).unwrap();
        let Known { number, begun, writes, .. } = self.known[nth];
        let written = match outcome {
            Outcome::Hit(found) => {
                self.counts.hits += 1;
                return self.check_hit(number, past, found);
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
            if older.number == number && older.stored.is_some_and(|stored| stored < begun) {
                older.superseded.get_or_insert(past.ended);
            }
        }
        self.known[nth].stored = Some(past.ended);
        Ok(())
    }

    fn check_hit(
        &self,
        number: u64,
        past: &Past<Outcome<Value>>,
        found: Value,
    ) -> Result<(), String> {
        let put = usize::try_from(found[0]).unwrap_or(usize::MAX);
        let Some(known) = self.known.get(put).filter(|known| known.begun <= past.ended) else {
            return Err(format!("{found:?} was never put"));
        };
        if known.number != number || found != value(number, found[0]) {
            return Err(format!("{found:?} is not a value of key {number}"));
        }
        // Without locks or claims, a key may be in two buckets, and what is dropped may be there.
        if self.mode == Mode::Unlocked {
            return Ok(());
        }
        if known.is_void || known.superseded.is_some_and(|superseded| superseded < past.begun) {
            return Err(format!("the value of request {put} is stale"));
        }
        Ok(())
    }

    /// Compares the content and the counters with the outcomes.
    fn check_end(&mut self) -> Result<(), String> {
        self.cluster.apply_outstanding();
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
            bucket_reads: 0,
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
fn agrees_under_all_faults() {
    let (mut stats, mut sums) = (Stats::default(), probeline_sim::Counters::default());
    for seed in seeds(1_000) {
        let _replay = Replay(seed);
        let mut faults = Faults { death: None, ..Faults::swarm(seed) };
        if seed % 3 == 0 {
            faults.torn_read_ppm = 500_000;
        }
        let (mut run, history) = Run::new(seed, faults, Mode::Claims);
        assert_eq!(run.check(&history), Ok(()), "seed {seed}");
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
fn agrees_in_all_modes() {
    for mode in [Mode::PartLocks, Mode::BucketLocks, Mode::Unlocked] {
        let mut stats = Stats::default();
        for seed in seeds(200) {
            let _replay = Replay(seed);
            let (mut run, history) = Run::new(seed, Faults::none(), mode);
            assert_eq!(run.check(&history), Ok(()), "seed {seed}, {mode:?}");
            for map in &run.maps {
                assert_eq!(map.held_lock(), None, "seed {seed}, {mode:?}");
                stats = stats.plus(map.stats());
            }
        }
        println!("{mode:?}: {stats:?}");
        assert!(stats.hits > 0 && stats.evictions > 0 && stats.removes > 0);
    }
}
