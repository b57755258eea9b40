//! A cell: its water and its minerals, and the input and the result of its chemistry.

use crate::reactive::water::{COMPONENTS, Water};

/// The number of numbers in a [`ChemistryInput`].
pub const INPUT_NUMBERS: usize = 10;

/// The input of the chemistry of a cell: calcium, magnesium, carbon, alkalinity, chloride, sodium,
/// potassium, calcite and dolomite, in mol per litre of water, and the time step in seconds. 80 bytes.
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

/// One cell of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// The dissolved components.
    pub water: Water,
    /// Calcite in mol per litre of water.
    pub calcite: f64,
    /// Dolomite in mol per litre of water.
    pub dolomite: f64,
}

/// Calcite in each cell at first, in mol per litre of water: the benchmark's 2.176e-5 mol per kg of
/// rock, at a bulk density of 1.8 kg/l and a porosity of 0.32.
const CALCITE: f64 = 2.176e-5 * 1.8 / 0.32;

/// The components in calcite, CaCO3, and in dolomite, CaMg(CO3)2.
const MINERALS: [[f64; COMPONENTS]; 2] =
    [[1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0], [1.0, 1.0, 2.0, 4.0, 0.0, 0.0, 0.0]];
/// The first components are elements, of which a water has no negative amount.
const ELEMENTS: usize = 3;

impl Cell {
    /// Returns a cell with this water and the benchmark's calcite.
    #[must_use]
    pub const fn with_calcite(water: Water) -> Self {
        Self { water, calcite: CALCITE, dolomite: 0.0 }
    }

    /// Returns the input of the chemistry of this cell.
    #[must_use]
    pub fn chemistry_input(&self, step_s: f64) -> ChemistryInput {
        let mut input = [0.0; INPUT_NUMBERS];
        input[..COMPONENTS].copy_from_slice(&self.water.to_array());
        input[COMPONENTS..].copy_from_slice(&[self.calcite, self.dolomite, step_s]);
        input
    }

    /// Returns what the cell has of each component, in water and in minerals, in mol per litre of water
    /// (alkalinity in equivalents). Reactions leave it as it is.
    #[must_use]
    pub fn contents(&self) -> [f64; COMPONENTS] {
        let mut contents = self.water.to_array();
        add(&mut contents, MINERALS[0], self.calcite);
        add(&mut contents, MINERALS[1], self.dolomite);
        contents
    }

    /// Lets minerals dissolve and precipitate as the result says. What one side gains the other loses,
    /// so elements and charge are conserved even if the result is that of a similar cell. No amount
    /// becomes negative: a mineral dissolves at most as much as is present, and takes at most as much
    /// as is dissolved.
    pub fn react(&mut self, result: &ChemistryResult) {
        let mut water = self.water.to_array();
        let mut amounts = [self.calcite, self.dolomite];
        // The mineral that precipitates may need what the other one has dissolved.
        let order = if result[0] >= 0.0 { [0, 1] } else { [1, 0] };
        for mineral in order {
            let needs = MINERALS[mineral];
            let yields = water.iter().zip(needs).take(ELEMENTS).filter(|(_, needs)| *needs > 0.0);
            let most = yields.map(|(has, needs)| has / needs).fold(f64::INFINITY, f64::min);
            let extent = result[mineral].clamp(-most.max(0.0), amounts[mineral].max(0.0));
            amounts[mineral] -= extent;
            add(&mut water, needs, extent);
        }
        [self.calcite, self.dolomite] = amounts;
        self.water = Water::from_array(water);
    }
}

/// Adds a multiple of these components.
pub(crate) fn add(sum: &mut [f64; COMPONENTS], components: [f64; COMPONENTS], times: f64) {
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
        let water = Water { calcium: 1e-4, magnesium: 5e-5, carbon: 2e-4, ..Water::default() };
        for dissolves in [-1.0, -7e-5, 0.0, 3e-5, 1.0] {
            let before = Cell { water, calcite: 1e-4, dolomite: 4e-5 };
            let mut cell = before;
            let mut result = ChemistryResult::default();
            result[..2].copy_from_slice(&[dissolves, -0.5 * dissolves]);
            cell.react(&result);
            assert!(cell.calcite >= 0.0 && cell.dolomite >= 0.0, "{cell:?}");
            assert!(cell.water.to_array().iter().take(3).all(|&total| total >= 0.0), "{cell:?}");
            let calcium = |cell: &Cell| cell.water.calcium + cell.calcite + cell.dolomite;
            let carbon = |cell: &Cell| cell.water.carbon + cell.calcite + 2.0 * cell.dolomite;
            assert!((calcium(&cell) - calcium(&before)).abs() < 1e-18);
            assert!((carbon(&cell) - carbon(&before)).abs() < 1e-18);
            assert!((cell.water.charge() - before.water.charge()).abs() < 1e-18);
        }
    }

    #[test]
    fn result_has_thirteen_numbers() {
        assert_eq!(size_of::<ChemistryResult>(), 104);
        assert_eq!(size_of::<ChemistryInput>(), 80);
    }
}
