//! Random programs that edit ranges of elements of any size, against the elements as they must be.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use core::fmt::Debug;
use core::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use bytemuck::Pod;
use probeline_dsm::{CollectiveError, Config, Distribution, Operation, OperationError, Region};
use probeline_exchange::testing::{AnyEngine, PATIENCE, Replay, Watched, on_ranks, seeds};
use probeline_shm::Builder;
use probeline_sim::stage;
use probeline_sim::{Cluster, DirectAccess, Rng};
use probeline_transport::{AtomicScope, Exchange, Owner};

const LOCKS: usize = 3;
/// A lock that one rank at a time holds across a barrier.
const HELD: usize = LOCKS;
const PHASES: u64 = 4;

/// Returns whether an access may be refused: small mirrors lack room, and drawn ranges may overlap.
fn is_refused(config: &Config, error: &OperationError, ranges: usize) -> bool {
    matches!(error, OperationError::Pages { .. } | OperationError::Overlap)
        && (config.mirror_pages != u32::MAX || config.edited_pages != u32::MAX || ranges > 1)
}

/// Ranks that may access an element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    /// The rank with this lock.
    Lock(usize),
    /// This rank alone.
    Rank(u32),
    /// All ranks, to view it.
    Frozen,
}

/// A rank's random program, and the elements as they must be.
struct Program<'e, T, R, J> {
    region: R,
    job: J,
    rng: Rng,
    /// The same on all ranks.
    plan: Rng,
    config: Config,
    ranks: u32,
    classes: Vec<Class>,
    held: Vec<usize>,
    expected: &'e Mutex<Vec<T>>,
}

impl<'e, T: Pod + PartialEq + Debug, R: Shared<T>, J: Exchange> Program<'e, T, R, J> {
    /// Opens the region. The program depends on the seed and the rank.
    fn new(
        engine: AnyEngine<'static>,
        mut job: J,
        (seed, operations): (u64, u32),
        config: Config,
        expected: &'e Mutex<Vec<T>>,
    ) -> Self {
        let ranks = job.owners();
        let region = R::open(engine, config, operations, &mut job).unwrap();
        let (rng, plan) = (Rng::new(seed, u64::from(job.me().0)), Rng::new(seed, 7_000));
        let (classes, held) = (Vec::new(), Vec::new());
        Self { region, job, rng, plan, config, ranks, classes, held, expected }
    }

    fn len(&self) -> usize {
        self.config.elements as usize
    }

    fn draw_classes(&mut self) {
        let len = self.len();
        self.classes.clear();
        let max = [2, 6, 30][self.plan.below(3) as usize];
        while self.classes.len() < len {
            let class = match self.plan.below(3) {
                0 => Class::Lock(self.plan.below(LOCKS as u64 + 1) as usize),
                1 => Class::Rank(self.plan.below(self.ranks.into()) as u32),
                _ => [Class::Frozen, Class::Lock(0)][self.plan.below(2) as usize],
            };
            let mut count = 1 + self.plan.below(max) as usize;
            if !self.config.shares_words && !size_of::<T>().is_multiple_of(8) {
                let per = 8 / size_of::<T>();
                count = count.next_multiple_of(per);
            }
            self.classes.extend(core::iter::repeat_n(class, count));
        }
        self.classes.truncate(len);
    }

    fn acquire(&mut self, lock: usize) -> Result<(), OperationError> {
        let start = Instant::now();
        loop {
            match self.region.acquire(lock as u32) {
                Err(OperationError::LockWait { .. }) if start.elapsed() < PATIENCE => {}
                result => break result?,
            }
        }
        self.held.push(lock);
        Ok(())
    }

