//! The model check of regions: the region's own calls, in every order of completions.

mod litmus;
mod rank;
mod sections;

use core::cell::Cell;

use probeline_pipeline::model::{
    Draw, Driven, Explored, MAX_CLIENTS, Plan, RandomCheck, Scenario, Stopped, Subject, Turn,
    Verdict, Wire, check_random, check_within, shorter, torn,
};
use probeline_pipeline::{Error, Operation, Pipeline};
use probeline_transport::Owner;

use crate::config::Config;
use crate::context::Context;
use crate::lock::{TICKET_BITS, Tickets};
use crate::region::Region;
use crate::transfer::{Outcome, Transfer};
use rank::{rest, run};

/// Defects that the check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    None,
    /// The next holder of a lock ignores what its list says.
    SkipsNotices,
    /// A rank tells only of its own changes.
    TellsOwnOnly,
    /// A lock is passed on while its list is written.
    PassesOnEarly,
    /// A rank tells of changes that have not arrived.
    TellsEarly,
    /// A release or barrier waits for all changes but the last one.
    DropsLastWait,
    /// A barrier's message says of no page that it was changed.
    SendsNoPages,
    /// A rank keeps after a barrier what it knew of the lists of locks.
    KeepsLists,
    /// A page is sent as a whole.
    SendsPages,
    /// A word that was changed in part is written.
    WritesParts,
    /// A word that is changed in part a second time gets a new twin.
    RenewsTwin,
    /// A rank does not tell of words that its CPU has stored at their home.
    HidesStores,
    /// A rank takes the words between its edits as its own.
    ClaimsGaps,
    /// A page that was not read is viewed behind what was overwritten.
    KeepsOverwritten,
    /// A rank that acquires a lock does not see that there are notices.
    IgnoresStamps,
    /// A writer does not tell the holders of a page.
    TellsNobody,
    /// A rank is told how often it was told before it was told of which page.
    CountsEarly,
    /// Only the first writer of a page tells others.
    FirstTells,
    /// A page that was prefetched before a rank acquires a lock may be older than its writers.
    TrustsPrefetched,
    /// A reader does not learn of the writers before it.
    IgnoresWriters,
    /// A part of a word that is found equal is sent with the rest of it.
    ComparesWords,
    /// A rank that finds notices of a lock lost keeps its copies.
    KeepsCopies,
}

thread_local! {
    static MUTANT: Cell<Mutant> = const { Cell::new(Mutant::None) };
}

pub(crate) fn is(mutant: Mutant) -> bool {
    MUTANT.get() == mutant
}

/// Returns the number of changes that a rank waits for, of those in flight.
pub(crate) fn waits_for(left: u32) -> u32 {
    match MUTANT.get() {
        Mutant::TellsEarly => 0,
        Mutant::DropsLastWait => left.saturating_sub(1),
        _ => left,
    }
}

thread_local! {
    static LISTS_RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether messages of barriers list runs of pages, as those of many pages do.
pub(crate) fn lists_runs() -> bool {
    LISTS_RUNS.get()
}

/// Returns whether a mutant does not pass a notice on.
pub(crate) fn hides(is_own: bool) -> bool {
    is(Mutant::TellsOwnOnly) && !is_own
}

/// Returns whether a mutant does not tell others of a page, whose entry in the directory was this.
pub(crate) fn tells_nobody(entry: u64) -> bool {
    is(Mutant::TellsNobody)
        || is(Mutant::FirstTells) && crate::directory::has_other_writer(entry, None)
}

/// A call of a rank. Words and their halves are numbered through all pages, halves from the lower one on.
#[derive(Clone, Copy, Debug)]
enum Request {
    Acquire(u32),
    Release(u32),
    /// Adds 1 to a half of a word.
    Add(usize),
    /// Adds 1 to both halves of a word in one edit, from this half on.
    Both(usize),
    /// Adds 1 to the two words from this half on, and to a half behind them, in one edit.
    Run(usize),
    /// Overwrites both halves of a word with [`OVER`], from this half on.
    Over(usize),
    /// Looks at a half of a word.
    View(usize),
    /// Prefetches the page of a half of a word, acquires a lock, and looks at the half.
    Ahead(usize, u32),
    /// Acquires a lock, or takes a place among those that wait for it, which a later acquire keeps.
    Try(u32),
    /// Waits for all ranks.
    Barrier,
    /// Prefetches the page of a half of a word, waits for all ranks, and looks at the half.
    AheadOfAll(usize),
}

use Request::{
    Acquire, Add, Ahead, AheadOfAll, Barrier, Both, Over, Release, Run as Five, Try, View,
};

/// More than all additions before.
const OVER: u8 = 9;

const PAGE_WORDS: usize = 8;
/// The first half of the second page.
const SECOND: usize = 2 * PAGE_WORDS;
const HALVES: usize = 2 * SECOND;
const LOCKS: usize = 2;
/// The parts of a word that READs tear.
const HALVES_OF_WORDS: &[u64] = &[0xFFFF_FFFF, 0xFFFF_FFFF << 32];
/// Words of each window: a page, and a lock with its list.
const PART: usize = PAGE_WORDS + 16;
/// Barriers of a script at most, and behind the rest of a window the words of the rank's message of each, behind
/// a word that says that the rank has reached the barrier.
const BARRIERS: usize = 2;
const BOARD: usize = 8;

type Scripts = &'static [&'static [Request]];

