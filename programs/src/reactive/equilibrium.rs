//! The equilibrium of a water with calcite and dolomite: Newton's method on the logarithms of
//! activities, for each set of minerals that may be present.
//!
//! The unknowns are the activities of Ca2+, Mg2+, CO3 2- and H+, and how much of each present mineral
//! dissolves. The equations are the balances of the four, and a saturation of 1 for each present
//! mineral. A set of minerals is right if no amount becomes negative and no absent mineral is
//! supersaturated. The solution is the minimum of a convex function, so one set at most is right, up to
//! minerals whose amount is 0 at a saturation of 1.
//!
//! The constants at 25 degrees Celsius are those of PHREEQC's database `phreeqc.dat` (D. L. Parkhurst
//! and C. A. J. Appelo, USGS Techniques and Methods 6-A43, 2013), which has them from D. K. Nordstrom et
//! al., *Revised chemical equilibrium data for major water-mineral reactions* (1990), and L. N. Plummer
//! and E. Busenberg (Geochimica et Cosmochimica Acta 46, 1982).

use core::f64::consts::LN_10;

use crate::reactive::cell::{ALKALINITY, ChemistryInput, ChemistryResult, MINERALS, PH};

/// Components that reactions are written in: Ca2+, Mg2+, CO3 2- and H+.
const MASTERS: usize = 4;
/// Dissolved species.
const SPECIES: usize = 13;
/// Equations, with as many unknowns.
const EQUATIONS: usize = MASTERS + MINERALS;

/// The factors of each unknown in each equation, and its right side.
type System = [[f64; EQUATIONS + 1]; EQUATIONS];

/// A dissolved species and its formation from the masters.
struct Species {
    charge: i8,
    /// Masters in the species. Water is left out, so OH- has one H+ less than none.
    masters: [i8; MASTERS],
    /// The decimal logarithm of the formation constant.
    log_k: f64,
}

const fn species(charge: i8, masters: [i8; MASTERS], log_k: f64) -> Species {
    Species { charge, masters, log_k }
}

/// Number of species that are not ion pairs; they come first.
const WITHOUT_PAIRS: usize = 7;

/// All species; the first seven are not ion pairs.
const ALL: [Species; SPECIES] = [
    species(1, [0, 0, 0, 1], 0.0),     // H+
    species(-1, [0, 0, 0, -1], -14.0), // OH-
    species(-2, [0, 0, 1, 0], 0.0),    // CO3 2-
    species(-1, [0, 0, 1, 1], 10.329), // HCO3-
    species(0, [0, 0, 1, 2], 16.681),  // CO2 (aq); pK1 = 16.681 - 10.329 = 6.352
    species(2, [1, 0, 0, 0], 0.0),     // Ca2+
    species(2, [0, 1, 0, 0], 0.0),     // Mg2+
    species(1, [1, 0, 0, -1], -12.78), // CaOH+
    species(0, [1, 0, 1, 0], 3.224),   // CaCO3 (aq)
    species(1, [1, 0, 1, 1], 11.435),  // CaHCO3+
    species(1, [0, 1, 0, -1], -11.44), // MgOH+
    species(0, [0, 1, 1, 0], 2.98),    // MgCO3 (aq)
    species(1, [0, 1, 1, 1], 11.399),  // MgHCO3+
];

/// Calcite, CaCO3, and dolomite, CaMg(CO3)2, with what they dissolve to, and their solubility products.
const CALCITE_AND_DOLOMITE: [Species; MINERALS] =
    [species(0, [1, 0, 1, 0], -8.48), species(0, [1, 1, 2, 0], -17.09)];

/// The Debye-Hueckel constant of water at 25 degrees Celsius, in (l/mol)^0.5.
const DEBYE_HUECKEL: f64 = 0.509;
/// The linear term of Davies (1962).
const DAVIES: f64 = 0.3;

/// Returns the natural logarithm of the activity coefficient of an ion with charge 1 by the equation of
/// Davies; that of another ion is the square of its charge times as large. Valid to an ionic strength
/// of about 0.5 mol/l. Species without a charge have a coefficient of 1.
fn ln_davies(ionic_strength: f64) -> f64 {
    let root = ionic_strength.sqrt();
    -DEBYE_HUECKEL * (root / (1.0 + root) - DAVIES * ionic_strength) * LN_10
}

