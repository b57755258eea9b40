//! One client of the model: its search and its cache, and how it drives them, as the pipeline does.

use super::{
    Checker, Content, EMPTY, KEYS, MOST_BUCKETS, Mutant, Request, Verdict, World, content_of,
    word_of,
};
use crate::bucket::Bucket;
use crate::cache::{Cache, CacheEntry};
use crate::find_or_put::{Intent, Outcome, Plan, Search, Step};
use crate::layout::Position;
use crate::probe::{Probe, Probing};
use crate::walk::Walk;

const MOST_CHUNK: usize = 8;

/// Of each word of a chunk the bytes that landed, a bit each, as far as they are not 0.
type Landed = [u8; MOST_CHUNK];

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Atomic {
    None,
    Posted { at: u8, claim: bool },
    Done { old: Content, claim: bool },
}

/// The claim along with the first READ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum First {
    None,
    Posted { at: u8 },
    Done { old: Content },
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    /// Requests ended so far.
    pub(super) done: u8,
    pub(super) search: Option<Search>,
    /// Where its first chunk starts.
    start: u8,
    /// The buckets, a bit each, that were occupied at the post of the READ in each landing slot.
    pub(super) reading: [Option<u8>; 2],
    /// What landed in each slot.
    landed: [Option<Landed>; 2],
    pub(super) atomic: Atomic,
    pub(super) first: First,
    /// Kept from one request to the next.
    pub(super) cache: Cache<Vec<CacheEntry>>,
    /// Whether the key was in the table when the request began.
    pub(super) present: bool,
}

impl Client {
    pub(super) fn new(cache_entries: usize) -> Self {
        Self {
            done: 0,
            search: None,
            start: 0,
            reading: [None; 2],
            landed: [None; 2],
            atomic: Atomic::None,
            first: First::None,
            cache: Cache::new(vec![CacheEntry::EMPTY; cache_entries]),
            present: false,
        }
    }

    fn search(&mut self) -> Result<&mut Search, String> {
        self.search.as_mut().ok_or_else(|| "no search".into())
    }

    /// The chunk that lands in `slot`: the one waited for, or the one after it.
    fn chunk_in(&self, slot: usize) -> u32 {
        let chunk = self.search.as_ref().map_or(0, Search::chunk);
        if chunk as usize % 2 == slot { chunk } else { chunk + 1 }
    }
}