/// Knowledge that a rank or a lock must have of each half of a word: the number of additions that happen before.
type Known = [u8; HALVES];

#[derive(Clone, Debug, Hash)]
struct History {
    ranks: [Known; MAX_CLIENTS],
    locks: [Known; LOCKS],
    barriers: [Known; BARRIERS],
    all: Known,
    has_given_up: [bool; MAX_CLIENTS],
    /// The ranks that hold each lock, or wait for it.
    tickets: [u8; LOCKS],
}

impl Default for History {
    fn default() -> Self {
        let none = [0; HALVES];
        Self {
            ranks: [none; MAX_CLIENTS],
            locks: [none; LOCKS],
            barriers: [none; BARRIERS],
            all: none,
            has_given_up: [false; MAX_CLIENTS],
            tickets: [0; LOCKS],
        }
    }
}

fn learn(known: &mut Known, other: &Known) {
    known.iter_mut().zip(other).for_each(|(known, other)| *known = (*known).max(*other));
}

#[derive(Clone, Copy, Debug)]
struct Litmus {
    config: Config,
    scripts: Scripts,
    starts: [u8; MAX_CLIENTS],
    failures: u8,
    tears: &'static [u64],
    /// Whether atomics take effect after earlier WRITEs.
    is_ordered: bool,
    /// The first ticket of each lock.
    ticket: u16,
    /// Owners, from the first on, whose words the CPU addresses.
    reaches: u32,
    /// Whether each rank has the pages whose home it is in its window.
    is_in_windows: bool,
    /// Whether messages of barriers list runs of pages.
    lists_runs: bool,
}

impl Litmus {
    const fn new(scripts: Scripts) -> Self {
        let config = Config {
            page_words: PAGE_WORDS as u32,
            locks: LOCKS as u32,
            notices: 3,
            max_lock_reads: 1,
            ..Config::new(HALVES as u64)
        };
        let starts = [0; MAX_CLIENTS];
        Self {
            config,
            scripts,
            starts,
            failures: 0,
            tears: &[],
            is_ordered: false,
            ticket: 0,
            reaches: 0,
            is_in_windows: false,
            lists_runs: false,
        }
    }

    /// Messages of barriers list runs of pages, at most as many as a rank has notices.
    const fn with_runs(self, notices: u32) -> Self {
        Self { lists_runs: true, ..self.with_notices(notices) }
    }

    /// Returns the number of barriers before a request.
    fn barriers(&self, turn: Turn<Request>) -> usize {
        let before = &self.scripts[turn.who][..turn.nth];
        before.iter().filter(|request| matches!(request, Barrier | AheadOfAll(_))).count()
    }

    /// Returns whether a rank has a place among those that wait for a lock, or holds it, from a request before.
    fn has_tried(&self, turn: Turn<Request>, lock: u32) -> bool {
        let before = &self.scripts[turn.who][..turn.nth];
        before.iter().any(|request| matches!(request, Try(tried) if *tried == lock))
    }

    const fn with_mirror(self, mirror_pages: u32) -> Self {
        Self { config: Config { mirror_pages, ..self.config }, ..self }
    }

    const fn with_edited_pages(self, edited_pages: u32) -> Self {
        Self { config: Config { edited_pages, ..self.config }, ..self }
    }

    const fn with_reach(self, reaches: u32) -> Self {
        Self { reaches, ..self }
    }

