//! Drives the tables of several simulated owners in one thread, in an order that a seed determines.

use core::cell::RefCell;

use probeline_exchange::testing::AnyEngine;
use probeline_pipeline::Host;
use probeline_pipeline::model::{Below, Past, Work, soak};
use probeline_sim::{Cluster, Engine, Rng};
use probeline_table::{
    Bucket, Config, Ended, Intent, OneRoundtrip, OperationError, OutcomeStats, Probing, Stats,
};
use probeline_transport::{Fault, Owner, Transport};

use super::account::{Account, End, UNTOUCHED};
use super::extensions::Setup;
use super::kinds::{self, Numbered, Numbers};
use super::{CachedTable, Wrong, key, probe_order};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) sim: probeline_sim::Config,
    /// Each owner's configuration of the table.
    pub(crate) setups: Vec<Setup>,
    /// Entries per owner of wide keys. If they run out, an operation is full while others hold them.
    pub(crate) entries: u64,
    pub(crate) lacks_entries: bool,
    /// Number of operations in flight for each owner.
    pub(crate) operations: u32,
    /// Number of different keys.
    pub(crate) keys: u64,
    /// Step between the numbers of keys: with 4 all words of narrow keys are full of zero bytes.
    pub(crate) key_step: u64,
    /// Number of operations; repetitions of failed ones do not count.
    pub(crate) submits: u64,
    /// Finds per million operations.
    pub(crate) finds_ppm: u32,
    /// The owner to kill, and the step at which it is killed.
    pub(crate) kill: Option<(u64, Owner)>,
}

type Table<K> = Numbered<AnyEngine<'static>, K>;

pub(crate) struct Drive<K: Numbers> {
    plan: Plan,
    pub(crate) cluster: Cluster,
    pub(crate) tables: Vec<RefCell<Table<K>>>,
}

/// The work of all owners, and the test's record of it.
struct Requests<'d, K: Numbers> {
    drive: &'d Drive<K>,
    account: Account,
    rng: Rng,
    left: u64,
    /// Operations to repeat.
    again: Vec<(u64, Intent)>,
    steps: u64,
    members: Vec<Member>,
}

/// One owner's number of results by outcome, and of operations that failed, or found the engine dead.
#[derive(Clone, Debug, Default)]
struct Member {
    found: u64,
    inserted: u64,
    full: u64,
    absent: u64,
    failed: u64,
    faults: u64,
}

/// The streams of the seed that the driver draws from; the simulator does not use them.
const STREAMS: [u64; 2] = [100, 101];

impl<K: Numbers> Drive<K> {
    /// Opens tables over a cluster whose engines have room for them.
    pub(crate) fn new(mut plan: Plan, wrap: impl Fn(Engine) -> AnyEngine<'static>) -> Self {
        let config = |setup: &Setup| K::config(setup.config, plan.entries);
        let sizes = K::sizes(&config(&plan.setups[0]), plan.operations);
        plan.sim.window_words = sizes.window_words;
        (plan.sim.slots, plan.sim.slot_words) =
            (sizes.slots, plan.sim.slot_words.max(sizes.slot_words));
        let cluster = Cluster::new(plan.sim).unwrap();
        let owners = (0..plan.sim.owners).map(Owner);
        let open = |(owner, setup): (Owner, &Setup)| {
            let engine = wrap(cluster.engine(owner).unwrap());
            let cache_entries = setup.cache_entries;
            RefCell::new(kinds::new(engine, config(setup), plan.operations, cache_entries))
        };
        Self { tables: owners.zip(&plan.setups).map(open).collect(), cluster, plan }
    }

    /// Drives until all operations have completed, and compares their results with the memory.
    pub(crate) fn run(&self) -> Result<(), Wrong> {
        let [mut rng, rng_of_requests] = STREAMS.map(|stream| Rng::new(self.plan.sim.seed, stream));
        let mut requests = Requests {
            drive: self,
            account: Account::default(),
            rng: rng_of_requests,
            left: self.plan.submits,
            again: Vec::new(),
            steps: 0,
            members: vec![Member::default(); self.tables.len()],
        };
        soak(&self.tables, &mut requests, &mut |bound| rng.below(bound))?;
        requests.check_end()
    }

    /// Returns the cost of operations, summed over all owners and outcomes.
    pub(crate) fn costs(&self) -> OutcomeStats {
        let all = self.tables.iter().map(|table| table.borrow().stats().total());
        all.fold(OutcomeStats::default(), |sum, part| sum.plus(&part))
    }

    /// Returns the faults, by owner.
    pub(crate) fn faults(&self) -> Vec<Option<Fault>> {
        let fault = |table: &RefCell<Table<K>>| table.borrow_mut().structure().pipeline().fault();
        self.tables.iter().map(fault).collect()
    }
}