    fn run(&mut self) -> Result<(), CollectiveError> {
        for phase in 0..PHASES {
            self.draw_classes();
            for _ in 0..1 + self.rng.below(5) {
                self.section()?;
            }
            let is_holder = phase % u64::from(self.ranks) == u64::from(self.job.me().0);
            if is_holder {
                self.acquire(HELD)?;
                self.act()?;
            }
            if self.rng.below(2) == 0 {
                self.region.flush()?;
            }
            if self.rng.below(2) == 0 {
                self.act()?;
            }
            self.region.barrier(&mut self.job)?;
            if !is_holder {
                self.acquire(HELD)?;
            }
            for _ in 0..self.rng.below(4) {
                self.act()?;
            }
            self.held.clear();
            self.region.release(HELD as u32)?;
            for _ in 0..self.rng.below(3) {
                self.section()?;
            }
            self.region.barrier(&mut self.job)?;
            for at in 0..self.len() {
                self.view(at..at + 1)?;
            }
            self.region.barrier(&mut self.job)?;
        }
        Ok(())
    }

    fn section(&mut self) -> Result<(), OperationError> {
        for lock in 0..LOCKS {
            if self.rng.below(2) == 0 {
                self.acquire(lock)?;
                if self.rng.below(2) == 0 {
                    self.act()?;
                }
            }
        }
        for _ in 0..self.rng.below(6) {
            self.act()?;
        }
        while !self.held.is_empty() {
            let lock = self.held.remove(self.rng.below(self.held.len() as u64) as usize);
            self.region.release(lock as u32)?;
            if self.rng.below(2) == 0 {
                self.act()?;
            }
        }
        Ok(())
    }

    fn may(&self, at: usize, is_edit: bool) -> bool {
        match self.classes[at] {
            Class::Lock(lock) => self.held.contains(&lock),
            Class::Rank(rank) => rank == self.job.me().0,
            Class::Frozen => !is_edit,
        }
    }

    /// Draws a range that this rank may access, maybe empty.
    fn range(&mut self, is_edit: bool) -> Range<usize> {
        let start = self.rng.below(self.len() as u64) as usize;
        let max = [1, 3, 12, 100][self.rng.below(4) as usize];
        let count = 1 + self.rng.below(max) as usize;
        let mut end = start;
        while end < self.len() && end - start < count && self.may(end, is_edit) {
            end += 1;
        }
        start..end
    }

    fn value(rng: &mut Rng) -> T {
        let mut value = T::zeroed();
        let kind = rng.below(4);
        for byte in bytemuck::bytes_of_mut(&mut value) {
            *byte = match kind {
                0 => 0,
                1 => 255,
                2 => [0, 1, 255, 128][rng.below(4) as usize],
                _ => rng.below(256) as u8,
            };
        }
        value
    }

