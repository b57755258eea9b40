//! Drives the tables of several simulated owners in one thread, in an order that a seed determines.

use probeline_exchange::testing::AnyEngine;
use probeline_pipeline::Structure;
use probeline_sim::{Cluster, Engine, Rng};
use probeline_table::{
    Bucket, Config, Ended, Finished, Intent, OneRoundtrip, OperationError, OutcomeStats, Probing,
    Stats, Tag,
};
use probeline_transport::{Fault, Owner, Transport};

use super::account::{Account, End, UNTOUCHED, ends};
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
    /// Blocking calls per million operations.
    pub(crate) blocking_ppm: u32,
    /// Batches per million of the other operations.
    pub(crate) batch_ppm: u32,
    /// Maximum number of results that one poll has room for.
    pub(crate) poll_room: u32,
    /// The owner to kill, and the step at which it is killed.
    pub(crate) kill: Option<(u64, Owner)>,
}

pub(crate) struct Drive<K: Numbers> {
    plan: Plan,
    pub(crate) cluster: Cluster,
    pub(crate) tables: Vec<Numbered<AnyEngine<'static>, K>>,
    /// The parameters of the first owner, of which keys depend.
    config: K::Config,
    account: Account,
    rng: Rng,
    left: u64,
    next_tag: u64,
    members: Vec<Member>,
}

/// The test's record of one owner.
#[derive(Clone, Debug, Default)]
struct Member {
    /// Operations submitted and not reported.
    running: u32,
    /// Operations to repeat.
    again: Vec<(u64, Intent)>,
    fault: Option<Fault>,
    /// Number of results by outcome, and of failed operations.
    found: u64,
    inserted: u64,
    full: u64,
    absent: u64,
    failed: u64,
}