impl<K: Numbers> Work<Table<K>> for Requests<'_, K> {
    fn draw(&mut self, tag: u64, table: &mut Table<K>, _: Below<'_>) -> Option<(K::Key, Intent)> {
        let (number, intent) = self.again.pop().or_else(|| self.fresh())?;
        self.account.begin(tag, number, intent);
        Some((K::key(table.config(), number), intent))
    }

    /// Draws either the owner of the next event in virtual time, so that operations overlap, or a
    /// random one.
    fn next_client(&mut self, clients: usize, below: Below<'_>) -> usize {
        let Drive { plan, cluster, .. } = self.drive;
        if let Some((_, owner)) = plan.kill.filter(|(at, _)| *at == self.steps) {
            cluster.kill(owner);
        }
        self.steps += 1;
        let anyone = below(clients as u64);
        let next = cluster.next_delivery().filter(|_| below(10) < 6);
        usize::try_from(next.map_or(anyone, |(owner, _)| owner.0.into())).unwrap()
    }

    fn check(&mut self, owner: usize, past: &Past<Ended>) -> Result<(), Wrong> {
        let (tag, end, member) = (past.number, past.result, &mut self.members[owner]);
        match end {
            Ok(Ended::Found) => member.found += 1,
            Ok(Ended::Inserted) => member.inserted += 1,
            Ok(Ended::Full) => member.full += 1,
            Ok(Ended::Absent) => member.absent += 1,
            Err(OperationError::Fault(_)) => member.faults += 1,
            Err(OperationError::Busy) => {
                self.account.refused(tag);
                return Ok(());
            }
            Err(UNTOUCHED) => return Err(format!("no end of {tag} in a batch")),
            Err(_) => member.failed += 1,
        }
        if end == Ok(Ended::Full) && self.drive.plan.lacks_entries {
            self.account.refused(tag);
            return Ok(());
        }
        let (number, intent) = self.account.end(tag, end)?;
        if matches!(end, Err(error) if !matches!(error, OperationError::Fault(_))) {
            self.again.push((number, intent));
        }
        self.check_memory(number, end)
    }

    /// Lets the others detect an engine that is dead by itself.
    fn on_fault(&mut self, owner: usize) {
        self.drive.cluster.kill(Owner(u32::try_from(owner).unwrap()));
    }

    /// Runs the find-or-puts, and then the finds.
    fn run_batch(
        &mut self,
        table: &mut Table<K>,
        all: &[(K::Key, Intent)],
    ) -> Result<Vec<End>, OperationError> {
        let mut results = vec![Err(UNTOUCHED); all.len()];
        for intent in [Intent::FindOrPut, Intent::Find] {
            let places: Vec<usize> = (0..all.len()).filter(|at| all[*at].1 == intent).collect();
            let keys: Vec<K::Key> = places.iter().map(|at| all[*at].0).collect();
            let ends = kinds::run_in_form(table, &keys, kinds::BATCH, intent);
            places.into_iter().zip(ends).for_each(|(place, end)| results[place] = end);
        }
        Ok(results)
    }
}

impl<K: Numbers> Requests<'_, K> {
    /// Draws an operation that was not run before.
    fn fresh(&mut self) -> Option<(u64, Intent)> {
        self.left = self.left.checked_sub(1)?;
        let Plan { keys, key_step, submits, finds_ppm, .. } = self.drive.plan;
        let find = self.rng.chance(finds_ppm);
        let intent = if find { Intent::Find } else { Intent::FindOrPut };
        // Half of the operations race for the same few keys, which are new to the table for a
        // moment.
        let fresh = (submits - self.left) * keys / submits;
        let number = match self.rng.chance(500_000) {
            true => fresh.saturating_sub(self.rng.below(4)),
            false => self.rng.below(keys),
        };
        Some((number * key_step, intent))
    }

    /// Checks a result against the memory at the moment of its report.
    fn check_memory(&self, number: u64, end: End) -> Result<(), Wrong> {
        let Drive { tables, plan, .. } = self.drive;
        let Some((is_there, has_room)) = K::find_in_chunks(tables, &plan.setups[0].config, number)
        else {
            return Ok(());
        };
        let right = match end {
            Ok(Ended::Found | Ended::Inserted) => is_there,
            Ok(Ended::Full) => !is_there && !has_room,
            Ok(Ended::Absent) | Err(_) => true,
        };
        if right { Ok(()) } else { Err(format!("{number} ended {end:?}; there: {is_there}")) }
    }

    /// Compares the results with the content, unless that can only be read over a dead engine.
    fn check_end(&self) -> Result<(), Wrong> {
        let Drive { tables, cluster, .. } = self.drive;
        cluster.apply_outstanding();
        (0..tables.len()).try_for_each(|owner| self.check_stats(owner))?;
        K::content(tables, self.account.keys())?
            .map_or(Ok(()), |content| self.account.check(&content))
    }

    fn check_stats(&self, owner: usize) -> Result<(), Wrong> {
        let Drive { tables, plan, .. } = self.drive;
        let (table, member, setup) =
            (tables[owner].borrow(), &self.members[owner], &plan.setups[owner]);
        let (stats, words_whole) = (*table.stats(), table.transport().caps().word_reads_whole);
        // A dead engine may refuse operations before they start.
        let failed = stats.failed.clamp(member.failed, member.failed + member.faults);
        let ended = [member.found, member.inserted, member.full, member.absent, failed];
        let right = (stats.total().confirms == 0 || !words_whole)
            && K::is_right(&stats, ended, setup, plan.sim.direct_access);
        if right { Ok(()) } else { Err(format!("owner {owner}: {stats:?}, {setup:?}, {member:?}")) }
    }
}

