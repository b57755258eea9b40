use proptest::prelude::*;

use super::*;
use crate::cell::Cell;
use crate::water::Water;

/// The logarithm of Henry's constant of CO2 at 25 degrees Celsius (phreeqc.dat).
const LOG_HENRY: f64 = -1.468;

fn solved(cell: &Cell) -> (Cell, Answer) {
    let answer = equilibrium(&cell.question(1.0)).unwrap();
    let mut after = *cell;
    after.react(&answer);
    (after, answer)
}

/// Calcite in pure water closed to the atmosphere: PHREEQC and the benchmark have pH 9.91 and 0.122
/// mmol/l.
#[test]
fn calcite_in_closed_water() {
    let cell = Cell { calcite: 1.0, ..Cell::default() };
    let (after, answer) = solved(&cell);
    assert!((answer.ph - 9.91).abs() < 0.01, "{answer:?}");
    assert!((after.water.calcium - 1.22e-4).abs() < 2e-6, "{after:?}");
    assert_eq!(answer.calcite_dissolves, after.water.calcium);
    assert!(answer.calcite_saturation.abs() < 1e-11);
}

/// Calcite in water under the atmosphere, with CO2 at 10^-3.5 atm: the textbooks' pH 8.3 and 0.5 mmol/l
/// of calcium.
#[test]
fn calcite_under_the_atmosphere() {
    let target = 10_f64.powf(LOG_HENRY - 3.5);
    // The CO2 that was added increases with the carbon, so halving intervals finds it.
    let (mut least, mut most) = (0.0, 1e-2);
    for _ in 0..80 {
        let carbon = f64::midpoint(least, most);
        let cell = Cell { water: Water { carbon, ..Water::pure() }, calcite: 1.0, dolomite: 0.0 };
        if solved(&cell).1.concentrations[CO2] < target { least = carbon } else { most = carbon }
    }
    let cell =
        Cell { water: Water { carbon: least, ..Water::pure() }, calcite: 1.0, dolomite: 0.0 };
    let (after, answer) = solved(&cell);
    assert!((answer.ph - 8.3).abs() < 0.05, "{answer:?}");
    assert!((after.water.calcium - 4.9e-4).abs() < 3e-5, "{after:?}");
}

#[test]
fn pure_water_is_neutral() {
    let (_, answer) = solved(&Cell::default());
    assert!((answer.ph - 7.0).abs() < 1e-3, "{answer:?}");
}

/// Water with magnesium chloride turns calcite into dolomite, until one of them is used up.
#[test]
fn magnesium_turns_calcite_into_dolomite() {
    let cell = Cell::with_calcite(Water::with_magnesium());
    let (after, answer) = solved(&cell);
    assert_eq!(after.calcite, 0.0);
    assert!(after.dolomite > 1e-5, "{after:?}");
    assert!(answer.calcite_saturation < 0.0 && answer.dolomite_saturation.abs() < 1e-11);
    // With enough calcite both are there.
    let (after, answer) = solved(&Cell { calcite: 1e-2, ..cell });
    assert!(after.calcite > 0.0 && after.dolomite > 1e-5, "{after:?}");
    assert!(answer.calcite_saturation.abs() < 1e-11 && answer.dolomite_saturation.abs() < 1e-11);
}

#[test]
fn what_is_no_water_is_refused() {
    let nan = Cell { calcite: f64::NAN, ..Cell::default() };
    let error = equilibrium(&nan.question(1.0)).unwrap_err();
    assert!(error.to_string().contains("NaN"), "{error}");
    let infinite = Water { carbon: f64::INFINITY, ..Water::pure() };
    equilibrium(&Cell { water: infinite, ..Cell::default() }.question(1.0)).unwrap_err();
}

/// Returns 0 or an amount of any magnitude in the range of groundwater.
fn amount() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 5 => (-16.0..-2.0).prop_map(|log: f64| 10_f64.powf(log))]
}

fn cells() -> impl Strategy<Value = Cell> {
    let salts = [amount(), amount(), amount(), amount()];
    let minerals = [amount(), amount()];
    (salts, amount(), minerals).prop_map(|([ca, mg, na, k], carbon, [calcite, dolomite])| {
        // Chlorides, and carbon as CO2.
        let chloride = 2.0 * (ca + mg) + na + k;
        let water = Water {
            calcium: ca,
            magnesium: mg,
            carbon,
            alkalinity: 0.0,
            chloride,
            sodium: na,
            potassium: k,
        };
        Cell { water, calcite, dolomite }
    })
}

/// Concentrations times `of` the species, summed.
fn sum(answer: &[f64; SPECIES], of: impl Fn(&crate::species::Species) -> i8) -> f64 {
    ALL.iter().zip(answer).map(|(species, amount)| f64::from(of(species)) * amount).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Every water has an equilibrium, in which balances and charges are right, present minerals are
    /// saturated and absent ones are not supersaturated.
    #[test]
    fn equilibria_are_right(cell in cells()) {
        let (after, answer) = solved(&cell);
        prop_assert!(after.calcite >= 0.0 && after.dolomite >= 0.0);
        let minerals = [
            (after.calcite, answer.calcite_saturation),
            (after.dolomite, answer.dolomite_saturation),
        ];
        for (amount, saturation) in minerals {
            prop_assert!(saturation <= 1e-9, "{after:?} {answer:?}");
            // What is left of a mineral that has dissolved but for rounding.
            prop_assert!(amount < 1e-14 || saturation.abs() < 1e-11, "{after:?} {answer:?}");
        }
        // Again from the solution: the same species, of which nothing reacts.
        let again = equilibrium(&after.question(1.0)).unwrap();
        prop_assert!((again.ph - answer.ph).abs() < 1e-9, "{answer:?} {again:?}");
        prop_assert!(again.calcite_dissolves.abs() < 1e-13 && again.dolomite_dissolves.abs() < 1e-13);
    }

    /// Concentrations add up to the totals, and charges to 0.
    #[test]
    fn balances_hold(cell in cells()) {
        let after = Cell { calcite: 0.0, dolomite: 0.0, ..solved(&cell).0 };
        let problem = Problem::new(&after.question(1.0));
        let solution = problem.solution([false; MINERALS]).unwrap();
        let species = &solution.concentrations;
        for (at, total) in problem.totals.iter().enumerate().take(3) {
            let found = sum(species, |species| species.masters[at]);
            prop_assert!((found - total).abs() < 1e-12 * total + 2.0 * TRACE, "{found} {total}");
        }
        let charge = sum(species, |species| species.charge);
        let inert = after.water.sodium + after.water.potassium - after.water.chloride;
        prop_assert!((charge + inert).abs() < 1e-13, "{charge} {inert}");
    }
}