/// Places in a [`ChemistryResult`].
const IONIC_STRENGTH: usize = PH + 1;
const CONCENTRATIONS: usize = IONIC_STRENGTH + 1;
const SATURATIONS: usize = CONCENTRATIONS + WITHOUT_PAIRS;

/// The most iterations for a set of minerals. The tests' waters take at most half as many.
const MAX_ITERATIONS: u32 = 100;
/// The largest error of a balance, relative to the sum of its terms' magnitudes, and of the logarithm
/// of a saturation.
const TOLERANCE: f64 = 1e-13;
/// The largest change of the logarithm of an activity in an iteration.
const MAX_STEP: f64 = 3.0;
/// A total below this amount, in mol/l, is taken as this amount, because 0 has no logarithm.
const TRACE: f64 = 1e-16;
/// The logarithm of a saturation above which an absent mineral would precipitate.
const SUPERSATURATED: f64 = 1e-9;
/// The amount below 0, in mol/l, from which on a mineral was absent.
const NEGATIVE: f64 = -1e-15;
/// The magnitude in mol/l up to which a negative amount of the input is an error of rounding.
const ROUNDING: f64 = 1e-12;
/// The ionic strength in mol/l up to which the equation of Davies holds.
const MAX_IONIC_STRENGTH: f64 = 0.5;

/// No equilibrium was found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "no equilibrium of water and minerals with the totals {input:?} (calcium, magnesium, carbon, \
     alkalinity, chloride, sodium, potassium, calcite, dolomite in mol/l; time step in s): {why}"
)]
pub struct Unsolved {
    /// The totals for which none was found.
    pub input: ChemistryInput,
    /// The cause.
    pub why: &'static str,
}

const NO_WATER: &str = "an amount is negative or not a finite number";
const TOO_SALINE: &str =
    "the ionic strength is above 0.5 mol/l, up to which activity coefficients by Davies hold";
const NOT_CONVERGED: &str = "the iterations do not converge";

/// Returns the equilibrium of a cell's water with its minerals.
///
/// Balances hold to 1e-13 of their terms, and saturations of present minerals to 1e-13. Amounts below 0
/// by at most 1e-12 mol/l, as rounding in the flow may leave them, are taken as 0.
///
/// # Errors
/// [`Unsolved`] if the input does not describe water, or water of an ionic strength above 0.5 mol/l. A
/// result is finite in all its numbers.
pub fn equilibrium(input: &ChemistryInput) -> Result<ChemistryResult, Unsolved> {
    let unsolved = |why| Unsolved { input: *input, why };
    let is_water =
        |at, number: f64| number.is_finite() && (at == ALKALINITY || number >= -ROUNDING);
    if !input.iter().enumerate().all(|(at, number)| is_water(at, *number)) {
        return Err(unsolved(NO_WATER));
    }
    let problem = Problem::new(input);
    if problem.inert_strength > MAX_IONIC_STRENGTH {
        return Err(unsolved(TOO_SALINE));
    }
    let now = problem.minerals.map(|amount| amount > 0.0);
    let [calcite, dolomite] = now;
    // The minerals of the previous time step are usually those of this one.
    let sets = [now, [!calcite, dolomite], [calcite, !dolomite], [!calcite, !dolomite]];
    let right = sets.into_iter().find_map(|set| problem.solution(set).filter(Guess::is_right));
    let result = right.ok_or_else(|| unsolved(NOT_CONVERGED))?.result();
    if result[IONIC_STRENGTH] > MAX_IONIC_STRENGTH {
        return Err(unsolved(TOO_SALINE));
    }
    Ok(result)
}

/// The totals of a cell.
struct Problem {
    /// Ca, Mg, C, and the H+ that the species of carbon and of water have.
    totals: [f64; MASTERS],
    /// Calcite and dolomite.
    minerals: [f64; MINERALS],
    /// The ionic strength of ions that do not react.
    inert_strength: f64,
}