/// Returns whether the counters are those of operations of which these numbers ended found, inserted, full,
/// absent, and failed.
pub(crate) fn counts_operations(stats: &Stats, ended: [u64; 5]) -> bool {
    let Stats { found, inserted, full, absent, failed, .. } = *stats;
    let [found, inserted, full, absent] =
        [found, inserted, full, absent].map(|part| part.operations);
    [found, inserted, full, absent, failed] == ended
}

/// Returns whether these costs of a table of narrow keys are possible with this owner's configuration.
/// The CPU `reaches` words, or not.
pub(crate) fn is_right(stats: &Stats, setup: &Setup, reaches: bool) -> bool {
    let Setup { config, cache_entries } = *setup;
    let Stats { found, inserted, full, absent, .. } = *stats;
    let parts = [found, inserted, full, absent];
    // An adaptive C may be as small as 8, and linear walks may stop between two chunks.
    let max_chunks = match setup.is_paper() {
        true => u64::from(config.max_chunks),
        false => u64::from(config.chunk_buckets) * u64::from(config.max_chunks) / 8 + 1,
    };
    let costs = parts.iter().all(|part| {
        let without_read = part.one_roundtrip_claims_decided + part.cache_hits + part.lines;
        part.operations <= part.effective_roundtrips + without_read
            && part.effective_roundtrips <= part.outgoing_roundtrips
            && part.outgoing_roundtrips <= part.operations * max_chunks
            && part.one_roundtrip_claims_decided <= part.one_roundtrip_claims
            && part.one_roundtrip_claims <= part.operations
            && part.cache_hits <= part.operations
            && part.lines <= part.operations * max_chunks
    });
    let by_claim = inserted.claims - inserted.claims_lost + inserted.one_roundtrip_claims_decided;
    let claims = by_claim <= inserted.operations
        && inserted.operations <= by_claim + inserted.lines
        && found.claims == found.claims_lost
        && [full.claims, full.one_roundtrip_claims_decided] == [full.claims_lost, 0]
        && [absent.claims, absent.one_roundtrip_claims] == [0; 2]
        && [inserted.cache_hits, full.cache_hits, absent.cache_hits] == [0; 3];
    let total = stats.total();
    let switched_off = (config.one_roundtrip != OneRoundtrip::Off
        || total.one_roundtrip_claims == 0)
        && ((config.direct && reaches) || total.lines == 0)
        && (cache_entries > 0 || total.cache_hits == 0);
    let always_on = config.one_roundtrip != OneRoundtrip::On
        || config.direct
        || [inserted.one_roundtrip_claims, full.one_roundtrip_claims]
            == [inserted.operations, full.operations];
    let one_line = config.probing != Probing::DoubleHash || config.chunk_buckets == 8;
    costs && claims && switched_off && always_on && one_line
}

/// Returns whether the chunks of a narrow key hold it, and whether they have an empty bucket before
/// it.
pub(crate) fn find_in_chunks<T: Transport>(
    tables: &[RefCell<CachedTable<T>>],
    config: &Config,
    number: u64,
) -> (bool, bool) {
    let layout = *tables[0].borrow().layout();
    let limit = u64::from(config.chunk_buckets) * u64::from(config.max_chunks);
    let word = Bucket::new(key(number)).unwrap().word();
    let order = probe_order(&layout, key(number));
    for at in order.take(usize::try_from(limit).unwrap()) {
        let at = at as u64;
        let owner = usize::try_from(at / layout.buckets_per_owner()).unwrap();
        let index = layout.first_word() + at % layout.buckets_per_owner();
        let table = tables[owner].borrow();
        let bucket = &table.transport().window()[usize::try_from(index).unwrap()];
        match bucket.load(core::sync::atomic::Ordering::Acquire) {
            0 => return (false, true),
            found if found == word => return (true, false),
            _ => {}
        }
    }
    (false, false)
}
