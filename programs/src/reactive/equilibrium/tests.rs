use proptest::prelude::*;

use super::*;
use crate::reactive::cell::Cell;
use crate::reactive::water::Water;

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
    let cell = Cell { calcite: 1.0, ..Cell::default() };
    let (after, result) = solved(&cell);
    assert!((result[PH] - 9.91).abs() < 0.01, "{result:?}");
    assert!((after.water.calcium - 1.22e-4).abs() < 2e-6, "{after:?}");
    assert_eq!(result[0], after.water.calcium);
    assert!(result[SATURATIONS].abs() < 1e-11);
}

/// Calcite in water under the atmosphere, with CO2 at 10^-3.5 atm: the textbooks' pH 8.3 and 0.5 mmol/l
/// of calcium.
#[test]
fn calcite_under_atmosphere() {
    let target = 10_f64.powf(LOG_HENRY - 3.5);
    // The CO2 that was added increases with the carbon, so halving intervals finds it.
    let (mut min, mut max) = (0.0, 1e-2);
    for _ in 0..80 {
        let carbon = f64::midpoint(min, max);
        let cell =
            Cell { water: Water { carbon, ..Water::default() }, calcite: 1.0, dolomite: 0.0 };
        if solved(&cell).1[CONCENTRATIONS + CO2] < target { min = carbon } else { max = carbon }
    }
    let cell =
        Cell { water: Water { carbon: min, ..Water::default() }, calcite: 1.0, dolomite: 0.0 };
    let (after, result) = solved(&cell);
    assert!((result[PH] - 8.3).abs() < 0.05, "{result:?}");
    assert!((after.water.calcium - 4.9e-4).abs() < 3e-5, "{after:?}");
}

#[test]
fn pure_water_has_ph_7() {
    let (_, result) = solved(&Cell::default());
    assert!((result[PH] - 7.0).abs() < 1e-3, "{result:?}");
}

/// Water with magnesium chloride turns calcite into dolomite, until one of them is used up.
#[test]
fn magnesium_turns_calcite_into_dolomite() {
    let cell = Cell::with_calcite(Water::with_magnesium());
    let (after, result) = solved(&cell);
    assert_eq!(after.calcite, 0.0);
    assert!(after.dolomite > 1e-5, "{after:?}");
    assert!(result[SATURATIONS] < 0.0 && result[SATURATIONS + 1].abs() < 1e-11);
    // With enough calcite both are present.
    let (after, result) = solved(&Cell { calcite: 1e-2, ..cell });
    assert!(after.calcite > 0.0 && after.dolomite > 1e-5, "{after:?}");
    assert!(result[SATURATIONS].abs() < 1e-11 && result[SATURATIONS + 1].abs() < 1e-11);
}

#[test]
fn refuses_invalid_input() {
    let water = Cell::with_calcite(Water::with_magnesium()).chemistry_input(1.0);
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e-9] {
        for (at, name) in NAMES.into_iter().enumerate() {
            let mut input = water;
            input[at] = wrong;
            let said = equilibrium(&input).map_err(|error| error.to_string());
            if name == "alkalinity" && wrong == -1e-9 {
                said.unwrap();
            } else {
                assert!(said.unwrap_err().starts_with(name), "{name} {wrong}");
            }
        }
    }
}

/// Amounts that rounding in the flow leaves below 0 are treated as 0.
#[test]
fn treats_rounding_residue_as_zero() {
    let cell = Cell::with_calcite(Water::with_magnesium());
    let below = Water { calcium: -1e-16, carbon: -1e-18, ..cell.water };
    assert_eq!(solved(&Cell { water: below, ..cell }).1, solved(&cell).1);
}

/// The equation of Davies holds to 0.5 mol/l: what dissolves counts too.
#[test]
fn refuses_brines() {
    let brine = |chloride: f64| Cell {
        water: Water { chloride, sodium: chloride, ..Water::default() },
        ..Cell::default()
    };
    solved(&brine(0.49));
    let acid = Cell {
        calcite: 10.0,
        water: Water { alkalinity: -0.49, chloride: 0.49, ..Water::default() },
        dolomite: 0.0,
    };
    for cell in [brine(0.51), brine(3.0), acid] {
        let error = equilibrium(&cell.chemistry_input(1.0)).unwrap_err();
        assert!(matches!(error, Unsolved::TooSaline { ionic_strength } if ionic_strength > 0.5));
        assert!(error.to_string().contains("Davies"), "{error}");
    }
}

/// Guesses that are far from the solution: much mineral beside nearly pure water, strong acids and
/// bases, and each with nothing of an element.
#[test]
fn far_guesses_converge() {
    let amounts = [0.0, 1e-300, 1e-9, 1e-2];
    let minerals = [0.0, 1e-12, 1e-2, 30.0];
    let mut solutions = 0;
    for (calcium, magnesium, carbon, [calcite, dolomite]) in amounts.into_iter().flat_map(|ca| {
        let pairs = amounts.into_iter().flat_map(move |mg| amounts.map(|c| (ca, mg, c)));
        pairs.flat_map(|(ca, mg, c)| {
            minerals
                .into_iter()
                .flat_map(move |one| minerals.map(|other| (ca, mg, c, [one, other])))
        })
    }) {
        // Sodium hydroxide, or hydrochloric acid.
        for base in [-0.05, -1e-6, 0.0, 1e-6, 0.05] {
            let alkalinity = 2.0 * (calcium + magnesium) + base;
            let (sodium, chloride) = (f64::max(base, 0.0), f64::max(-base, 0.0));
            let potassium = 0.0;
            let water =
                Water { calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium };
            let cell = Cell { water, calcite, dolomite };
            let (after, result) = solved(&cell);
            assert!(result.iter().all(|number| number.is_finite()), "{cell:?}");
            assert!((1.0..13.5).contains(&result[PH]), "{cell:?} {result:?}");
            assert!(after.water.charge().abs() < 1e-14, "{after:?}");
            solutions += 1;
        }
    }
    assert_eq!(solutions, 4 * 4 * 4 * 4 * 4 * 5);
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
        let mut water = Water {
            calcium: ca,
            magnesium: mg,
            carbon,
            alkalinity: 0.0,
            chloride: acid.map_or(salt, |acid| 10.0 * acid),
            sodium: na,
            potassium: k,
        };
        water.alkalinity = water.charge();
        Cell { water, calcite: minerals[0], dolomite: minerals[1] }
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
        prop_assert!(after.calcite >= 0.0 && after.dolomite >= 0.0);
        let minerals = [
            (after.calcite, result[SATURATIONS]),
            (after.dolomite, result[SATURATIONS + 1]),
        ];
        for (amount, saturation) in minerals {
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
        let after = Cell { calcite: 0.0, dolomite: 0.0, ..solved(&cell).0 };
        let problem = Problem::new(&after.chemistry_input(1.0));
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
