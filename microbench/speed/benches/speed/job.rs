//! A job of one rank or of two: threads of this process with an engine and a table each.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, fence};
use core::time::Duration;

use probeline_exchange::Thread;
use probeline_limits::memory::{Memory, measure_parts};
use probeline_pin::{Affinity, HugePages, MemoryPolicy, Pages, Placement};
use probeline_table::{Bucket, Config, Operation, OperationError, Outcome, Probing, Table};
use probeline_transport::{Owner, RemoteWord, Segment, Transport};

use super::Result;
use super::crew::{Crew, Gate};
use super::keys;
use super::timed::STEP;

/// The buckets that an operation looks at before it answers full. In a linear probe at a load
/// factor of 0.92 the longest run of occupied buckets is some thousands long.
const REACH: u32 = 1 << 15;

/// What all jobs have alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Buckets of all ranks together, a multiple of 16.
    pub(crate) buckets: u64,
}

/// Storage of each rank: next to nothing needs any, as the CPU reaches all words.
const OPERATIONS: u32 = 2;

/// One rank, in its thread.
pub(crate) struct Rank {
    table: Table<probeline_shm::Engine, Vec<Operation>>,
    outcomes: Vec<core::result::Result<Outcome, OperationError>>,
    room: Vec<u64>,
    /// For as long as the engine lives, for a member that is dropped ends the job.
    _exchange: Thread,
}

/// Ranks of a job, and the pages of their windows.
pub(crate) struct Job {
    pub(crate) crew: Crew<Rank>,
    pub(crate) pages: Vec<Pages>,
}

/// The table's parameters: the fast defaults, one line a step where lines are jumped to.
fn config(probing: Probing, buckets_per_owner: u64) -> Config {
    let defaults = Config::new(buckets_per_owner);
    let chunk_buckets = if probing == Probing::Jump { 8 } else { defaults.chunk_buckets };
    let chunk_buckets = u64::from(chunk_buckets).min(buckets_per_owner);
    // At most what it was.
    let chunk_buckets = u32::try_from(chunk_buckets).unwrap_or(8);
    Config { probing, chunk_buckets, max_chunks: REACH / chunk_buckets, ..defaults }
}

impl Job {
    /// Opens a table without keys whose ranks run at `places`, with huge pages where there are
    /// any.
    pub(crate) fn open(
        shape: Shape,
        probing: Probing,
        affinity: &Affinity,
        places: &[Placement],
    ) -> Result<Self> {
        let ranks = u32::try_from(places.len())?;
        let config = config(probing, shape.buckets / u64::from(ranks));
        let exchanges = probeline_exchange::threads(ranks);
        let seats = places
            .iter()
            .zip(exchanges)
            .map(|(place, exchange)| (place.cpu, (place.memory, exchange)));
        let crew = Crew::start(affinity, seats.collect(), move |(node, exchange)| {
            let memory = MemoryPolicy { node, huge: HugePages::Try };
            Rank::open(config, memory, exchange)
        })?;
        let pages = crew.ask(places.len(), |_, rank| rank.table.engine().pages())?;
        Ok(Self { crew, pages })
    }

    /// The machine's limits on the windows of this job, by all ranks at once: what each measures.
    pub(crate) fn limits(&self, time: Duration) -> Result<Vec<Memory>> {
        let ranks = self.crew.len();
        let gate = Gate::new(ranks);
        let measured = self.crew.ask(ranks, move |_, rank| {
            gate.pass()?;
            Ok(measure_parts(&rank.windows()?, time)?)
        })?;
        measured.into_iter().collect()
    }

    /// Takes all keys but the first `count` out of the table again.
    pub(crate) fn keep(&self, count: u64) -> Result<()> {
        self.crew.ask(self.crew.len(), move |_, rank| rank.keep(count))?;
        Ok(())
    }
}

impl Rank {
    fn open(config: Config, memory: MemoryPolicy, mut exchange: Thread) -> Result<Self> {
        let engine = probeline_shm::Builder::new(config.words())
            .slots(Config::slots(OPERATIONS), config.chunk_buckets)
            .depth(2 * OPERATIONS)
            .memory(memory)
            .open(&mut exchange)?;
        let operations = vec![Operation::EMPTY; OPERATIONS as usize];
        let table = Table::open(engine, config, operations, &mut exchange)?;
        let outcomes = vec![Ok(Outcome::Absent); STEP];
        Ok(Self { table, outcomes, room: Vec::new(), _exchange: exchange })
    }

    /// Where the keys of a measurement are.
    pub(crate) fn room(&mut self) -> &mut Vec<u64> {
        &mut self.room
    }

    /// The buckets of all owners as this rank reaches them.
    fn windows(&self) -> Result<Vec<&[AtomicU64]>> {
        let engine = self.table.engine();
        let geometry = engine.geometry();
        // A segment has 2^32 words at most, 32 GiB, which is enough to measure.
        let words = u32::try_from(geometry.window_words).unwrap_or(u32::MAX);
        let window = |owner| {
            let start = RemoteWord { owner: Owner(owner), index: 0 };
            engine.direct(Segment { start, words }).ok_or("a window is out of the CPU's reach")
        };
        Ok((0..geometry.owners).map(window).collect::<core::result::Result<_, _>>()?)
    }

    /// Empties the buckets of this rank's part whose keys are not among the first `count`.
    ///
    /// The buckets of keys put last were empty before: emptying them all brings back the table as
    /// it was, if nobody looks at it meanwhile.
    fn keep(&mut self, count: u64) {
        let layout = *self.table.layout();
        let words = self.table.engine().window();
        let first = usize::try_from(layout.first_word()).unwrap_or(usize::MAX);
        let part = usize::try_from(layout.buckets_per_owner()).unwrap_or(usize::MAX);
        for word in words.iter().skip(first).take(part) {
            let bucket = Bucket::from_word(word.load(Relaxed));
            if bucket.is_some_and(|bucket| keys::number(bucket.data()) >= count) {
                word.store(0, Relaxed);
            }
        }
        fence(SeqCst);
    }

    /// Finds one key after the other; how many were there.
    pub(crate) fn find(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.table.find(**key) == Ok(true)).count()
    }

    /// Finds or puts one key after the other; how many were there.
    pub(crate) fn hit(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.table.find_or_put(**key) == Ok(Outcome::Found)).count()
    }

    /// Finds or puts one key after the other; how many were not there.
    pub(crate) fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.table.find_or_put(**key) == Ok(Outcome::Inserted)).count()
    }

    /// Finds all keys in one batch; how many were there.
    pub(crate) fn find_batch(&mut self, keys: &[u64]) -> usize {
        let Some(outcomes) = self.outcomes.get_mut(..keys.len()) else { return 0 };
        let done = self.table.find_batch(keys, outcomes);
        ended(done.is_ok(), outcomes, Outcome::Found)
    }

    /// Finds or puts all keys in one batch; how many were not there.
    pub(crate) fn insert_batch(&mut self, keys: &[u64]) -> usize {
        let Some(outcomes) = self.outcomes.get_mut(..keys.len()) else { return 0 };
        let done = self.table.find_or_put_batch(keys, outcomes);
        ended(done.is_ok(), outcomes, Outcome::Inserted)
    }
}

/// How many operations of a batch that was done ended with `outcome`.
fn ended(
    done: bool,
    outcomes: &[core::result::Result<Outcome, OperationError>],
    outcome: Outcome,
) -> usize {
    if !done {
        return 0;
    }
    outcomes.iter().filter(|ended| **ended == Ok(outcome)).count()
}