    /// No two ranks may share a word here.
    const fn in_windows(self) -> Self {
        let config = Config { shares_words: false, ..self.config };
        Self { config, is_in_windows: true, ..self }
    }

    const fn with_directory(self) -> Self {
        Self { config: Config { directory: true, ..self.config }, ..self }
    }

    const fn with_compares(self) -> Self {
        Self { config: Config { compares: true, ..self.config }, ..self }
    }

    const fn with_notices(self, notices: u32) -> Self {
        Self { config: Config { notices, ..self.config }, ..self }
    }
}

type Memory = [u64; 128];

impl<const N: usize> Scenario<N> for Litmus {
    type Request = Request;
    type Context = Context<Memory>;
    type Machine = Transfer;
    type Storage = [Operation<Transfer>; 2];
    type History = History;

    fn plan(&self) -> Plan<Request> {
        let Self { scripts, starts, failures, .. } = *self;
        Plan { scripts, starts, failures }
    }

    fn memory(&self) -> [u64; N] {
        let mut memory = [0; N];
        let word = u64::from(self.ticket) << TICKET_BITS | u64::from(self.ticket);
        memory
            .chunks_exact_mut(N / self.scripts.len())
            .take(LOCKS)
            .for_each(|part| part[PAGE_WORDS] = word);
        memory
    }

    fn torn(&self, _: usize, values: Vec<u64>) -> Vec<u64> {
        if self.tears.is_empty() { values } else { torn(&values, self.tears) }
    }

    fn client(&self, who: usize) -> Driven<Self, N> {
        let (me, owners) = (Owner(who as u32), self.scripts.len());
        let (part, is_whole) = (N / owners, self.tears.is_empty());
        let owners = owners as u32;
        let wire = Wire::new(owners, part, 2, self.reaches, is_whole).at_owner(me);
        let wire = if self.is_ordered { wire.with_ordered_writes() } else { wire };
        self.config.check::<u32>(&wire).expect("a valid configuration");
        let layout = self.config.layout::<u32>(owners);
        let mut context = Context::new([0; 128], layout, me, self.config.max_lock_reads);
        if self.is_in_windows {
            context.keep_homes().expect("frames of all pages");
        }
        Pipeline::new(wire, context, [Operation::EMPTY; 2]).expect("the wire has the slots")
    }

    fn machine(&self, _: Turn<Request>, _: &Context<Memory>) -> Transfer {
        unreachable!("all requests are blocking calls")
    }

    fn in_call(&self, _: Turn<Request>) -> usize {
        1
    }

    fn call(
        &self,
        turn: Turn<Request>,
        driven: &mut Driven<Self, N>,
    ) -> Option<Vec<Result<Outcome, Error>>> {
        let mut region = Region::<u32, _, _, _>::with(driven.clone());
        let result = run(&mut region, turn.request, self.barriers(turn));
        if matches!(result, Ok(Outcome::Waiting) | Err(_)) {
            rest(&mut region.pipeline);
        }
        *driven = region.into_pipeline();
        Some(vec![result])
    }

    fn begin(&self, turn: Turn<Request>, _: &[u64; N], history: &mut History) {
        let known = &history.ranks[turn.who];
        match turn.request {
            _ if history.has_given_up[turn.who] => {}
            Release(lock) => learn(&mut history.locks[lock as usize], known),
            Barrier | AheadOfAll(_) => learn(&mut history.barriers[self.barriers(turn)], known),
            _ => {}
        }
    }