    fn view(&mut self, range: Range<usize>) -> Result<(), OperationError> {
        let (me, config) = (self.job.me().0, self.config);
        let held = self.held.clone();
        match self.region.view(range.clone()) {
            Ok(found) => {
                let expected = self.expected.lock().unwrap();
                let expected = &expected[range.clone()];
                if found != expected {
                    let bad: Vec<_> = range
                        .clone()
                        .filter(|at| found[at - range.start] != expected[at - range.start])
                        .map(|at| {
                            (
                                at,
                                self.classes[at],
                                found[at - range.start],
                                expected[at - range.start],
                            )
                        })
                        .collect();
                    panic!("rank {me} holds {held:?} sees {bad:?} in {range:?}");
                }
                Ok(())
            }
            Err(error) if is_refused(&config, &error, 1) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn fill(rng: &mut Rng, to: &mut [T], first: usize, expected: &Mutex<Vec<T>>, me: u32) {
        let mut all = expected.lock().unwrap();
        for (at, to) in (first..).zip(to) {
            assert_eq!(*to, all[at], "edit of {at} on {me}");
            if rng.below(3) > 0 {
                *to = Self::value(rng);
                all[at] = *to;
            }
        }
    }

    #[allow(clippy::reversed_empty_ranges)]
    fn act(&mut self) -> Result<(), OperationError> {
        let (me, config) = (self.job.me().0, self.config);
        match self.rng.below(11) {
            0..3 => {
                let range = self.range(false);
                self.view(range)
            }
            3..7 => {
                let range = self.range(true);
                match self.region.edit(range.clone()) {
                    Ok(to) => {
                        assert_eq!(to.len(), range.len());
                        Self::fill(&mut self.rng, to, range.start, self.expected, me);
                        Ok(())
                    }
                    Err(error) if is_refused(&config, &error, 1) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            7 => {
                let views = [self.range(false), self.range(false)];
                let edits = [self.range(true), self.range(true)];
                match self.region.access(views.clone(), edits.clone()) {
                    Ok((seen, to)) => {
                        for (range, seen) in views.iter().zip(seen) {
                            assert_eq!(
                                seen,
                                &self.expected.lock().unwrap()[range.clone()],
                                "{views:?} {edits:?} on {me}"
                            );
                        }
                        for (range, to) in edits.iter().zip(to) {
                            Self::fill(&mut self.rng, to, range.start, self.expected, me);
                        }
                        Ok(())
                    }
                    Err(error) if is_refused(&config, &error, 4) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            10 => {
                let range = self.range(true);
                match self.region.overwrite(range.clone()) {
                    Ok(to) => {
                        let mut all = self.expected.lock().unwrap();
                        for (at, to) in range.zip(to) {
                            *to = Self::value(&mut self.rng);
                            all[at] = *to;
                        }
                        Ok(())
                    }
                    Err(error) if is_refused(&config, &error, 1) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            8 => {
                let start = self.rng.below(self.len() as u64) as usize;
                self.region.prefetch(start..self.len())
            }
            _ => {
                let len = self.len();
                assert!(self.region.edit(5..3).is_err());
                assert!(self.region.edit(len - 1..len + 1).is_err());
                assert!(self.region.edit(len..usize::MAX).is_err());
                assert!(self.region.view(usize::MAX..1).is_err());
                let result = self.region.edit(len..len);
                if let Err(error) = result
                    && !matches!(error, OperationError::Overlap | OperationError::Index { .. })
                {
                    return Err(error);
                }
                Ok(())
            }
        }
    }
}

fn config<T>(rng: &mut Rng) -> Config {
    let page_words = [8, 8, 16, 64, 128][rng.below(5) as usize];
    let bytes = u64::from(page_words) * 8 * (1 + rng.below(6)) - rng.below(60);
    let max_notices = [3, 20][rng.below(2) as usize];
    let may_not_share = size_of::<T>().is_multiple_of(8) || 8_usize.is_multiple_of(size_of::<T>());
    Config {
        page_words,
        locks: LOCKS as u32 + 1,
        notices: 1 + rng.below(max_notices) as u32,
        mirror_pages: if rng.below(2) == 0 { 1 + rng.below(4) as u32 } else { u32::MAX },
        edited_pages: if rng.below(2) == 0 { 1 + rng.below(4) as u32 } else { u32::MAX },
        max_lock_reads: 1 + rng.below(20) as u32,
        distribution: if rng.below(2) == 0 { Distribution::Cyclic } else { Distribution::Block },
        first_word: rng.below(20),
        shares_words: !(may_not_share && rng.below(4) == 0),
        compares: rng.below(3) == 0,
        directory: rng.below(3) == 0,
        ..Config::new((bytes / size_of::<T>() as u64).max(2))
    }
}

/// A region, or another front of it.
trait Shared<T>: Sized {
    fn open(
        engine: AnyEngine<'static>,
        config: Config,
        operations: u32,
        job: &mut impl Exchange,
    ) -> Result<Self, CollectiveError>;
    fn view(&mut self, range: Range<usize>) -> Result<&[T], OperationError>;
    fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], OperationError>;
    fn overwrite(&mut self, range: Range<usize>) -> Result<&mut [T], OperationError> {
        self.edit(range)
    }
    fn access(&mut self, views: Pair, edits: Pair) -> Result<Slices<'_, T>, OperationError>;
    fn prefetch(&mut self, range: Range<usize>) -> Result<(), OperationError>;
    fn acquire(&mut self, lock: u32) -> Result<(), OperationError>;
    fn release(&mut self, lock: u32) -> Result<(), OperationError>;
    /// Sends what a barrier would.
    fn flush(&mut self) -> Result<(), OperationError>;
    fn barrier(&mut self, job: &mut impl Exchange) -> Result<(), CollectiveError>;
}

type Pair = [Range<usize>; 2];
type Slices<'s, T> = ([&'s [T]; 2], [&'s mut [T]; 2]);
type Core<T> = Region<T, AnyEngine<'static>, Vec<Operation>, Vec<u64>>;

impl<T: Pod> Shared<T> for Core<T> {
    fn open(
        engine: AnyEngine<'static>,
        config: Config,
        operations: u32,
        job: &mut impl Exchange,
    ) -> Result<Self, CollectiveError> {
        let memory = vec![0; config.memory_words::<T>(job.owners())];
        let storage = vec![Operation::EMPTY; operations as usize];
        Region::open(engine, config, storage, memory, job)
    }

    fn view(&mut self, range: Range<usize>) -> Result<&[T], OperationError> {
        self.view(range)
    }

    fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], OperationError> {
        self.edit(range)
    }

    fn overwrite(&mut self, range: Range<usize>) -> Result<&mut [T], OperationError> {
        self.overwrite(range)
    }

    fn access(&mut self, views: Pair, edits: Pair) -> Result<Slices<'_, T>, OperationError> {
        self.access(views, edits)
    }

    fn prefetch(&mut self, range: Range<usize>) -> Result<(), OperationError> {
        self.prefetch(range)
    }

    fn acquire(&mut self, lock: u32) -> Result<(), OperationError> {
        self.acquire(lock)
    }

    fn release(&mut self, lock: u32) -> Result<(), OperationError> {
        self.release(lock)
    }

    fn flush(&mut self) -> Result<(), OperationError> {
        self.start_barrier()?;
        while !self.poll()? {}
        Ok(())
    }

    fn barrier(&mut self, job: &mut impl Exchange) -> Result<(), CollectiveError> {
        self.barrier(job)
    }
}

/// Runs a program for each rank on the simulator, and returns whether it has ended without an error.
fn simulated<T: Pod + PartialEq + Debug + Send>(seed: u64, errors_ppm: u32) -> bool {
    let config = config::<T>(&mut Rng::new(seed, 3_001));
    simulate::<T, Core<T>>(seed, errors_ppm, config)
}

fn simulate<T, R>(seed: u64, errors_ppm: u32, config: Config) -> bool
where
    T: Pod + PartialEq + Debug + Send,
    R: Shared<T>,
{
    let mut rng = Rng::new(seed, 3_000);
    let ranks = 2 + rng.below(3) as u32;
    let operations = 1 + rng.below(4) as u32;
    let mut sizes = config.sizes::<T>(ranks, operations);
    if rng.below(3) == 0 {
        sizes.depth = operations + rng.below(3) as u32;
    }
    let cluster = Cluster::new(probeline_sim::Config {
        direct_access: [DirectAccess::None, DirectAccess::Own, DirectAccess::All]
            [rng.below(3) as usize],
        atomics: [AtomicScope::Cpu, AtomicScope::Cpu, AtomicScope::Device][rng.below(3) as usize],
        write_then_atomic: rng.below(2) == 0,
        ..probeline_sim::Config::new(ranks, sizes).faulty(seed, errors_ppm, &mut rng)
    })
    .unwrap();
    let expected = Mutex::new(vec![T::zeroed(); config.elements as usize]);
    let ended = stage::run(&cluster, |engine, job| {
        let mut program = Program::<T, R, _>::new(
            AnyEngine::new(engine),
            job,
            (seed, operations),
            config,
            &expected,
        );
        let ended = program.run();
        assert!(errors_ppm > 0 || ended.is_ok(), "{ended:?} {config:?}");
        ended.is_ok()
    });
    ended.unwrap().iter().all(|ended| *ended)
}

fn threads<T: Pod + PartialEq + Debug + Send>(seed: u64) {
    run_threads::<T, Core<T>>(seed, config::<T>(&mut Rng::new(seed, 3_001)));
}

/// Runs a program for each rank over shared memory, with pages that the CPU addresses or by READs and WRITEs.
fn run_threads<T, R>(seed: u64, config: Config)
where
    T: Pod + PartialEq + Debug + Send,
    R: Shared<T>,
{
    let mut rng = Rng::new(seed, 3_000);
    let ranks = 2 + rng.below(3) as u32;
    let atomics = [AtomicScope::Cpu, AtomicScope::Device][rng.below(2) as usize];
    let operations = 1 + rng.below(4) as u32;
    let expected = Mutex::new(vec![T::zeroed(); config.elements as usize]);
    on_ranks(ranks, |mut job| {
        let engine = Builder::new(config.sizes::<T>(ranks, operations)).open(&mut job).unwrap();
        let engine = AnyEngine::new(Watched::declaring(engine, |caps| caps.atomics = atomics));
        let mut program =
            Program::<T, R, _>::new(engine, job, (seed, operations), config, &expected);
        program.run().unwrap();
    });
}

/// The types of elements in each round of simulated programs.
const TYPES: usize = 13;

/// Runs a program for each type, and returns how many have ended without an error.
fn each_simulated(seed: u64, errors_ppm: u32) -> usize {
    let programs: [fn(u64, u32) -> bool; TYPES] = [
        simulated::<u8>,
        simulated::<u16>,
        simulated::<u32>,
        simulated::<u64>,
        simulated::<[u8; 3]>,
        simulated::<[u16; 3]>,
        simulated::<[u32; 3]>,
        simulated::<[u64; 2]>,
        simulated::<[u16; 7]>,
        simulated::<[u8; 31]>,
        simulated::<[u8; 20]>,
        simulated::<[u64; 9]>,
        simulated::<[u32; 31]>,
    ];
    programs.into_iter().filter(|program| program(seed, errors_ppm)).count()
}

#[test]
fn simulated_ranks_respect_happens_before() {
    for seed in seeds(60) {
        let _replay = Replay(seed);
        assert_eq!(each_simulated(seed, 0), TYPES);
    }
}

#[test]
fn failures_show_no_wrong_element() {
    let mut whole = 0;
    for seed in seeds(40) {
        let _replay = Replay(seed);
        whole += each_simulated(seed, 500);
    }
    assert!(whole < 40 * TYPES, "no operation has failed");
}

#[test]
fn threads_respect_happens_before() {
    let programs: [fn(u64); 9] = [
        threads::<u8>,
        threads::<u16>,
        threads::<u32>,
        threads::<u64>,
        threads::<[u8; 3]>,
        threads::<[u32; 3]>,
        threads::<[u64; 2]>,
        threads::<[u16; 7]>,
        threads::<[u32; 31]>,
    ];
    for seed in seeds(60) {
        let _replay = Replay(seed);
        programs.iter().for_each(|program| program(seed));
    }
}

/// The CPU accesses pages only where its accesses are coherent with the transport's atomics.
#[test]
fn posts_accesses_beside_device_atomics() {
    for (atomics, posted) in [(AtomicScope::Cpu, 0), (AtomicScope::Device, 3)] {
        let config = Config::new(100);
        let cluster = Cluster::new(probeline_sim::Config {
            direct_access: DirectAccess::All,
            atomics,
            ..probeline_sim::Config::new(1, config.sizes::<u32>(1, 4))
        })
        .unwrap();
        stage::run(&cluster, |engine, mut job| {
            let memory = vec![0; config.memory_words::<u32>(1)];
            let storage = vec![Operation::EMPTY; 4];
            let mut region =
                Region::<u32, _, _, _>::open(engine, config, storage, memory, &mut job).unwrap();
            region.edit(1..4).unwrap().fill(7);
            region.barrier(&mut job).unwrap();
        })
        .unwrap();
        // A READ, a WRITE, and a fetch-and-add.
        assert_eq!(cluster.counters().posted, posted, "{atomics:?}");
    }
}

/// A rank that takes a lock at its own home again and again lets another one take it, also where a transport progresses
/// only in polls.
#[test]
fn repeated_sections_let_others_run() {
    let config = Config { locks: 1, ..Config::new(100) };
    let cluster = Cluster::new(probeline_sim::Config {
        direct_access: DirectAccess::Own,
        ..probeline_sim::Config::new(2, config.sizes::<u64>(2, 4))
    })
    .unwrap();
    let seen = stage::run(&cluster, |engine, mut job| {
        let memory = vec![0; config.memory_words::<u64>(2)];
        let storage = vec![Operation::EMPTY; 4];
        let mut region =
            Region::<u64, _, _, _>::open(engine, config, storage, memory, &mut job).unwrap();
        let is_waiter = job.me() == Owner(0);
        let seen = (0..if is_waiter { 10_000 } else { 1 }).any(|_| {
            region.acquire(0).unwrap();
            if !is_waiter {
                region.edit(0..1).unwrap()[0] = 1;
            }
            let seen = region.view(0..1).unwrap()[0] == 1;
            region.release(0).unwrap();
            seen
        });
        region.barrier(&mut job).unwrap();
        seen
    });
    assert_eq!(seen.unwrap(), [true; 2], "rank 0 saw nothing in 10,000 sections");
}

/// Ranks and elements of the test below.
const RANKS: u32 = 4;
const ELEMENTS: usize = 60;

/// A rank whose operation has failed, and which knows it alone, fails the next barrier on all ranks.
#[test]
fn failed_rank_fails_next_barrier() {
    let config = Config { page_words: 8, ..Config::new(ELEMENTS as u64) };
    // All operations fail, and one rank has any.
    let sizes = config.sizes::<u16>(RANKS, 4);
    let cluster = {
        let mut rng = Rng::new(1, 0);
        let all = probeline_sim::Config::new(RANKS, sizes).faulty(1, 1_000_000 / 3, &mut rng);
        Cluster::new(all).unwrap()
    };
    let passed = stage::run(&cluster, |engine, mut job| {
        let memory = vec![0; config.memory_words::<u16>(RANKS)];
        let storage = vec![Operation::EMPTY; 4];
        let mut region =
            Region::<u16, _, _, _>::open(engine, config, storage, memory, &mut job).unwrap();
        region.barrier(&mut job).unwrap();
        let is_victim = job.me() == Owner(1);
        if is_victim {
            region.view(0..ELEMENTS).unwrap_err();
        }
        let passed = region.barrier(&mut job);
        assert!(region.view(0..0).is_err(), "the region is closed");
        assert!(region.barrier(&mut job).is_err(), "it stays closed");
        passed
    });
    for (rank, passed) in (0..).map(Owner).zip(passed.unwrap()) {
        match rank {
            Owner(1) => assert!(matches!(passed, Err(CollectiveError::Operation(_))), "{passed:?}"),
            _ => assert_eq!(passed, Err(CollectiveError::PartFailed { owner: Owner(1) })),
        }
    }
}

/// The programs of above on plain memory, whose accesses fault.
#[cfg(feature = "fault")]
mod plain {
    use core::slice;

    use probeline_dsm::fault::{Error, PlainMemory};

    use super::*;

    type Plain<T> = PlainMemory<T, AnyEngine<'static>, Vec<Operation>>;

    fn of_operation(error: Error) -> OperationError {
        match error {
            Error::Operation(error) => error,
            error => panic!("{error}"),
        }
    }

    /// Returns a range of the memory, after an access to each of its pages: a rank of the simulator that waits lets
    /// others run, and must not hold the lock of the test then.
    fn slice_of<'s, T: Pod>(
        memory: &Plain<T>,
        range: Range<usize>,
        is_edit: bool,
    ) -> Result<&'s mut [T], OperationError> {
        if range.start > range.end || range.end > memory.cells().len() {
            return Err(of_operation(memory.view(range).map(drop).unwrap_err()));
        }
        // SAFETY: a range of the memory, used before the next call. Those of one access are disjoint.
        let slice =
            unsafe { slice::from_raw_parts_mut(memory.as_ptr().add(range.start), range.len()) };
        let bytes = bytemuck::cast_slice_mut::<_, u8>(&mut *slice);
        for at in (0..bytes.len()).step_by(4096).chain(bytes.len().checked_sub(1)) {
            let byte = &raw mut bytes[at];
            // SAFETY: a byte of the slice.
            unsafe {
                let value = byte.read_volatile();
                if is_edit {
                    byte.write_volatile(value);
                }
            }
        }
        Ok(slice)
    }

    impl<T: Pod> Shared<T> for Plain<T> {
        fn open(
            engine: AnyEngine<'static>,
            config: Config,
            operations: u32,
            job: &mut impl Exchange,
        ) -> Result<Self, CollectiveError> {
            let storage = vec![Operation::EMPTY; operations as usize];
            Self::open(engine, config, storage, job).map_err(|error| match error {
                Error::Collective(error) => error,
                error => panic!("{error}"),
            })
        }

        fn view(&mut self, range: Range<usize>) -> Result<&[T], OperationError> {
            slice_of(self, range, false).map(|elements| &*elements)
        }

        fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], OperationError> {
            slice_of(self, range, true)
        }

        fn access(&mut self, views: Pair, edits: Pair) -> Result<Slices<'_, T>, OperationError> {
            let all: Vec<_> =
                views.iter().chain(&edits).filter(|range| !range.is_empty()).collect();
            let overlap = |nth: usize, range: &Range<usize>| {
                all[..nth].iter().any(|other| range.start < other.end && other.start < range.end)
            };
            if all.iter().enumerate().any(|(nth, range)| overlap(nth, range)) {
                return Err(OperationError::Overlap);
            }
            Ok((
                views.map(|range| &*slice_of(self, range, false).unwrap()),
                edits.map(|range| slice_of(self, range, true).unwrap()),
            ))
        }

        fn prefetch(&mut self, range: Range<usize>) -> Result<(), OperationError> {
            (*self).prefetch(range).map_err(of_operation)
        }

        fn acquire(&mut self, lock: u32) -> Result<(), OperationError> {
            (*self).acquire(lock).map_err(of_operation)
        }

        fn release(&mut self, lock: u32) -> Result<(), OperationError> {
            (*self).release(lock).map_err(of_operation)
        }

        fn flush(&mut self) -> Result<(), OperationError> {
            Ok(())
        }

        fn barrier(&mut self, job: &mut impl Exchange) -> Result<(), CollectiveError> {
            (*self).barrier(job).map_err(|error| match error {
                Error::Operation(error) => error.into(),
                Error::Collective(error) => error,
                error => panic!("{error}"),
            })
        }
    }

    fn config<T>(seed: u64) -> Config {
        let mut rng = Rng::new(seed, 3_002);
        let page_words = super::config::<T>(&mut rng).page_words * 64;
        let config = super::config::<T>(&mut rng);
        let page_words = page_words.clamp(512, 1024);
        let bytes = u64::from(page_words) * 8 * (1 + rng.below(3)) - rng.below(60);
        Config { page_words, elements: (bytes / size_of::<T>() as u64).max(2), ..config }
    }

    fn simulated<T: Pod + PartialEq + Debug + Send>(seed: u64) {
        // The accesses of a range send none of its pages.
        let config = Config { edited_pages: u32::MAX, ..config::<T>(seed) };
        simulate::<T, Plain<T>>(seed, 0, config);
    }

    fn threads<T: Pod + PartialEq + Debug + Send>(seed: u64) {
        run_threads::<T, Plain<T>>(seed, config::<T>(seed));
    }

    #[test]
    fn simulated_ranks_respect_happens_before() {
        for seed in seeds(3) {
            let _replay = Replay(seed);
            simulated::<u8>(seed);
            simulated::<u32>(seed);
            simulated::<u64>(seed);
            simulated::<[u16; 7]>(seed);
            simulated::<[u64; 9]>(seed);
        }
    }

    #[test]
    fn threads_respect_happens_before() {
        for seed in seeds(3) {
            let _replay = Replay(seed);
            threads::<u8>(seed);
            threads::<u16>(seed);
            threads::<u64>(seed);
            threads::<[u8; 3]>(seed);
            threads::<[u32; 31]>(seed);
        }
    }
}
