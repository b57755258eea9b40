use proptest::prelude::*;

use super::*;
use crate::reactive::cell::{Cell, Water, charge, magnesium_water};

/// The logarithm of Henry's constant of CO2 at 25 degrees Celsius (phreeqc.dat).
const LOG_HENRY: f64 = -1.468;
/// The place of dissolved CO2 among the species.
const CO2: usize = 4;

fn solved(cell: &Cell) -> (Cell, ChemistryResult) {
    let result = equilibrium(&cell.chemistry_input(1.0)).unwrap();
    let mut after = *cell;
    after.react(&result);
    (after, result)
}

/// Calcite in pure water closed to the atmosphere: PHREEQC and the benchmark have pH 9.91 and 0.122
/// mmol/l.
#[test]
fn calcite_in_closed_water() {
    let (after, result) = solved(&Cell { minerals: [1.0, 0.0], ..Cell::default() });
    assert!((result[PH] - 9.91).abs() < 0.01, "{result:?}");
    assert!((after.water[0] - 1.22e-4).abs() < 2e-6, "{after:?}");
    assert_eq!(result[0], after.water[0]);
}

/// Calcite in water under the atmosphere, with CO2 at 10^-3.5 atm: the textbooks' pH 8.3 and 0.5 mmol/l
/// of calcium.
#[test]
fn calcite_under_atmosphere() {
    let target = 10_f64.powf(LOG_HENRY - 3.5);
    let solved = |carbon| {
        solved(&Cell { water: [0.0, 0.0, carbon, 0.0, 0.0, 0.0, 0.0], minerals: [1.0, 0.0] })
    };
    // The CO2 that was added increases with the carbon, so halving intervals finds it.
    let (mut min, mut max) = (0.0, 1e-2);
    for _ in 0..80 {
        let carbon = f64::midpoint(min, max);
        if solved(carbon).1[CONCENTRATIONS + CO2] < target { min = carbon } else { max = carbon }
    }
    let (after, result) = solved(min);
    assert!((result[PH] - 8.3).abs() < 0.05, "{result:?}");
    assert!((after.water[0] - 4.9e-4).abs() < 3e-5, "{after:?}");
}

#[test]
fn refuses_invalid_input() {
    let cell = Cell { water: magnesium_water(), ..Cell::resident().unwrap() };
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e-9] {
        for at in 0..10 {
            let mut input = cell.chemistry_input(1.0);
            input[at] = wrong;
            let why = equilibrium(&input).map_err(|error| error.why);
            let is_water = at == ALKALINITY && wrong == -1e-9;
            assert_eq!(why.err(), (!is_water).then_some(NO_WATER), "{at} {wrong}");
        }
    }
    // Amounts that rounding in the flow leaves below 0 are treated as 0.
    let mut below = cell;
    (below.water[0], below.water[2]) = (-1e-16, -1e-18);
    assert_eq!(solved(&below).1, solved(&cell).1);
}

/// The equation of Davies holds to 0.5 mol/l: what dissolves counts too.
#[test]
fn refuses_brines() {
    let brine = |salt| Cell { water: [0.0, 0.0, 0.0, 0.0, salt, salt, 0.0], ..Cell::default() };
    solved(&brine(0.49));
    let acid = Cell { water: [0.0, 0.0, 0.0, -0.49, 0.49, 0.0, 0.0], minerals: [10.0, 0.0] };
    for cell in [brine(0.51), brine(3.0), acid] {
        assert_eq!(equilibrium(&cell.chemistry_input(1.0)).unwrap_err().why, TOO_SALINE);
    }
}

/// Guesses that are far from the solution: much mineral beside nearly pure water, strong acids and
/// bases, and each with nothing of an element.
#[test]
fn far_guesses_converge() {
    let amounts = [0.0, 1e-300, 1e-9, 1e-2];
    let minerals = [0.0, 1e-12, 1e-2, 30.0];
    // Sodium hydroxide, or hydrochloric acid.
    let bases = [-0.05, -1e-6, 0.0, 1e-6, 0.05];
    let sizes = [amounts.len(), amounts.len(), amounts.len(), 4, 4, bases.len()];
    for number in 0..sizes.iter().product() {
        let mut left = number;
        let [ca, mg, c, calcite, dolomite, base] = sizes.map(|size| {
            let at = left % size;
            left /= size;
            at
        });
        let ([calcium, magnesium, carbon], base) = ([ca, mg, c].map(|at| amounts[at]), bases[base]);
        let alkalinity = 2.0 * (calcium + magnesium) + base;
        let (sodium, chloride) = (f64::max(base, 0.0), f64::max(-base, 0.0));
        let water = [calcium, magnesium, carbon, alkalinity, chloride, sodium, 0.0];
        let cell = Cell { water, minerals: [calcite, dolomite].map(|at| minerals[at]) };
        let (after, result) = solved(&cell);
        assert!(result.iter().all(|number| number.is_finite()), "{cell:?}");
        assert!((1.0..13.5).contains(&result[PH]), "{cell:?} {result:?}");
        assert!(charge(&after.water).abs() < 1e-14, "{after:?}");
    }
}