/// Steps for each operation before a run counts as stuck: ten times the maximum over 1,500 seeds,
/// in which a third of the one-sided operations failed.
const MAX_STEPS_PER_OPERATION: u64 = 20_000;
/// The stream of the seed that the driver draws from; the simulator does not use it.
const STREAM: u64 = 100;

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
            kinds::new(engine, config(setup), plan.operations, setup.cache_entries)
        };
        Self {
            tables: owners.zip(&plan.setups).map(open).collect(),
            config: config(&plan.setups[0]),
            account: Account::default(),
            rng: Rng::new(plan.sim.seed, STREAM),
            left: plan.submits,
            next_tag: 0,
            members: vec![Member::default(); plan.sim.owners as usize],
            cluster,
            plan,
        }
    }

    /// Drives until all operations have completed, and compares their results with the memory.
    pub(crate) fn run(&mut self) -> Result<(), Wrong> {
        let most = (self.plan.submits + 100) * MAX_STEPS_PER_OPERATION;
        let mut step = 0;
        while !self.is_over() {
            if step == most {
                return Err(format!("stuck after {step} steps"));
            }
            self.step(step)?;
            step += 1;
        }
        self.check_end()
    }

    fn is_over(&self) -> bool {
        if self.members.iter().any(|member| member.fault.is_some()) {
            return self.members.iter().all(|member| member.fault.is_some());
        }
        let idle = |member: &Member| member.running == 0 && member.again.is_empty();
        self.left == 0 && self.members.iter().all(idle)
    }

    fn step(&mut self, step: u64) -> Result<(), Wrong> {
        if let Some((_, owner)) = self.plan.kill.filter(|(at, _)| *at == step) {
            self.cluster.kill(owner);
        }
        // Either the owner of the next event in virtual time, so that operations overlap, or a
        // random one.
        let anyone = self.rng.below(self.members.len() as u64);
        let next = self.cluster.next_delivery().filter(|_| self.rng.chance(600_000));
        let owner = next.map_or(anyone, |(owner, _)| owner.0.into());
        let owner = usize::try_from(owner).unwrap();
        if self.members[owner].fault.is_some() {
            return Ok(());
        }
        if self.rng.chance(500_000)
            && let Some((key, intent)) = self.work(owner)
        {
            if self.rng.chance(self.plan.blocking_ppm) {
                self.block(owner, key, intent)
            } else if self.rng.chance(self.plan.batch_ppm) {
                self.batch(owner, key, intent)
            } else {
                self.submit(owner, key, intent)
            }
        } else {
            self.poll(owner)
        }
    }

    /// Returns the next operation of this owner.
    fn work(&mut self, owner: usize) -> Option<(u64, Intent)> {
        if let Some(again) = self.members[owner].again.pop() {
            return Some(again);
        }
        self.left = self.left.checked_sub(1)?;
        let find = self.rng.chance(self.plan.finds_ppm);
        let intent = if find { Intent::Find } else { Intent::FindOrPut };
        // Half of the operations race for the same few keys, which are new to the table for a
        // moment.
        let keys = self.plan.keys;
        let fresh = (self.plan.submits - self.left) * keys / self.plan.submits;
        let number = match self.rng.chance(500_000) {
            true => fresh.saturating_sub(self.rng.below(4)),
            false => self.rng.below(keys),
        };
        Some((number * self.plan.key_step, intent))
    }

    /// Returns a unique tag that identifies its owner.
    fn tag(&mut self, owner: usize) -> u64 {
        self.next_tag += 1;
        self.next_tag * self.members.len() as u64 + owner as u64
    }

    fn submit(&mut self, owner: usize, number: u64, intent: Intent) -> Result<(), Wrong> {
        let tag = self.tag(owner);
        self.account.begin(tag, number, intent);
        let key = K::key(&self.config, number);
        match Structure::submit(&mut self.tables[owner], Tag(tag), &key, intent) {
            Ok(()) => self.members[owner].running += 1,
            Err(OperationError::Busy) => {
                self.account.refused(tag);
                self.members[owner].again.push((number, intent));
            }
            // The next polls report the operations in flight, and then the fault.
            Err(OperationError::Fault(_)) => self.account.refused(tag),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    fn block(&mut self, owner: usize, number: u64, intent: Intent) -> Result<(), Wrong> {
        let tag = self.tag(owner);
        self.account.begin(tag, number, intent);
        let end = self.tables[owner].call(&K::key(&self.config, number), intent);
        let submitted = self.members[owner].running;
        self.called(owner, tag, (number, intent), end, submitted)
    }

    /// Records the result of a blocking call; `submitted` operations were not reported at its
    /// start.
    fn called(
        &mut self,
        owner: usize,
        tag: u64,
        (number, intent): (u64, Intent),
        end: End,
        submitted: u32,
    ) -> Result<(), Wrong> {
        if end == Err(OperationError::Busy) {
            self.account.refused(tag);
            self.members[owner].again.push((number, intent));
            if submitted == self.plan.operations {
                return Ok(());
            }
            return Err(format!("owner {owner} is busy with {submitted}"));
        }
        self.members[owner].running += 1;
        self.end(owner, tag, end)
    }

    /// Runs a batch of random length, usually longer than the storage, with repeated keys and with
    /// keys that are too large.
    fn batch(&mut self, owner: usize, first: u64, intent: Intent) -> Result<(), Wrong> {
        let most = if self.rng.chance(200_000) { 200 } else { 12 };
        let (mut keys, mut copies) =
            (vec![(K::key(&self.config, first), Some(first))], vec![false]);
        for _ in 0..self.rng.up_to(most) {
            let is_copy = self.rng.chance(100_000);
            let too_large = K::too_large(self.rng.bits()).filter(|_| self.rng.chance(100_000));
            if let Some(key) = too_large {
                keys.push((key, None));
            } else if is_copy {
                keys.push(keys[usize::try_from(self.rng.below(keys.len() as u64)).unwrap()]);
            } else if let Some((number, _)) = self.work(owner) {
                keys.push((K::key(&self.config, number), Some(number)));
            }
            copies.resize(keys.len(), is_copy);
        }
        let mut tags = Vec::new();
        for (_, number) in &keys {
            tags.push(self.tag(owner));
            if let Some(number) = number {
                self.account.begin(tags[tags.len() - 1], *number, intent);
            }
        }
        let (keys, numbers): (Vec<K::Key>, Vec<Option<u64>>) = keys.into_iter().unzip();
        let table = &mut self.tables[owner];
        let called = match intent {
            Intent::FindOrPut => ends(keys.len(), |ends| table.find_or_put_batch(&keys, ends)),
            Intent::Find => ends(keys.len(), |ends| table.find_batch(&keys, ends)),
        };
        let results = called.map_err(|error| error.to_string())?;
        let submitted = self.members[owner].running;
        for (((number, tag), end), is_copy) in
            numbers.into_iter().zip(tags).zip(results).zip(copies)
        {
            let again = self.members[owner].again.len();
            match (number, end) {
                (_, Err(UNTOUCHED)) => return Err(format!("no end of {number:?} in a batch")),
                (Some(number), _) => self.called(owner, tag, (number, intent), end, submitted)?,
                (None, Err(OperationError::Key { .. })) => {}
                (None, _) => return Err(format!("a key that is too large ended {end:?}")),
            }
            // Repeating copies of failed operations would increase their number without limit.
            if is_copy {
                self.members[owner].again.truncate(again);
            }
        }
        Ok(())
    }

    fn poll(&mut self, owner: usize) -> Result<(), Wrong> {
        let room = usize::try_from(self.rng.up_to(self.plan.poll_room.into())).unwrap();
        let mut out = vec![Finished::default(); room];
        match self.tables[owner].poll_into(&mut out) {
            Ok(ended) => ended.iter().try_for_each(|end| self.end(owner, end.tag.0, end.result)),
            Err(OperationError::Fault(fault)) => self.die(owner, fault),
            Err(error) => Err(error.to_string()),
        }
    }

    fn end(&mut self, owner: usize, tag: u64, end: End) -> Result<(), Wrong> {
        if tag % self.members.len() as u64 != owner as u64 {
            return Err(format!(
                "owner {owner} received the result of tag {tag}, which is another's"
            ));
        }
        let member = &mut self.members[owner];
        member.running -= 1;
        if end == Ok(Ended::Full) && self.plan.lacks_entries {
            member.full += 1;
            self.account.refused(tag);
            return Ok(());
        }
        let (number, intent) = self.account.end(tag, end)?;
        self.check_memory(number, end)?;
        let member = &mut self.members[owner];
        match end {
            Ok(Ended::Found) => member.found += 1,
            Ok(Ended::Inserted) => member.inserted += 1,
            Ok(Ended::Full) => member.full += 1,
            Ok(Ended::Absent) => member.absent += 1,
            Err(OperationError::Fault(_)) => member.failed += 1,
            Err(_) => {
                member.failed += 1;
                member.again.push((number, intent));
            }
        }
        Ok(())
    }

    /// Handles the fault of an engine: its owner is dead, and the others detect it.
    fn die(&mut self, owner: usize, fault: Fault) -> Result<(), Wrong> {
        let member = &mut self.members[owner];
        member.fault = Some(fault);
        self.cluster.kill(Owner(u32::try_from(owner).unwrap()));
        match member.running {
            0 => Ok(()),
            running => Err(format!("owner {owner}: {fault} before {running} ends were reported")),
        }
    }

    /// Checks a result against the memory at the moment of its report.
    fn check_memory(&self, number: u64, end: End) -> Result<(), Wrong> {
        let Some((is_there, has_room)) =
            K::find_in_chunks(&self.tables, &self.plan.setups[0].config, number)
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
    fn check_end(&mut self) -> Result<(), Wrong> {
        self.cluster.apply_outstanding();
        (0..self.tables.len()).try_for_each(|owner| self.check_stats(owner))?;
        K::content(&mut self.tables, self.account.keys())?
            .map_or(Ok(()), |content| self.account.check(&content))
    }

    fn check_stats(&self, owner: usize) -> Result<(), Wrong> {
        let stats = *self.tables[owner].stats();
        let (member, setup) = (&self.members[owner], &self.plan.setups[owner]);
        let words_whole = self.tables[owner].transport().caps().word_reads_whole;
        let ended = [member.found, member.inserted, member.full, member.absent, member.failed];
        let right = (stats.total().confirms == 0 || !words_whole)
            && K::is_right(&stats, ended, setup, self.plan.sim.direct_access);
        if right { Ok(()) } else { Err(format!("owner {owner}: {stats:?}, {setup:?}, {member:?}")) }
    }

    /// Returns the cost of operations, summed over all owners and outcomes.
    pub(crate) fn costs(&self) -> OutcomeStats {
        let all = self.tables.iter().map(|table| table.stats().total());
        all.fold(OutcomeStats::default(), |sum, part| sum.plus(&part))
    }

    /// Returns the number of completed operations, including failed ones.
    pub(crate) fn ended(&self) -> u64 {
        let sum = |m: &Member| m.found + m.inserted + m.full + m.absent + m.failed;
        self.members.iter().map(sum).sum()
    }

    /// Returns the faults, by owner.
    pub(crate) fn faults(&self) -> Vec<Option<Fault>> {
        self.members.iter().map(|member| member.fault).collect()
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
    tables: &[CachedTable<T>],
    config: &Config,
    number: u64,
) -> (bool, bool) {
    let layout = *tables[0].layout();
    let limit = u64::from(config.chunk_buckets) * u64::from(config.max_chunks);
    let word = Bucket::new(key(number)).unwrap().word();
    let order = probe_order(&layout, key(number));
    for at in order.take(usize::try_from(limit).unwrap()) {
        let at = at as u64;
        let owner = usize::try_from(at / layout.buckets_per_owner()).unwrap();
        let index = layout.first_word() + at % layout.buckets_per_owner();
        let bucket = &tables[owner].transport().window()[usize::try_from(index).unwrap()];
        match bucket.load(core::sync::atomic::Ordering::Acquire) {
            0 => return (false, true),
            found if found == word => return (true, false),
            _ => {}
        }
    }
    (false, false)
}
