//! A cell: its water and its minerals, and the input and the result of its chemistry.

use crate::reactive::equilibrium::{Unsolved, equilibrium};

/// The number of dissolved components.
pub const COMPONENTS: usize = 7;
/// Minerals: calcite and dolomite.
pub(crate) const MINERALS: usize = 2;
/// The place of calcite in [`Cell::minerals`] and in a [`ChemistryResult`].
pub const CALCITE: usize = 0;
/// The place of dolomite in [`Cell::minerals`] and in a [`ChemistryResult`].
pub const DOLOMITE: usize = 1;
/// The place of alkalinity in a [`Water`], which alone may be negative.
pub const ALKALINITY: usize = 3;
/// The place of chloride in a [`Water`].
pub const CHLORIDE: usize = 4;
/// The number of numbers in a [`ChemistryInput`].
pub const INPUT_NUMBERS: usize = COMPONENTS + MINERALS + 1;

/// The dissolved components of a water in mol per litre, totals over all species: calcium, magnesium,
/// inorganic carbon, alkalinity (in equivalents: what strong acid would neutralise, negative in acid
/// water), and chloride, sodium and potassium, which take part in no reaction. Mixing and flow conserve
/// each of them.
pub type Water = [f64; COMPONENTS];

/// The input of the chemistry of a cell: its water, calcite and dolomite, in mol per litre of water, and
/// the time step in seconds. 80 bytes.
///
/// Equilibrium does not depend on the time step, and kinetic chemistry would.
pub type ChemistryInput = [f64; INPUT_NUMBERS];

/// The result of the chemistry of a cell: the calcite and the dolomite that dissolve, in mol per litre of
/// water, negative if they precipitate; the pH; the ionic strength in mol/l; the concentrations of H+,
/// OH-, CO3 2-, HCO3-, CO2, Ca2+ and Mg2+ in mol/l, without ion pairs; and the decimal logarithms of the
/// saturations of calcite and dolomite, 0 in equilibrium and negative if the water would dissolve them.
/// 104 bytes.
pub type ChemistryResult = [f64; 13];

/// The place of the negative decimal logarithm of the activity of H+ in a [`ChemistryResult`].
pub const PH: usize = 2;

const _: () = assert!(size_of::<ChemistryInput>() == 80 && size_of::<ChemistryResult>() == 104);

/// One cell of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// The dissolved components.
    pub water: Water,
    /// Calcite and dolomite in mol per litre of water.
    pub minerals: [f64; MINERALS],
}

/// Calcite in each cell at first, in mol per litre of water: the benchmark's 2.176e-5 mol per kg of
/// rock, at a bulk density of 1.8 kg/l and a porosity of 0.32.
const CALCITE_AT_FIRST: f64 = 2.176e-5 * 1.8 / 0.32;
/// Sodium and potassium chloride in both waters, in mol/l.
const SODIUM_CHLORIDE: f64 = 1e-4;
const POTASSIUM_CHLORIDE: f64 = 2e-5;
/// Magnesium chloride in the water that flows in, in mol/l: the benchmark's.
const MAGNESIUM_CHLORIDE: f64 = 1e-3;

/// The components in calcite, CaCO3, and in dolomite, CaMg(CO3)2.
const COMPOSITIONS: [Water; MINERALS] =
    [[1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0], [1.0, 1.0, 2.0, 4.0, 0.0, 0.0, 0.0]];
/// The first components are elements, of which a water has no negative amount.
const ELEMENTS: usize = 3;

/// Returns the water with little sodium and potassium chloride, and this much magnesium chloride.
fn salt(magnesium: f64) -> Water {
    let chloride = SODIUM_CHLORIDE + POTASSIUM_CHLORIDE + 2.0 * magnesium;
    [0.0, magnesium, 0.0, 0.0, chloride, SODIUM_CHLORIDE, POTASSIUM_CHLORIDE]
}

/// Returns the water that flows in: 1 mmol/l magnesium chloride, neutral, without calcium or carbon.
#[must_use]
pub fn magnesium_water() -> Water {
    salt(MAGNESIUM_CHLORIDE)
}

/// Returns the charge of all ions in equivalents per litre, from the components. It is 0 up to rounding
/// in every water that electrolytes were mixed into.
#[must_use]
pub fn charge(water: &Water) -> f64 {
    let [calcium, magnesium, _, alkalinity, chloride, sodium, potassium] = water;
    2.0 * (calcium + magnesium) + sodium + potassium - chloride - alkalinity
}

