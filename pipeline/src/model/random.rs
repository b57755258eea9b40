//! Scenarios drawn at random: seeds, the bound of each search, replay, and smaller scenarios that
//! fail as well.
//!
//! `PROBELINE_SCENARIOS` sets the number of scenarios, `PROBELINE_MOVES` the bound of each search,
//! `PROBELINE_SEED` the seed of the first scenario; with the seed alone, its scenario is the only one.

use core::fmt::Debug;
use core::ops::Range;
use core::panic::AssertUnwindSafe;
use std::env;
use std::panic::catch_unwind;
use std::time::Instant;

/// Random choices: SplitMix64.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Returns the choices of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Draws a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Draws `true` once in this number of times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Draws one of these.
    pub fn one_of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Draws this number of items. They live as long as the process, as those of constant scenarios
    /// do: some hundred bytes a scenario.
    pub fn items<T>(&mut self, count: usize, item: impl FnMut(&mut Self) -> T) -> &'static [T] {
        let mut item = item;
        (0..count).map(|_| item(self)).collect::<Vec<_>>().leak()
    }

    /// Draws requests of each client, this number in all.
    pub fn scripts<T>(
        &mut self,
        clients: usize,
        requests: usize,
        request: impl FnMut(&mut Self) -> T,
    ) -> &'static [&'static [T]] {
        let mut request = request;
        let mut scripts: Vec<Vec<T>> = (0..clients).map(|_| vec![request(self)]).collect();
        for _ in clients..requests {
            let who = self.below(clients);
            scripts[who].push(request(self));
        }
        scripts.into_iter().map(|script| &*script.leak()).collect::<Vec<_>>().leak()
    }

    /// Draws for each client after how many requests of all clients it starts. Clients that start
    /// later reach states that would take many more worlds side by side.
    pub fn starts<const N: usize, T>(&mut self, scripts: &[&[T]]) -> [u8; N] {
        let mut before = 0;
        core::array::from_fn(|who| {
            let start = if self.once_in(3) { 0 } else { self.below(before + 1) };
            before += scripts.get(who).map_or(0, |script| script.len());
            start as u8
        })
    }

    /// Draws at which of its bytes a word tears, as [parts](super::torn): one byte and the others,
    /// the bytes below and above a border, or three parts. Often the highest byte, which has the
    /// state of a bucket, is one of them.
    pub fn parts(&mut self) -> &'static [u64] {
        let byte = |nth: usize| 0xff_u64 << (8 * nth);
        let mut parts = match self.below(3) {
            0 => vec![byte(if self.once_in(2) { 7 } else { self.below(8) })],
            1 => vec![u64::MAX << (8 * (1 + self.below(7)))],
            _ => {
                let mut parts = [0; 3];
                (0..8).for_each(|nth| parts[self.below(3)] |= byte(nth));
                parts[..2].to_vec()
            }
        };
        parts.push(!parts.iter().fold(0, |all, part| all | part));
        parts.retain(|part| *part != 0);
        parts.leak()
    }
}

/// Returns the scripts without one request, in every way.
fn without_one<T: Clone>(scripts: &[&[T]]) -> Vec<&'static [&'static [T]]> {
    let places = scripts.iter().enumerate();
    let places = places.flat_map(|(who, script)| (0..script.len()).map(move |nth| (who, nth)));
    let without = |(who, nth): (usize, usize)| {
        let mut scripts: Vec<Vec<T>> = scripts.iter().map(|script| script.to_vec()).collect();
        scripts[who].remove(nth);
        &*scripts.into_iter().map(|script| &*script.leak()).collect::<Vec<_>>().leak()
    };
    places.map(without).collect()
}

/// Returns the scripts without one request, in every way, each with the [starts](Draw::starts) of its
/// clients.
#[must_use]
pub fn shorter<const N: usize, T: Clone>(
    scripts: &[&[T]],
    starts: [u8; N],
) -> Vec<(&'static [&'static [T]], [u8; N])> {
    let with_starts = |scripts: &'static [&'static [T]]| {
        let most = |who| scripts.iter().take(who).map(|script| script.len() as u8).sum();
        (scripts, core::array::from_fn(|who| starts[who].min(most(who))))
    };
    without_one(scripts).into_iter().map(with_starts).collect()
}

