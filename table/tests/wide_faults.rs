//! The wide table on simulated owners with operations that fail, take effect late, and execute
//! twice, with torn READs, and with owners that die.

mod common;

use std::collections::BTreeSet;

use common::account::Account;
use common::{Replay, Wrong, seeds};
use probeline_sim::{Cluster, Engine, Faults, Jitter, Model, Order, Rng};
use probeline_table::{
    Config, Ended, EntryStats, Finished, Intent, OperationError, Probing, Tag, WideConfig,
    WideOperation, WideTable,
};
use probeline_transport::{Fault, Owner};

const WORDS: usize = 3;
const OPERATIONS: u32 = 4;
/// Operations of a run.
const SUBMITS: u64 = 600;
/// Steps before a run counts as stuck.
const MAX_STEPS: u64 = 2_000_000;
/// READs that may fail while the content is read at the end.
const TRIES: u32 = 10_000;
const STREAM: u64 = 700;

type Table = WideTable<Engine, Vec<WideOperation<WORDS>>, WORDS>;

fn key(number: u64) -> [u64; WORDS] {
    [number % 3, number, 0]
}

struct Run {
    cluster: Cluster,
    tables: Vec<Table>,
    account: Account,
    rng: Rng,
    keys: u64,
    lacks_entries: bool,
    left: u64,
    next_tag: u64,
    /// Operations to repeat, by owner.
    again: Vec<Vec<(u64, Intent)>>,
    /// Operations submitted and not reported, by owner.
    running: Vec<u32>,
    faults: Vec<Option<Fault>>,
    kill: Option<(u64, Owner)>,
}

impl Run {
    fn new(seed: u64, faults: Faults, kill: Option<(u64, Owner)>) -> Self {
        let mut rng = Rng::new(seed, STREAM);
        let owners = u32::try_from(2 + rng.below(2)).unwrap();
        let probing = [Probing::Linear, Probing::Lines, Probing::Jump]
            [usize::try_from(rng.below(3)).unwrap()];
        let buckets = Config {
            chunk_buckets: 8,
            max_chunks: 4,
            probing,
            direct: false,
            ..Config::paper(8 * (2 + rng.below(6)))
        };
        // Operations in error cost entries. A run without any has few, so that they run out.
        let lacks_entries = seed.is_multiple_of(3);
        let entries_per_owner = if lacks_entries { 20 } else { 2_000 };
        let config = WideConfig::<WORDS> { buckets, entries_per_owner };
        let sizes = config.sizes(OPERATIONS);
        let sim = probeline_sim::Config {
            owners,
            window_words: sizes.window_words,
            slots: sizes.slots,
            slot_words: sizes.slot_words,
            depth: u32::try_from(2 + rng.below(14)).unwrap(),
            seed,
            order: if rng.below(4) > 0 { Order::Shuffled } else { Order::ByTime },
            model: Model {
                jitter: Jitter::Exponential { mean_ns: 100 + rng.below(2_000) },
                ..Model::simple(2_000)
            },
            faults,
            scatter_reads: rng.below(2) == 1,
            word_reads_whole: false,
            ..probeline_sim::Config::default()
        };
        let cluster = Cluster::new(sim).unwrap();
        let open = |owner| {
            let storage = vec![WideOperation::EMPTY; OPERATIONS as usize];
            WideTable::new(cluster.engine(Owner(owner)).unwrap(), config, storage).unwrap()
        };
        let tables: Vec<Table> = (0..owners).map(open).collect();
        let count = tables.len();
        Self {
            cluster,
            tables,
            account: Account::default(),
            keys: 20 + rng.below(buckets.buckets_per_owner * u64::from(owners)),
            lacks_entries,
            rng,
            left: SUBMITS,
            next_tag: 0,
            again: vec![Vec::new(); count],
            running: vec![0; count],
            faults: vec![None; count],
            kill,
        }
    }

    fn run(&mut self) -> Result<(), Wrong> {
        for step in 0..MAX_STEPS {
            if let Some((_, owner)) = self.kill.filter(|(at, _)| *at == step) {
                self.cluster.kill(owner);
            }
            let is_dead = self.faults.iter().any(Option::is_some);
            let idle = self.left == 0
                && self.running.iter().all(|running| *running == 0)
                && self.again.iter().all(Vec::is_empty);
            if is_dead && self.faults.iter().all(Option::is_some) {
                return Ok(());
            }
            if !is_dead && idle && self.kill.is_none() {
                return self.check_end();
            }
            let owner = usize::try_from(self.rng.below(self.tables.len() as u64)).unwrap();
            if self.faults[owner].is_some() {
                continue;
            }
            if self.rng.below(2) == 0 { self.submit(owner)? } else { self.poll(owner)? }
        }
        Err("stuck".into())
    }