/// An approximation of the solution for a set of minerals.
struct Guess<'p> {
    problem: &'p Problem,
    present: [bool; MINERALS],
    /// Totals of the water and of the absent minerals, which are dissolved.
    totals: [f64; MASTERS],
    /// Natural logarithms of the activities of the masters.
    ln_activities: [f64; MASTERS],
    /// The amount of each mineral that dissolves.
    dissolves: [f64; MINERALS],
    concentrations: [f64; SPECIES],
    ionic_strength: f64,
}

impl Problem {
    fn new(input: &ChemistryInput) -> Self {
        let mut amounts = input.map(|number| number.max(0.0));
        amounts[ALKALINITY] = input[ALKALINITY];
        let [calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium, rest @ ..] =
            amounts;
        let [calcite, dolomite, _step_s] = rest;
        Self {
            totals: [calcium, magnesium, carbon, 2.0 * carbon - alkalinity],
            minerals: [calcite, dolomite],
            inert_strength: 0.5 * (chloride + sodium + potassium),
        }
    }

    /// Returns the solution of all equations, in which amounts may be negative and absent minerals
    /// supersaturated. `None` if the iterations do not converge.
    fn solution(&self, present: [bool; MINERALS]) -> Option<Guess<'_>> {
        let mut guess = Guess::new(self, present);
        for _ in 0..MAX_ITERATIONS {
            guess.update_concentrations();
            let system = guess.newton();
            if guess.is_solution(&system) {
                return Some(guess);
            }
            guess.step(system)?;
        }
        None
    }
}

impl<'p> Guess<'p> {
    fn new(problem: &'p Problem, present: [bool; MINERALS]) -> Self {
        let mut totals = problem.totals;
        let mut dissolves = [0.0; MINERALS];
        for (at, mineral) in CALCITE_AND_DOLOMITE.iter().enumerate() {
            if !present[at] {
                dissolves[at] = problem.minerals[at];
                for (total, count) in totals.iter_mut().zip(mineral.masters) {
                    *total += f64::from(count) * dissolves[at];
                }
            }
        }
        for total in &mut totals[..3] {
            *total = total.max(TRACE);
        }
        let any = present.contains(&true);
        // Minerals make up for what is missing.
        let start = |total: f64| if any { total.max(1e-6) } else { total };
        let [calcium, magnesium, carbon, _] = totals;
        let masters = [start(calcium), start(magnesium), 0.02 * start(carbon), 1e-9];
        Self {
            problem,
            present,
            totals,
            ln_activities: masters.map(f64::ln),
            dissolves,
            concentrations: [0.0; SPECIES],
            ionic_strength: problem.inert_strength,
        }
    }

    /// Computes the concentrations of all species from the activities, with the activity coefficients
    /// at the previous ionic strength, and then the ionic strength.
    fn update_concentrations(&mut self) {
        let ln_gamma = ln_davies(self.ionic_strength);
        let mut strength = self.problem.inert_strength;
        for (species, concentration) in ALL.iter().zip(&mut self.concentrations) {
            let squared = f64::from(species.charge * species.charge);
            let ln_activity =
                species.log_k * LN_10 + ln_product(&species.masters, &self.ln_activities);
            *concentration = (ln_activity - squared * ln_gamma).exp();
            strength += 0.5 * squared * *concentration;
        }
        // A guess may be far too large; a solution above 0.5 mol/l is refused.
        self.ionic_strength = strength.min(1.0);
    }

    /// Returns the logarithm of the saturation of a mineral.
    fn ln_saturation(&self, mineral: usize) -> f64 {
        let mineral = &CALCITE_AND_DOLOMITE[mineral];
        ln_product(&mineral.masters, &self.ln_activities) - mineral.log_k * LN_10
    }

    /// Returns the equations of the next step: the residuals, and their derivatives by the logarithms
    /// of the activities and by the amounts that dissolve. It leaves out that activity coefficients
    /// change, which are near to constant. Of an absent mineral nothing more dissolves.
    fn newton(&self) -> System {
        let mut system = System::default();
        for (row, total) in system.iter_mut().zip(self.totals) {
            row[EQUATIONS] = total;
        }
        for (species, &concentration) in ALL.iter().zip(&self.concentrations) {
            for row in (0..MASTERS).filter(|&row| species.masters[row] != 0) {
                let part = f64::from(species.masters[row]) * concentration;
                system[row][EQUATIONS] -= part;
                for (factor, count) in system[row].iter_mut().zip(species.masters) {
                    *factor += part * f64::from(count);
                }
            }
        }
        for (mineral, at) in (0..MINERALS).zip(MASTERS..) {
            if !self.present[mineral] {
                system[at][at] = 1.0;
                continue;
            }
            let masters = CALCITE_AND_DOLOMITE[mineral].masters.map(f64::from);
            for (master, count) in masters.into_iter().enumerate() {
                system[master][EQUATIONS] += count * self.dissolves[mineral];
                system[master][at] = -count;
                system[at][master] = count;
            }
            system[at][EQUATIONS] = -self.ln_saturation(mineral);
        }
        system
    }