/// Why a search ended before it had visited all states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A rule is violated.
    Violation(String),
    /// There are more moves than the bound.
    Bound,
}

impl From<String> for Stopped {
    fn from(violation: String) -> Self {
        Self::Violation(violation)
    }
}

/// The number of states and of executions of a scenario.
pub type Explored = (usize, f64);

/// Subject that is checked in scenarios drawn at random.
pub trait Subject {
    /// The requests of the clients, and how the network behaves.
    type Scenario: Copy + Debug;

    /// Draws a scenario.
    fn draw(&self, draw: &mut Draw) -> Self::Scenario;

    /// Visits all states of a scenario.
    ///
    /// # Errors
    /// A violation, or more than `max_moves` moves.
    fn check(&self, scenario: &Self::Scenario, max_moves: usize) -> Result<Explored, Stopped>;

    /// Returns scenarios that differ from this one in less: one request fewer, or a network with one
    /// fault fewer. This one among them is left out.
    fn smaller(&self, scenario: &Self::Scenario) -> Vec<Self::Scenario>;
}

/// How many scenarios to draw, and the bound of the search through each.
#[derive(Clone, Copy, Debug)]
pub struct RandomCheck<'n> {
    /// Name of the subject in the report.
    pub name: &'n str,
    /// Number of scenarios, unless the environment sets it.
    pub scenarios: u64,
    /// Moves from a state to another after which a scenario is abandoned.
    pub max_moves: usize,
}

/// A scenario that violates a rule.
struct Found<S> {
    /// The seed, and the number of scenarios drawn until then.
    seed: u64,
    drawn: u64,
    scenario: S,
    violation: String,
}

#[derive(Default)]
struct Totals {
    drawn: u64,
    abandoned: u64,
    states: usize,
}

/// Checks scenarios drawn at random and prints what they covered.
///
/// # Panics
/// If a scenario violates a rule: prints the seed that draws it again, and a smaller scenario that
/// fails as well.
pub fn check_random<S: Subject>(check: RandomCheck<'_>, subject: &S) {
    let begin = Instant::now();
    let first = number("PROBELINE_SEED");
    let scenarios = if first.is_some() { 1 } else { check.scenarios };
    let scenarios = number("PROBELINE_SCENARIOS").unwrap_or(scenarios);
    let first = first.unwrap_or(0);
    let seeds = first..first.saturating_add(scenarios);
    let max_moves = number("PROBELINE_MOVES").map_or(check.max_moves, |moves| moves as usize);
    let check = RandomCheck { max_moves, ..check };
    let name = check.name;
    let (totals, found) = search(check, subject, seeds);
    let Totals { drawn, abandoned, states } = totals;
    let percent = abandoned as f64 * 100.0 / drawn.max(1) as f64;
    println!(
        "{name}: {drawn} random scenarios from PROBELINE_SEED={first} on, {abandoned} ({percent:.0} \
         %) abandoned after {max_moves} moves, {states} states of the others, in {:?}",
        begin.elapsed()
    );
    let Some(Found { seed, scenario, violation, .. }) = found else { return };
    let (small, why) = minimise(subject, scenario, violation.clone(), max_moves);
    panic!(
        "{name}: {violation}\nin {scenario:?}\nReplay it with PROBELINE_SEED={seed}\nsmaller: \
         {why}\nin {small:?}"
    );
}

/// Checks that random scenarios of these seeds find a defect of the subject.
///
/// # Panics
/// If none of them does.
pub fn is_found<S: Subject>(check: RandomCheck<'_>, subject: &S, seeds: Range<u64>) {
    let (name, begin) = (check.name, Instant::now());
    let (Totals { states, .. }, found) = search(check, subject, seeds.clone());
    let Some(Found { seed, drawn, violation, .. }) = found else {
        panic!("{name}: no random scenario of {seeds:?} finds the defect, in {states} states");
    };
    println!(
        "{name}: as it must be, after {drawn} scenarios in {:?} (seed {seed}): {violation}",
        begin.elapsed()
    );
}

/// Returns the number in an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not an integer")))
}