    fn submit(&mut self, owner: usize) -> Result<(), Wrong> {
        let (number, intent) = match self.again[owner].pop() {
            Some(again) => again,
            None if self.left == 0 => return Ok(()),
            None => {
                self.left -= 1;
                // Half of the operations race for a few new keys.
                let fresh = (SUBMITS - self.left) * self.keys / SUBMITS;
                let number = if self.rng.below(2) == 0 {
                    fresh.saturating_sub(self.rng.below(3))
                } else {
                    self.rng.below(self.keys)
                };
                let finds = self.rng.below(4) == 0;
                (number, if finds { Intent::Find } else { Intent::FindOrPut })
            }
        };
        self.next_tag += 1;
        let tag = self.next_tag;
        self.account.begin(tag, number, intent);
        match self.tables[owner].submit(Tag(tag), &key(number), intent) {
            Ok(()) => self.running[owner] += 1,
            Err(OperationError::Busy) => {
                self.account.refused(tag);
                self.again[owner].push((number, intent));
            }
            Err(OperationError::Fault(_)) => self.account.refused(tag),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    fn poll(&mut self, owner: usize) -> Result<(), Wrong> {
        let mut out = [Finished::default(); 3];
        match self.tables[owner].poll_into(&mut out) {
            Ok(ended) => {
                for end in ended {
                    self.running[owner] -= 1;
                    // No entry is left, but for those that other operations hold: one of them may
                    // insert the key later.
                    if end.result == Ok(Ended::Full) && self.lacks_entries {
                        self.account.refused(end.tag.0);
                        continue;
                    }
                    let (number, intent) = self.account.end(end.tag.0, end.result)?;
                    if matches!(end.result, Err(error) if !matches!(error, OperationError::Fault(_)))
                    {
                        self.again[owner].push((number, intent));
                    }
                }
                Ok(())
            }
            Err(OperationError::Fault(fault)) => {
                self.faults[owner] = Some(fault);
                self.cluster.kill(Owner(u32::try_from(owner).unwrap()));
                match self.running[owner] {
                    0 => Ok(()),
                    running => Err(format!("{fault} before {running} ends were reported")),
                }
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Compares the results with the content.
    fn check_end(&mut self) -> Result<(), Wrong> {
        self.cluster.settle();
        let mut content = Vec::new();
        for table in &mut self.tables {
            let (mut tries, mut local) = (0, Vec::new());
            while table.for_each_local(|key| local.push(*key)).is_err() {
                local.clear();
                tries += 1;
                if tries == TRIES {
                    return Err("the content cannot be read".into());
                }
            }
            content.extend(local);
        }
        let mut set = BTreeSet::new();
        for found in content {
            if found != key(found[1]) {
                return Err(format!("{found:?} is not a key"));
            }
            if !set.insert(found[1]) {
                return Err(format!("{found:?} is there twice"));
            }
        }
        self.account.check(&set)
    }
}

#[test]
fn sixty_seeds_with_all_faults() {
    let (mut stats, mut sums) = (EntryStats::default(), probeline_sim::Counters::default());
    let (mut lost, mut full, mut confirms) = (0, 0, 0);
    for seed in seeds(60) {
        let _replay = Replay(seed);
        let mut faults = Faults { death: None, ..Faults::swarm(seed) };
        if seed % 3 == 0 {
            faults.error_done_ppm = 0;
            faults.error_undone_ppm = 0;
            faults.error_late_ppm = 0;
        } else {
            faults.torn_read_ppm = 500_000;
        }
        let mut run = Run::new(seed, faults, None);
        assert_eq!(run.run(), Ok(()), "seed {seed}");
        let counters = run.cluster.counters();
        sums.errors_done += counters.errors_done;
        sums.errors_undone += counters.errors_undone;
        sums.late_effects += counters.late_effects;
        sums.torn_words += counters.torn_words;
        for table in &run.tables {
            stats = stats.plus(table.entry_stats());
            let total = table.stats().total();
            lost += total.claims_lost;
            confirms += total.confirms;
            full += table.stats().full.operations;
        }
    }
    println!(
        "{stats:?}; {lost} claims lost, {confirms} confirmations, {full} full; {} errors with and \
         {} without effect, {} late effects, {} torn words",
        sums.errors_done, sums.errors_undone, sums.late_effects, sums.torn_words
    );
    if std::env::var_os("PROBELINE_SEED").is_none() {
        let happened = [
            stats.entry_reads,
            stats.fetches,
            stats.entries_from_others,
            lost,
            full,
            confirms,
            sums.errors_done,
            sums.errors_undone,
            sums.late_effects,
            sums.torn_words,
        ];
        assert!(happened.iter().all(|times| *times > 0), "{happened:?}");
    }
}

/// An owner is killed in the middle: every owner gets each of its results, and then the fault.
#[test]
fn after_a_lost_owner_every_result_is_reported() {
    for seed in seeds(30) {
        let _replay = Replay(seed);
        let faults = Faults { death: None, ..Faults::swarm(seed) };
        let victim = Owner(u32::try_from(seed % 2).unwrap());
        let mut run = Run::new(seed, faults, Some((40 + seed * 7, victim)));
        assert_eq!(run.run(), Ok(()), "seed {seed}");
        for (owner, fault) in (0..).map(Owner).zip(&run.faults) {
            let expected = Fault::OwnerLost(victim);
            assert!(owner == victim || *fault == Some(expected), "seed {seed}, {owner}: {fault:?}");
        }
    }
}
