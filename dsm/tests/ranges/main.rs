//! Random programs that edit ranges of elements of any size, against the elements as they must be.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

mod front;
#[cfg(feature = "fault")]
mod plain;

use core::fmt::Debug;
use core::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use bytemuck::Pod;
use probeline_dsm::{
    CollectiveError, Config, Distribution, Operation, OperationError, Region, Window,
};
use probeline_exchange::testing::{AnyEngine, PATIENCE, Replay, Watched, on_ranks, seeds};
use probeline_shm::Builder;
use probeline_sim::stage;
use probeline_sim::{Cluster, DirectAccess, Rng};
use probeline_transport::{AtomicScope, Exchange};

use front::{Call, Core, Shared};

const LOCKS: usize = 3;
/// A lock that one rank at a time holds across a barrier.
const HELD: usize = LOCKS;
const PHASES: u64 = 4;

/// Returns the result of an access, or `None` if it was refused and may be: small mirrors lack room, and drawn ranges
/// may overlap.
fn allowed<R>(
    config: &Config,
    ranges: usize,
    result: Result<R, OperationError>,
) -> Result<Option<R>, OperationError> {
    let is_small = config.mirror_pages != u32::MAX || config.edited_pages != u32::MAX;
    match result {
        Err(OperationError::Pages { .. } | OperationError::Overlap) if is_small || ranges > 1 => {
            Ok(None)
        }
        result => result.map(Some),
    }
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
            match self.region.call(Call::Acquire(lock as u32)) {
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
                self.region.call(Call::Flush)?;
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
            self.region.call(Call::Release(HELD as u32))?;
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
            self.region.call(Call::Release(lock as u32))?;
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

    fn check(&self, found: &[T], range: Range<usize>) {
        let (me, held) = (self.job.me(), &self.held);
        let expected = &self.expected.lock().unwrap()[range.clone()];
        assert_eq!(found, expected, "rank {me} with locks {held:?} at {range:?}");
    }

    fn view(&mut self, range: Range<usize>) -> Result<(), OperationError> {
        let found = self.region.view(range.clone()).map(<[T]>::to_vec);
        let found = allowed(&self.config, 1, found)?;
        found.inspect(|found| self.check(found, range));
        Ok(())
    }

    /// Changes some elements of an edit, or all without a look at them.
    fn fill(
        rng: &mut Rng,
        to: &mut [T],
        range: Range<usize>,
        expected: &Mutex<Vec<T>>,
        overwrites: bool,
    ) {
        let mut all = expected.lock().unwrap();
        assert_eq!(to.len(), range.len());
        for (at, to) in range.zip(to) {
            assert!(overwrites || *to == all[at], "edit of {at}: {to:?}, not {:?}", all[at]);
            if overwrites || rng.below(3) > 0 {
                *to = Self::value(rng);
                all[at] = *to;
            }
        }
    }

    #[allow(clippy::reversed_empty_ranges)]
    fn act(&mut self) -> Result<(), OperationError> {
        let len = self.len();
        match self.rng.below(11) {
            0..3 => {
                let range = self.range(false);
                self.view(range)?;
            }
            3..7 => self.edit(false)?,
            7 => {
                let views = [self.range(false), self.range(false)];
                let edits = [self.range(true), self.range(true)];
                let accessed = self.region.access(views.clone(), edits.clone());
                if let Some((seen, to)) = allowed(&self.config, 4, accessed)? {
                    for (range, seen) in views.into_iter().zip(seen) {
                        assert_eq!(seen, &self.expected.lock().unwrap()[range]);
                    }
                    for (range, to) in edits.into_iter().zip(to) {
                        Self::fill(&mut self.rng, to, range, self.expected, false);
                    }
                }
            }
            8 => {
                let start = self.rng.below(len as u64) as usize;
                self.region.call(Call::Prefetch(start..len))?;
            }
            9 => {
                for wrong in [5..3, len - 1..len + 1, len..usize::MAX, usize::MAX..1] {
                    assert!(self.region.edit(wrong.clone(), false).is_err(), "{wrong:?}");
                    assert!(self.region.view(wrong.clone()).is_err(), "{wrong:?}");
                }
                let edited = self.region.edit(len..len, false).map(drop);
                if !matches!(edited, Err(OperationError::Overlap | OperationError::Index { .. })) {
                    edited?;
                }
            }
            _ => self.edit(true)?,
        }
        Ok(())
    }

    fn edit(&mut self, overwrites: bool) -> Result<(), OperationError> {
        let range = self.range(true);
        let edited = self.region.edit(range.clone(), overwrites);
        if let Some(to) = allowed(&self.config, 1, edited)? {
            Self::fill(&mut self.rng, to, range, self.expected, overwrites);
        }
        Ok(())
    }
}

fn config<T>(rng: &mut Rng) -> Config {
    let page_words = [8, 8, 16, 64, 128][rng.below(5) as usize];
    let bytes = u64::from(page_words) * 8 * (1 + rng.below(6)) - rng.below(60);
    // A mirror that is smaller than the region holds a multiple of an element.
    let odd = (size_of::<T>() >> size_of::<T>().trailing_zeros()) as u32;
    let max_notices = [3, 20][rng.below(2) as usize];
    let may_not_share = size_of::<T>().is_multiple_of(8) || 8_usize.is_multiple_of(size_of::<T>());
    Config {
        page_words,
        locks: LOCKS as u32 + 1,
        notices: 1 + rng.below(max_notices) as u32,
        mirror_pages: if rng.below(2) == 0 { odd * (1 + rng.below(4) as u32) } else { u32::MAX },
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

/// Engines of a program's ranks.
#[derive(Clone, Copy)]
enum On {
    Simulator {
        errors_ppm: u32,
    },
    /// Shared memory, with pages that the CPU addresses or by READs and WRITEs.
    Threads,
}

/// Runs a program for each rank, and returns whether it has ended without an error.
fn run<T, R>(on: On, seed: u64, config: Config) -> bool
where
    T: Pod + PartialEq + Debug + Send,
    R: Shared<T>,
{
    let mut rng = Rng::new(seed, 3_000);
    let ranks = 2 + rng.below(3) as u32;
    let operations = 1 + rng.below(4) as u32;
    let mut sizes = config.sizes::<T>(ranks, operations);
    let expected = Mutex::new(vec![T::zeroed(); config.elements as usize]);
    let draw = (seed, operations);
    let On::Simulator { errors_ppm } = on else {
        let is_device = !config.in_windows && rng.below(2) == 0;
        let atomics = if is_device { AtomicScope::Device } else { AtomicScope::Cpu };
        on_ranks(ranks, |mut job| {
            let engine = Builder::new(sizes).open(&mut job).unwrap();
            let engine = AnyEngine::new(Watched::declaring(engine, |caps| caps.atomics = atomics));
            Program::<T, R, _>::new(engine, job, draw, config, &expected).run().unwrap();
        });
        return true;
    };
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
    let ended = stage::run(&cluster, |engine, job| {
        let engine = AnyEngine::new(engine);
        let ended = Program::<T, R, _>::new(engine, job, draw, config, &expected).run();
        assert!(errors_ppm > 0 || ended.is_ok(), "{ended:?} {config:?}");
        ended.is_ok()
    });
    ended.unwrap().iter().all(|ended| *ended)
}

fn on_region<T: Pod + PartialEq + Debug + Send>(on: On, seed: u64) -> bool {
    run::<T, Core<T, Vec<u64>>>(on, seed, config::<T>(&mut Rng::new(seed, 3_001)))
}

fn in_windows<T: Pod + PartialEq + Debug + Send>(on: On, seed: u64) -> bool {
    let config = Config {
        in_windows: true,
        shares_words: false,
        compares: false,
        mirror_pages: u32::MAX,
        ..config::<T>(&mut Rng::new(seed, 3_001))
    };
    run::<T, Core<T, Window>>(on, seed, config)
}

/// Programs for elements of several types.
const PROGRAMS: [fn(On, u64) -> bool; 13] = [
    on_region::<u8>,
    on_region::<u16>,
    on_region::<u32>,
    on_region::<u64>,
    on_region::<[u8; 3]>,
    on_region::<[u16; 3]>,
    on_region::<[u32; 3]>,
    on_region::<[u64; 2]>,
    on_region::<[u16; 7]>,
    on_region::<[u8; 31]>,
    on_region::<[u8; 20]>,
    on_region::<[u64; 9]>,
    on_region::<[u32; 31]>,
];

/// Runs each program with this many seeds, and returns how many have ended without an error.
fn count_ended(on: On, programs: &[fn(On, u64) -> bool], count: u64) -> usize {
    let each = seeds(count).into_iter().map(|seed| {
        let _replay = Replay(seed);
        programs.iter().filter(|program| program(on, seed)).count()
    });
    each.sum()
}

#[test]
fn simulated_ranks_respect_happens_before() {
    count_ended(On::Simulator { errors_ppm: 0 }, &PROGRAMS, 60);
}

#[test]
fn failures_show_no_wrong_element() {
    let ended = count_ended(On::Simulator { errors_ppm: 500 }, &PROGRAMS, 40);
    assert!(ended < 40 * PROGRAMS.len(), "no operation has failed");
}

#[test]
fn threads_respect_happens_before() {
    count_ended(On::Threads, &PROGRAMS, 42);
    let in_windows =
        [in_windows::<u8>, in_windows::<u32>, in_windows::<u64>, in_windows::<[u64; 9]>];
    count_ended(On::Threads, &in_windows, 80);
}