/// Searches until a scenario violates a rule.
fn search<S: Subject>(
    check: RandomCheck<'_>,
    subject: &S,
    seeds: Range<u64>,
) -> (Totals, Option<Found<S::Scenario>>) {
    let mut totals = Totals::default();
    for seed in seeds {
        let scenario = subject.draw(&mut Draw::new(seed));
        totals.drawn += 1;
        match explore(subject, &scenario, check.max_moves) {
            Ok((states, _)) => totals.states += states,
            Err(Stopped::Bound) => totals.abandoned += 1,
            Err(Stopped::Violation(violation)) => {
                let drawn = totals.drawn;
                return (totals, Some(Found { seed, drawn, scenario, violation }));
            }
        }
    }
    (totals, None)
}

/// Checks a scenario; a panic of what is checked violates a rule as well.
fn explore<S: Subject>(
    subject: &S,
    scenario: &S::Scenario,
    max_moves: usize,
) -> Result<Explored, Stopped> {
    // After a panic nothing of the search is used.
    let result = catch_unwind(AssertUnwindSafe(|| subject.check(scenario, max_moves)));
    result.unwrap_or_else(|_| Err(Stopped::Violation("a panic, printed above".into())))
}

/// Returns a scenario of which no smaller one violates a rule, and the violation.
fn minimise<S: Subject>(
    subject: &S,
    scenario: S::Scenario,
    violation: String,
    max_moves: usize,
) -> (S::Scenario, String) {
    let (mut small, mut why) = (scenario, violation);
    // Each turn makes the scenario smaller.
    loop {
        let fails = |scenario: S::Scenario| match explore(subject, &scenario, max_moves) {
            Err(Stopped::Violation(violation)) => Some((scenario, violation)),
            _ => None,
        };
        let differs = |other: &S::Scenario| format!("{other:?}") != format!("{small:?}");
        match subject.smaller(&small).into_iter().filter(differs).find_map(fails) {
            Some(found) => (small, why) = found,
            None => return (small, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenarios are sequences of numbers; one with a 3 and a 5 violates the rule.
    struct Numbers;

    impl Subject for Numbers {
        type Scenario = &'static [&'static [usize]];

        fn draw(&self, draw: &mut Draw) -> Self::Scenario {
            draw.scripts(2, 8, |draw| draw.below(10))
        }

        fn check(&self, scenario: &Self::Scenario, max_moves: usize) -> Result<Explored, Stopped> {
            let all = scenario.concat();
            if all.len() > max_moves {
                return Err(Stopped::Bound);
            }
            assert!(!all.contains(&9), "a defect");
            match all.contains(&3) && all.contains(&5) {
                true => Err(Stopped::Violation(format!("{all:?}"))),
                false => Ok((all.len(), 1.0)),
            }
        }

        fn smaller(&self, scenario: &Self::Scenario) -> Vec<Self::Scenario> {
            without_one(scenario)
        }
    }

    #[test]
    fn minimises_violation() {
        let scenario: &[&[usize]] = &[&[1, 3, 3, 4], &[5, 6]];
        let (small, why) = minimise(&Numbers, scenario, String::new(), 8);
        assert_eq!((small.concat(), why), (vec![3, 5], "[3, 5]".into()));
    }

    #[test]
    fn counts_scenarios_beyond_bound() {
        let check = RandomCheck { name: "numbers", scenarios: 5, max_moves: 7 };
        let (totals, found) = search(check, &Numbers, 0..5);
        assert_eq!((totals.drawn, totals.abandoned, found.is_none()), (5, 5, true));
    }

    #[test]
    fn redraws_scenario_from_seed() {
        let check = RandomCheck { name: "numbers", scenarios: 100, max_moves: 8 };
        let found = search(check, &Numbers, 0..100).1.expect("one in a few fails");
        assert_eq!(Numbers.draw(&mut Draw::new(found.seed)), found.scenario);
        let again = search(check, &Numbers, found.seed..found.seed + 1).1.expect("it fails again");
        assert_eq!(again.violation, found.violation);
    }

    #[test]
    fn reports_panic_as_violation() {
        let scenario: &[&[usize]] = &[&[9]];
        assert!(matches!(explore(&Numbers, &scenario, 8), Err(Stopped::Violation(_))));
    }
}