    /// Returns whether all residuals, the right sides, are within the tolerance.
    fn is_solution(&self, system: &System) -> bool {
        let mut magnitudes = self.totals.map(f64::abs);
        for (species, &concentration) in ALL.iter().zip(&self.concentrations) {
            for (magnitude, count) in magnitudes.iter_mut().zip(species.masters) {
                *magnitude += f64::from(count).abs() * concentration;
            }
        }
        // The logarithms of saturations have magnitudes of some tens.
        let magnitudes = magnitudes.into_iter().chain([40.0; MINERALS]);
        system.iter().zip(magnitudes).all(|(row, of)| row[EQUATIONS].abs() <= TOLERANCE * of)
    }

    /// Takes a step of Newton's method, shorter if an activity would change too much.
    fn step(&mut self, system: System) -> Option<()> {
        let step = solve(system)?;
        let largest = step[..MASTERS].iter().fold(0.0_f64, |most, by| most.max(by.abs()));
        let share = (MAX_STEP / largest).min(1.0);
        let unknowns = self.ln_activities.iter_mut().chain(&mut self.dissolves);
        unknowns.zip(step).for_each(|(unknown, by)| *unknown += share * by);
        Some(())
    }

    fn is_right(&self) -> bool {
        (0..MINERALS).all(|mineral| {
            if self.present[mineral] {
                self.problem.minerals[mineral] - self.dissolves[mineral] >= NEGATIVE
            } else {
                self.ln_saturation(mineral) <= SUPERSATURATED
            }
        })
    }

    fn result(&self) -> ChemistryResult {
        let mut result = ChemistryResult::default();
        result[..MINERALS].copy_from_slice(&self.dissolves);
        result[PH] = -self.ln_activities[3] / LN_10;
        result[IONIC_STRENGTH] = self.ionic_strength;
        let saturations = [0, 1].map(|mineral| self.ln_saturation(mineral) / LN_10);
        result[SATURATIONS..].copy_from_slice(&saturations);
        result[CONCENTRATIONS..SATURATIONS].copy_from_slice(&self.concentrations[..WITHOUT_PAIRS]);
        result
    }
}

/// Returns the logarithm of the product of these masters' activities.
fn ln_product(masters: &[i8; MASTERS], ln_activities: &[f64; MASTERS]) -> f64 {
    masters.iter().zip(ln_activities).map(|(&count, ln)| f64::from(count) * ln).sum()
}

/// Solves by Gaussian elimination with scaled rows and partial pivoting. `None` if the equations are
/// singular to working precision.
fn solve(mut system: System) -> Option<[f64; EQUATIONS]> {
    for row in &mut system {
        let largest = row[..EQUATIONS].iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        row.iter_mut().for_each(|value| *value /= largest);
    }
    for pivot in 0..EQUATIONS {
        let size = |row: &usize| system[*row][pivot].abs();
        let largest = (pivot..EQUATIONS).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        system.swap(pivot, largest);
        let of_pivot = system[pivot];
        for row in system.iter_mut().skip(pivot + 1).filter(|row| row[pivot] != 0.0) {
            let factor = row[pivot] / of_pivot[pivot];
            row.iter_mut().zip(of_pivot).for_each(|(value, of_pivot)| *value -= factor * of_pivot);
        }
    }
    let mut found = [0.0; EQUATIONS];
    for at in (0..EQUATIONS).rev() {
        let known: f64 = (at + 1..EQUATIONS).map(|of| system[at][of] * found[of]).sum();
        found[at] = (system[at][EQUATIONS] - known) / system[at][at];
    }
    // A division by 0 leaves no finite number.
    found.iter().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests;
