//! The tables of several simulated owners, driven in one thread in an order that a seed gives.

use sim::{Cluster, Engine, Rng};
use table::{
    Bucket, Config, Finished, Intent, Operation, OperationError, Outcome, SubmitError, Table,
};
use transport::{Exchange, ExchangeError, Fault, Owner, Transport};

use super::account::{Account, End};
use super::{Wrong, content, home, key, own_words, storage};

/// What is driven, and with what.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) sim: sim::Config,
    pub(crate) table: Config,
    /// Operations in flight for each owner.
    pub(crate) operations: u32,
    /// Different data.
    pub(crate) keys: u64,
    /// Every how many of [`key`] are used: with 4 all have words full of zero bytes.
    pub(crate) key_step: u64,
    /// Operations in all; those that end in error are repeated and not counted again.
    pub(crate) submits: u64,
    /// How many of a million only find.
    pub(crate) finds_ppm: u32,
    /// How many of a million are blocking calls.
    pub(crate) blocking_ppm: u32,
    /// The most ends that a poll has room for.
    pub(crate) poll_room: u32,
    /// An owner that is killed after so many steps.
    pub(crate) kill: Option<(u64, Owner)>,
}

pub(crate) struct Drive<T> {
    plan: Plan,
    pub(crate) cluster: Cluster,
    pub(crate) tables: Vec<Table<T, Vec<Operation>>>,
    account: Account,
    rng: Rng,
    left: u64,
    next_tag: u64,
    members: Vec<Member>,
}

/// What the test knows of one owner.
#[derive(Clone, Default)]
struct Member {
    /// Submitted and not ended.
    running: u32,
    /// To be repeated.
    again: Vec<(u64, Intent)>,
    fault: Option<Fault>,
    /// Ends by outcome, and in error.
    found: u64,
    inserted: u64,
    full: u64,
    absent: u64,
    failed: u64,
}

/// Steps for each operation before a run counts as stuck: ten times what the worst of 1,500 seeds
/// took, where a third of the one-sided operations ended in error.
const PATIENCE: u64 = 20_000;
/// The stream of the seed that the driver draws from, none of the simulator's.
const STREAM: u64 = 100;

impl<T: Transport> Drive<T> {
    pub(crate) fn new(plan: Plan, wrap: impl Fn(Engine) -> T) -> Self {
        let cluster = Cluster::new(plan.sim).unwrap();
        let owners = (0..plan.sim.owners).map(Owner);
        let open = |owner| {
            let engine = wrap(cluster.engine(owner).unwrap());
            Table::new(engine, plan.table, storage(plan.operations)).unwrap()
        };
        Self {
            tables: owners.map(open).collect(),
            account: Account::default(),
            rng: Rng::new(plan.sim.seed, STREAM),
            left: plan.submits,
            next_tag: 0,
            members: vec![Member::default(); plan.sim.owners as usize],
            cluster,
            plan,
        }
    }

    /// Lets all owners check, one after the other, that all have the same table.
    pub(crate) fn agree(&mut self) {
        let owners = self.plan.sim.owners;
        for (me, table) in (0..).map(Owner).zip(&mut self.tables) {
            table.agree(&mut Together { me, owners }).unwrap();
        }
    }

    /// Drives until everything has ended, and compares what was said with what is there.
    pub(crate) fn run(&mut self) -> Result<(), Wrong> {
        let most = (self.plan.submits + 100) * PATIENCE;
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
        // The one whose turn it is in virtual time, so that operations overlap, or anyone.
        let anyone = self.rng.below(self.members.len() as u64);
        let next = self.cluster.next_delivery().filter(|_| self.rng.chance(600_000));
        let owner = next.map_or(anyone, |(owner, _)| owner.0.into());
        let owner = usize::try_from(owner).unwrap();
        if self.members[owner].fault.is_some() {
            return Ok(());
        }
        if self.rng.chance(500_000)
            && let Some((data, intent)) = self.work(owner)
        {
            if self.rng.chance(self.plan.blocking_ppm) {
                self.block(owner, data, intent)
            } else {
                self.submit(owner, data, intent)
            }
        } else {
            self.poll(owner)
        }
    }