impl Checker<'_> {
    pub(super) fn begin(&self, world: &mut World, who: usize) -> Verdict {
        let Request { intent, key } = self.request(&world.clients[who], who);
        let present = world.memory.contains(&content_of(key));
        let bucket = Bucket::from_word(KEYS[key]).ok_or("keys are occupied buckets")?;
        let mut walk = self.walk(bucket, intent, key);
        let claim_first = self.scenario.claim_first[who];
        let client = &mut world.clients[who];
        client.present = present;
        if client.cache.is_on() && client.cache.follow(&mut walk, &self.layout) {
            self.check_outcome(world, who, Outcome::Found)?;
            self.finish(world, who, 1);
            return Ok(());
        }
        client.start = walk.probe.at.index as u8;
        let believes = self.scenario.mutant == Mutant::BelievesRead;
        let search = Search::new(
            bucket,
            intent,
            Plan {
                chunk_buckets: self.scenario.chunk as u32,
                reach: walk.reach,
                rotation: walk.probe.rotation,
                skip: walk.passed,
                ahead_from: self.scenario.ahead_from,
                claim_first: claim_first && !believes,
            },
        );
        let offset = match (believes, intent) {
            (true, Intent::FindOrPut) => claim_first.then(|| search.offset(walk.passed)),
            _ => search.first_claim(),
        };
        client.search = Some(search);
        if let Some(offset) = offset {
            let at = self.bucket_at(&world.clients[who], 0, offset);
            world.clients[who].first = First::Posted { at };
        }
        self.advance(world, who)
    }

    fn walk(&self, bucket: Bucket, intent: Intent, key: usize) -> Walk {
        let home = self.scenario.homes[key];
        let mut probe = Probe::NOWHERE;
        if self.scenario.probing == Probing::Linear {
            probe.at = Position { owner: 0, index: home as u64 };
        } else {
            probe.at = Position { owner: 0, index: home as u64 / 8 * 8 };
            probe.rotation = home as u32 % 8;
        }
        let reach = self.scenario.chunk as u64 * u64::from(self.scenario.max_chunks);
        Walk { bucket, intent, probe, passed: 0, reach, lines: 0 }
    }

    fn position(&self, client: &Client, chunk: u32, offset: u32) -> Position {
        let passed = chunk as usize * self.scenario.chunk + offset as usize;
        let index = (usize::from(client.start) + passed) % self.scenario.buckets;
        Position { owner: 0, index: index as u64 }
    }

    fn bucket_at(&self, client: &Client, chunk: u32, offset: u32) -> u8 {
        self.position(client, chunk, offset).index as u8
    }

    /// Everything that the READ in `slot` may bring now, of buckets of which these were `occupied`.
    pub(super) fn deliveries(
        &self,
        world: &World,
        who: usize,
        slot: usize,
        occupied: u8,
        next: &mut Vec<World>,
    ) -> Verdict {
        let client = &world.clients[who];
        let chunk = client.chunk_in(slot);
        let words = client.search.as_ref().map_or(0, |search| search.words(chunk));
        let mut brought = vec![[0; MOST_CHUNK]];
        for offset in 0..words {
            let at = self.bucket_at(client, chunk, offset);
            let now = world.memory[usize::from(at)];
            let mut more = Vec::new();
            for value in self.values(occupied >> at & 1 == 1, now) {
                for landed in &brought {
                    let mut landed = *landed;
                    landed[offset as usize] = value;
                    more.push(landed);
                }
            }
            brought = more;
        }
        for landed in brought {
            let mut after = world.clone();
            after.clients[who].reading[slot] = None;
            after.clients[who].landed[slot] = Some(landed);
            if after.clients[who].atomic == Atomic::None {
                self.advance(&mut after, who)?;
            }
            next.push(after);
        }
        Ok(())
    }

    /// The bytes that may land of a bucket.
    fn values(&self, was_occupied: bool, now: Content) -> Vec<u8> {
        let bytes = word_of(now).to_le_bytes();
        let all = (0..8).filter(|&byte| bytes[byte] != 0).map(|byte| 1 << byte).sum::<u8>();
        if was_occupied || now == EMPTY {
            return vec![all];
        }
        if !self.scenario.words_tear {
            return vec![0, all];
        }
        // Every subset of the bytes of `now` that are not 0. Those without the top one are all
        // empty to a search, so one stands for them.
        let mut values = vec![1 << 7];
        for byte in (0..7).map(|byte| 1 << byte).filter(|byte| all & byte != 0) {
            values.extend(values.clone().iter().map(|value| value | byte));
        }
        values.push(0);
        values
    }

    /// The words in a landing slot.
    fn words(&self, world: &World, who: usize, chunk: u32, landed: Landed) -> Vec<u64> {
        let client = &world.clients[who];
        let words = client.search.as_ref().map_or(0, |search| search.words(chunk));
        let word = |offset: u32| {
            let at = self.bucket_at(client, chunk, offset);
            let kept = landed[offset as usize];
            let bytes = word_of(world.memory[usize::from(at)]).to_le_bytes();
            u64::from_le_bytes(core::array::from_fn(|i| bytes[i] * (kept >> i & 1)))
        };
        (0..words).map(word).collect()
    }

    /// Posts what is due and scans the chunk that is waited for.
    pub(super) fn advance(&self, world: &mut World, who: usize) -> Verdict {
        // The pipeline waits for the answer of a claim or a confirmation.
        if world.clients[who].atomic != Atomic::None {
            return Ok(());
        }
        loop {
            let Some(search) = &world.clients[who].search else { return Ok(()) };
            if let Some(chunk) = search.request() {
                let occupied = |at: &usize| world.memory[*at] != EMPTY;
                let occupied = (0..MOST_BUCKETS).filter(occupied).map(|at| 1 << at).sum();
                let client = &mut world.clients[who];
                client.reading[chunk as usize % 2] = Some(occupied);
                client.landed[chunk as usize % 2] = None;
                client.search()?.requested();
                continue;
            }
            let chunk = search.chunk();
            let Some(landed) = world.clients[who].landed[chunk as usize % 2] else { return Ok(()) };
            let words = self.words(world, who, chunk, landed);
            let mutant = self.scenario.mutant;
            let whole = !self.scenario.words_tear || mutant == Mutant::TrustsTornWords;
            let search = world.clients[who].search()?;
            let cursor = search.cursor();
            let step = search.scan(&words, whole);
            let learns_all = whole || mutant == Mutant::LearnsTornWords;
            let shown = search.shown(chunk, cursor, step, learns_all);
            let offsets: Vec<u32> = shown.map(|nth| search.offset(nth)).collect();
            for offset in offsets {
                self.learn(world, who, chunk, offset, words[offset as usize]);
            }
            match step {
                Step::Await => {}
                Step::AwaitClaim => return Ok(()),
                step => return self.take(world, who, step),
            }
        }
    }

    fn learn(&self, world: &mut World, who: usize, chunk: u32, offset: u32, word: u64) {
        let at = self.position(&world.clients[who], chunk, offset);
        if let Some(bucket) = Bucket::from_word(word) {
            world.clients[who].cache.learn(at, bucket, &self.layout);
        }
    }

    /// A claim or a confirmation found `old`.
    pub(super) fn answer(
        &self,
        world: &mut World,
        who: usize,
        old: Content,
        is_claim: bool,
    ) -> Verdict {
        world.clients[who].atomic = Atomic::None;
        let search = world.clients[who].search()?;
        let (chunk, offset) = (search.chunk(), search.offset(search.cursor()));
        let word = word_of(old);
        let step = if is_claim { search.on_claim(word) } else { search.on_confirm(word) };
        self.answered(world, who, (chunk, offset), word, step)
    }

    /// The claim along with the first READ found `old`.
    pub(super) fn answer_first(&self, world: &mut World, who: usize, old: Content) -> Verdict {
        if self.scenario.mutant == Mutant::BelievesRead {
            return self.advance(world, who);
        }
        let search = world.clients[who].search()?;
        let (chunk, offset) = (search.chunk(), search.offset(search.cursor()));
        let word = word_of(old);
        match search.on_first_claim(word) {
            Some(step) => self.answered(world, who, (chunk, offset), word, step),
            None => self.advance(world, who),
        }
    }

    /// What an atomic found goes to the cache, its own data included.
    fn answered(
        &self,
        world: &mut World,
        who: usize,
        (chunk, offset): (u32, u32),
        word: u64,
        step: Step,
    ) -> Verdict {
        let own = KEYS[self.request(&world.clients[who], who).key];
        let inserted = step == Step::Done(Outcome::Inserted);
        self.learn(world, who, chunk, offset, if inserted { own } else { word });
        self.take(world, who, step)
    }

    fn take(&self, world: &mut World, who: usize, step: Step) -> Verdict {
        let client = &world.clients[who];
        let chunk = client.search.as_ref().map_or(0, Search::chunk);
        match step {
            Step::Await | Step::AwaitClaim | Step::Rescan => return self.advance(world, who),
            Step::Claim { offset } => {
                let at = self.bucket_at(client, chunk, offset);
                world.clients[who].atomic = Atomic::Posted { at, claim: true };
            }
            Step::Confirm { offset } => {
                let at = self.bucket_at(client, chunk, offset);
                world.clients[who].atomic = Atomic::Posted { at, claim: false };
            }
            Step::Done(outcome) => {
                self.check_outcome(world, who, outcome)?;
                self.finish(world, who, 1);
            }
        }
        Ok(())
    }

    /// The request ends; READs that nobody needs are left to land nowhere, and a claim to take
    /// effect whenever it does.
    fn finish(&self, world: &mut World, who: usize, done: u8) {
        let content = content_of(self.request(&world.clients[who], who).key);
        if let First::Posted { at } = world.clients[who].first {
            world.come_late(at, content);
        }
        let client = &mut world.clients[who];
        client.done += done;
        client.search = None;
        client.start = 0;
        client.reading = [None; 2];
        client.landed = [None; 2];
        client.atomic = Atomic::None;
        client.first = First::None;
        client.present = false;
    }

    /// A claim is reported failed; the client tries the same request again.
    pub(super) fn fail(&self, world: &mut World, who: usize) -> Verdict {
        world.failures -= 1;
        self.finish(world, who, 0);
        self.begin(world, who)
    }
}