#[test]
fn solves_systems_with_pivots() {
    let mut system = System::default();
    (0..EQUATIONS).for_each(|at| system[at][at] = 1.0);
    system[0] = [0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 7.0];
    system[1] = [1e-9, 1e-9, 0.0, 0.0, 0.0, 0.0, 3e-9];
    system[2] = [3.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0];
    let found = solve(system).unwrap();
    for (value, expected) in found.into_iter().zip([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]) {
        assert!((value - expected).abs() < 1e-12, "{found:?}");
    }
    system[5] = system[4];
    assert!(solve(system).is_none());
}

/// Returns 0 or an amount of any magnitude in the range of groundwater.
fn amount() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 5 => (-16.0..-2.0).prop_map(|log: f64| 10_f64.powf(log))]
}

/// Cells of salts and CO2, some with any acid or base: hydroxides and chlorides.
fn cells() -> impl Strategy<Value = Cell> {
    let salts = [amount(), amount(), amount(), amount()];
    let minerals = [amount(), amount()];
    let acid = prop::option::of(amount());
    (salts, amount(), minerals, acid).prop_map(|([ca, mg, na, k], carbon, minerals, acid)| {
        let salt = 2.0 * (ca + mg) + na + k;
        let chloride = acid.map_or(salt, |acid| 10.0 * acid);
        let mut water: Water = [ca, mg, carbon, 0.0, chloride, na, k];
        water[ALKALINITY] = charge(&water);
        Cell { water, minerals }
    })
}

/// Concentrations times `of` the species, summed.
fn sum(result: &[f64; SPECIES], of: impl Fn(&Species) -> i8) -> f64 {
    ALL.iter().zip(result).map(|(species, amount)| f64::from(of(species)) * amount).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Every water has an equilibrium, in which balances and charges are right, present minerals are
    /// saturated and absent ones are not supersaturated.
    #[test]
    fn equilibria_balance_and_saturate(cell in cells()) {
        let (after, result) = solved(&cell);
        for (amount, saturation) in after.minerals.into_iter().zip(&result[SATURATIONS..]) {
            prop_assert!(amount >= 0.0);
            let saturation = *saturation;
            prop_assert!(saturation <= 1e-9, "{after:?} {result:?}");
            // A mineral that has dissolved leaves nothing but rounding errors.
            prop_assert!(amount < 1e-14 || saturation.abs() < 1e-11, "{after:?} {result:?}");
        }
        // Again from the solution: the same species, of which nothing reacts.
        let again = equilibrium(&after.chemistry_input(1.0)).unwrap();
        prop_assert!((again[PH] - result[PH]).abs() < 1e-9, "{result:?} {again:?}");
        for (before, after) in cell.contents().into_iter().zip(after.contents()) {
            prop_assert!((after - before).abs() <= 1e-15 * before.abs() + 1e-17);
        }
    }

    /// Concentrations add up to the totals, and charges to 0.
    #[test]
    fn balances_hold(cell in cells()) {
        let after = Cell { minerals: [0.0; 2], ..solved(&cell).0 };
        let problem = Problem::new(&after.chemistry_input(1.0));
        let solution = problem.solution([false; MINERALS]).unwrap();
        let species = &solution.concentrations;
        for (at, total) in problem.totals.iter().enumerate().take(3) {
            let found = sum(species, |species| species.masters[at]);
            prop_assert!((found - total).abs() < 1e-12 * total + 2.0 * TRACE, "{found} {total}");
        }
        let charge = sum(species, |species| species.charge);
        let [.., chloride, sodium, potassium] = after.water;
        let inert = sodium + potassium - chloride;
        prop_assert!((charge + inert).abs() < 1e-13, "{charge} {inert}");
    }
}