    fn end(
        &self,
        turn: Turn<Request>,
        result: Result<Outcome, Error>,
        context: &Context<Memory>,
        _: &[u64; N],
        history: &mut History,
    ) -> Result<bool, String> {
        match result {
            Ok(Outcome::Waiting) => {
                if let Acquire(lock) | Ahead(_, lock) = turn.request
                    && !history.has_given_up[turn.who]
                    && !self.has_tried(turn, lock)
                {
                    history.tickets[lock as usize] += 1;
                }
                history.has_given_up[turn.who] = true;
            }
            Err(_) if self.failures > 0 => history.has_given_up[turn.who] = true,
            Err(error) => return Err(format!("{:?} fails: {error}", turn.request)),
            Ok(outcome) => {
                let known = &mut history.ranks[turn.who];
                match turn.request {
                    Acquire(lock) | Ahead(_, lock) | Try(lock) => {
                        if outcome != Outcome::Sent {
                            learn(known, &history.locks[lock as usize]);
                        }
                        history.tickets[lock as usize] += u8::from(!self.has_tried(turn, lock));
                    }
                    Release(lock) => history.tickets[lock as usize] -= 1,
                    Barrier | AheadOfAll(_) => learn(known, &history.barriers[self.barriers(turn)]),
                    View(_) | Add(_) | Both(_) | Five(_) | Over(_) => {}
                }
                for half in halves(turn.request) {
                    match turn.request {
                        Over(_) => (known[half], history.all[half]) = (OVER, OVER),
                        View(_) | Ahead(..) | AheadOfAll(_) => {}
                        _ => {
                            known[half] += 1;
                            history.all[half] += 1;
                        }
                    }
                    let (found, known) = (half_of(context, half), known[half]);
                    if found != u32::from(known) {
                        let what = format!("sees {found} at {half}, and knows of {known}");
                        return Err(format!("{turn:?} {what}"));
                    }
                }
            }
        }
        Ok(true)
    }

    fn check_end(&self, memory: &[u64; N], history: &History, has_failed: bool) -> Verdict {
        let part = N / self.scripts.len();
        for (lock, expected) in history.tickets.iter().enumerate().filter(|_| !has_failed) {
            let Tickets { next, serving, .. } =
                Tickets::from_word(memory[lock * part + PAGE_WORDS]);
            if next.wrapping_sub(serving) != u16::from(*expected) {
                return Err(format!(
                    "lock {lock} is at {serving} of {next}, with {expected} ranks"
                ));
            }
        }
        if history.has_given_up.contains(&true) {
            return Ok(());
        }
        for (half, all) in history.all.iter().enumerate() {
            let (page, word) = (half / SECOND, half % SECOND / 2);
            let found = (memory[page * part + word] >> (32 * (half % 2))) as u32;
            if found != u32::from(*all) {
                return Err(format!("half {half} is {found} at its home, not {all}"));
            }
        }
        Ok(())
    }
}

/// Returns the halves of words of an access.
fn halves(request: Request) -> core::ops::Range<usize> {
    match request {
        Acquire(_) | Release(_) | Try(_) | Barrier => 0..0,
        Add(half) | View(half) | Ahead(half, _) | AheadOfAll(half) => half..half + 1,
        Both(half) | Over(half) => half..half + 2,
        Five(half) => half..half + 5,
    }
}

fn half_of(context: &Context<Memory>, half: usize) -> u32 {
    let mut context = context.clone();
    let (mut parts, layout, ..) = context.parts().expect("the memory is long enough");
    let frame = layout.frame((half / SECOND) as u32);
    (parts.frame_words(layout, frame)[half % SECOND / 2] >> (32 * (half % 2))) as u32
}

/// Checks a scenario on as many owners as it has ranks.
fn check(litmus: Litmus, max_moves: usize) -> Result<Explored, Stopped> {
    const LONG_PART: usize = PART + BARRIERS * BOARD;
    let mut requests = litmus.scripts.iter().copied().flatten();
    let has_barrier = requests.any(|request| matches!(request, Barrier | AheadOfAll(_)));
    LISTS_RUNS.set(litmus.lists_runs);
    match (litmus.scripts.len(), has_barrier) {
        (2, false) => check_within::<{ 2 * PART }, _>(&litmus, max_moves),
        (2, true) => check_within::<{ 2 * LONG_PART }, _>(&litmus, max_moves),
        (_, false) => check_within::<{ 3 * PART }, _>(&litmus, max_moves),
        (_, true) => check_within::<{ 3 * LONG_PART }, _>(&litmus, max_moves),
    }
}

fn holds(litmus: Litmus) {
    let (worlds, _) = check(litmus, usize::MAX).expect("ranks see what happens before");
    println!("{worlds} worlds");
    assert!(worlds > 100, "{worlds}");
}

fn finds(mutant: Mutant, litmus: Litmus) {
    MUTANT.set(mutant);
    let checked = check(litmus, usize::MAX);
    MUTANT.set(Mutant::None);
    // Which of them comes first depends on the order of the search.
    let is_wrong_value = matches!(&checked, Err(Stopped::Violation(violation))
        if violation.contains(" sees ") || violation.contains(" at its home"));
    assert!(is_wrong_value, "{mutant:?}: {checked:?}");
}