    /// What is to be done next by this owner.
    fn work(&mut self, owner: usize) -> Option<(u64, Intent)> {
        if let Some(again) = self.members[owner].again.pop() {
            return Some(again);
        }
        self.left = self.left.checked_sub(1)?;
        let find = self.rng.chance(self.plan.finds_ppm);
        let intent = if find { Intent::Find } else { Intent::FindOrPut };
        // Half of them race for the same few data, new to the table for a moment.
        let keys = self.plan.keys;
        let fresh = (self.plan.submits - self.left) * keys / self.plan.submits;
        let number = match self.rng.chance(500_000) {
            true => fresh.saturating_sub(self.rng.below(4)),
            false => self.rng.below(keys),
        };
        Some((key(number * self.plan.key_step), intent))
    }

    /// A tag that says whose it is.
    fn tag(&mut self, owner: usize) -> u64 {
        self.next_tag += 1;
        self.next_tag * self.members.len() as u64 + owner as u64
    }

    fn submit(&mut self, owner: usize, data: u64, intent: Intent) -> Result<(), Wrong> {
        let tag = self.tag(owner);
        self.account.begin(tag, data, intent);
        match self.tables[owner].submit(tag, data, intent) {
            Ok(()) => self.members[owner].running += 1,
            Err(SubmitError::Busy) => {
                self.account.refused(tag);
                self.members[owner].again.push((data, intent));
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    fn block(&mut self, owner: usize, data: u64, intent: Intent) -> Result<(), Wrong> {
        let tag = self.tag(owner);
        self.account.begin(tag, data, intent);
        let end = block(&mut self.tables[owner], data, intent);
        if end == Err(OperationError::Refused(SubmitError::Busy)) {
            self.account.refused(tag);
            self.members[owner].again.push((data, intent));
            if self.members[owner].running == self.plan.operations {
                return Ok(());
            }
            return Err(format!("owner {owner} is busy with {}", self.members[owner].running));
        }
        self.members[owner].running += 1;
        self.end(owner, tag, end)
    }

    fn poll(&mut self, owner: usize) -> Result<(), Wrong> {
        let room = usize::try_from(self.rng.up_to(self.plan.poll_room.into())).unwrap();
        let mut out = vec![Finished::default(); room];
        match self.tables[owner].poll(&mut out) {
            Ok(count) => {
                for end in &out[..count] {
                    self.end(owner, end.tag, end.result)?;
                }
                Ok(())
            }
            Err(fault) => self.die(owner, fault),
        }
    }

    fn end(&mut self, owner: usize, tag: u64, end: End) -> Result<(), Wrong> {
        if tag % self.members.len() as u64 != owner as u64 {
            return Err(format!("owner {owner} was told of tag {tag}, which is another's"));
        }
        let (data, intent) = self.account.end(tag, end)?;
        self.check_memory(data, end)?;
        let member = &mut self.members[owner];
        member.running -= 1;
        match end {
            Ok(Outcome::Found) => member.found += 1,
            Ok(Outcome::Inserted) => member.inserted += 1,
            Ok(Outcome::Full) => member.full += 1,
            Ok(Outcome::Absent) => member.absent += 1,
            Err(OperationError::Fault(_)) => member.failed += 1,
            Err(_) => {
                member.failed += 1;
                member.again.push((data, intent));
            }
        }
        Ok(())
    }

    /// This owner's engine is dead; then so is the owner, and the others learn of it.
    fn die(&mut self, owner: usize, fault: Fault) -> Result<(), Wrong> {
        let member = &mut self.members[owner];
        member.fault = Some(fault);
        self.cluster.kill(Owner(u32::try_from(owner).unwrap()));
        match member.running {
            0 => Ok(()),
            running => Err(format!("owner {owner}: {fault} before {running} ends were reported")),
        }
    }

    /// Whether memory bears out what an operation says, at the moment when it does.
    fn check_memory(&self, data: u64, end: End) -> Result<(), Wrong> {
        let (is_there, has_room) = self.look(data);
        let right = match end {
            Ok(Outcome::Found | Outcome::Inserted) => is_there,
            Ok(Outcome::Full) => !is_there && !has_room,
            Ok(Outcome::Absent) | Err(_) => true,
        };
        if right { Ok(()) } else { Err(format!("{data} ended {end:?}; there: {is_there}")) }
    }

    /// Whether the chunks of `data` hold it, and whether they have room for it in front.
    pub(crate) fn look(&self, data: u64) -> (bool, bool) {
        let layout = *self.tables[0].layout();
        let chunk = u64::from(self.plan.table.chunk_buckets);
        let reach = (chunk * u64::from(self.plan.table.max_chunks)).min(layout.buckets());
        let word = Bucket::new(data).unwrap().word();
        let home = home(&layout, data) as u64;
        for at in home..home + reach {
            let at = at % layout.buckets();
            let owner = usize::try_from(at / layout.buckets_per_owner()).unwrap();
            let index = layout.first_word() + at % layout.buckets_per_owner();
            let bucket = &self.tables[owner].engine().window()[usize::try_from(index).unwrap()];
            match bucket.load(core::sync::atomic::Ordering::Acquire) {
                0 => return (false, true),
                found if found == word => return (true, false),
                _ => {}
            }
        }
        (false, false)
    }

    fn check_end(&self) -> Result<(), Wrong> {
        self.cluster.settle();
        let ring: Vec<u64> = self.tables.iter().flat_map(own_words).collect();
        let content = content(self.tables[0].layout(), &ring)?;
        if content.len() != self.tables.iter().map(|table| table.local().count()).sum::<usize>()
            || !self.tables.iter().flat_map(Table::local).all(|data| content.contains(&data))
        {
            return Err("`local` differs from the words".into());
        }
        self.account.check(&content)?;
        (0..self.tables.len()).try_for_each(|owner| self.check_stats(owner))
    }

    fn check_stats(&self, owner: usize) -> Result<(), Wrong> {
        let stats = *self.tables[owner].stats();
        let member = &self.members[owner];
        let most = u64::from(self.plan.table.max_chunks);
        let total = stats.total();
        let words_whole = self.tables[owner].engine().caps().word_reads_whole;
        let parts = [stats.found, stats.inserted, stats.full, stats.absent];
        let right = parts.map(|part| part.operations)
            == [member.found, member.inserted, member.full, member.absent]
            && stats.failed == member.failed
            && parts.iter().all(|part| {
                part.operations <= part.effective_roundtrips
                    && part.effective_roundtrips <= part.outgoing_roundtrips
                    && part.outgoing_roundtrips <= part.operations * most
            })
            && stats.inserted.claims == stats.inserted.claims_lost + member.inserted
            && stats.found.claims == stats.found.claims_lost
            && stats.full.claims == stats.full.claims_lost
            && stats.absent.claims == 0
            && (total.confirms == 0 || !words_whole);
        if right { Ok(()) } else { Err(format!("owner {owner}: {stats:?}")) }
    }

    /// Words that took an atomic to tell, over all owners.
    pub(crate) fn confirms(&self) -> u64 {
        self.tables.iter().map(|table| table.stats().total().confirms).sum()
    }

    /// Operations that have ended, those in error included.
    pub(crate) fn ended(&self) -> u64 {
        let sum = |m: &Member| m.found + m.inserted + m.full + m.absent + m.failed;
        self.members.iter().map(sum).sum()
    }

    /// The faults, by owner.
    pub(crate) fn faults(&self) -> Vec<Option<Fault>> {
        self.members.iter().map(|member| member.fault).collect()
    }
}

/// A blocking call.
pub(crate) fn block<T: Transport>(
    table: &mut Table<T, Vec<Operation>>,
    data: u64,
    intent: Intent,
) -> End {
    let outcome = |found| if found { Outcome::Found } else { Outcome::Absent };
    match intent {
        Intent::FindOrPut => table.find_or_put(data),
        Intent::Find => table.find(data).map(outcome),
    }
}

/// An exchange that waits for nobody, for calls that one thread makes in turn for all.
struct Together {
    me: Owner,
    owners: u32,
}

impl Exchange for Together {
    fn me(&self) -> Owner {
        self.me
    }

    fn owners(&self) -> u32 {
        self.owners
    }

    fn all_gather(&mut self, _: &[u8], _: &mut [u8]) -> Result<(), ExchangeError> {
        unreachable!("only barriers are called")
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        Ok(())
    }
}