impl Cell {
    /// Returns a cell as all are at first: with the benchmark's calcite, and with water in equilibrium with
    /// calcite, closed to the atmosphere, with little sodium and potassium chloride.
    ///
    /// # Errors
    /// [`Unsolved`]: a defect.
    pub fn resident() -> Result<Self, Unsolved> {
        let mut cell = Self { water: salt(0.0), minerals: [1.0, 0.0] };
        cell.react(&equilibrium(&cell.chemistry_input(0.0))?);
        Ok(Self { minerals: [CALCITE_AT_FIRST, 0.0], ..cell })
    }

    /// Returns the input of the chemistry of this cell.
    #[must_use]
    pub fn chemistry_input(&self, step_s: f64) -> ChemistryInput {
        let mut input = [step_s; INPUT_NUMBERS];
        let numbers = self.water.iter().chain(&self.minerals);
        input.iter_mut().zip(numbers).for_each(|(input, number)| *input = *number);
        input
    }

    /// Returns what the cell has of each component, in water and in minerals, in mol per litre of water
    /// (alkalinity in equivalents). Reactions leave it as it is.
    #[must_use]
    pub fn contents(&self) -> Water {
        let mut contents = self.water;
        for (composition, amount) in COMPOSITIONS.iter().zip(self.minerals) {
            add(&mut contents, composition, amount);
        }
        contents
    }

    /// Lets minerals dissolve and precipitate as the result says. What one side gains the other loses,
    /// so elements and charge are conserved even if the result is that of a similar cell. No amount
    /// becomes negative: a mineral dissolves at most as much as is present, and takes at most as much
    /// as is dissolved.
    pub fn react(&mut self, result: &ChemistryResult) {
        // The mineral that precipitates may need what the other one has dissolved.
        let order = if result[CALCITE] >= 0.0 { [CALCITE, DOLOMITE] } else { [DOLOMITE, CALCITE] };
        for mineral in order {
            let needs = &COMPOSITIONS[mineral];
            let elements = self.water.iter().zip(needs).take(ELEMENTS);
            let yields =
                elements.filter(|(_, needs)| **needs > 0.0).map(|(has, needs)| has / needs);
            let most = yields.fold(f64::INFINITY, f64::min).max(0.0);
            let extent = result[mineral].clamp(-most, self.minerals[mineral].max(0.0));
            self.minerals[mineral] -= extent;
            add(&mut self.water, needs, extent);
        }
    }
}

/// Adds a multiple of these components.
pub(crate) fn add(sum: &mut Water, components: &Water, times: f64) {
    for (sum, component) in sum.iter_mut().zip(components) {
        *sum += times * component;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result that is far from right conserves elements and charge, and leaves no negative amount.
    #[test]
    fn any_result_conserves_mass() {
        let water = [1e-4, 5e-5, 2e-4, 0.0, 0.0, 0.0, 0.0];
        for dissolves in [-1.0, -7e-5, 0.0, 3e-5, 1.0] {
            let before = Cell { water, minerals: [1e-4, 4e-5] };
            let mut cell = before;
            let mut result = ChemistryResult::default();
            result[..2].copy_from_slice(&[dissolves, -0.5 * dissolves]);
            cell.react(&result);
            let amounts = cell.minerals.iter().chain(&cell.water[..ELEMENTS]);
            assert!(amounts.into_iter().all(|amount| *amount >= 0.0), "{cell:?}");
            for (after, before) in cell.contents().into_iter().zip(before.contents()) {
                assert!((after - before).abs() < 1e-18);
            }
            assert!((charge(&cell.water) - charge(&before.water)).abs() < 1e-18);
        }
    }

    /// One mineral precipitates from what the other one dissolves.
    #[test]
    fn dissolves_before_precipitating() {
        for (first, second) in [(0, 1), (1, 0)] {
            let mut cell = Cell { minerals: [1e-4; 2], ..Cell::default() };
            cell.water[1] = 1e-4;
            let mut result = ChemistryResult::default();
            (result[first], result[second]) = (5e-5, -2e-5);
            cell.react(&result);
            assert!(cell.minerals[second] > 1e-4, "{cell:?}");
        }
    }
}
