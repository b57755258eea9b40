//! A cell: its water and its minerals, and the input and the result of its chemistry.

use crate::reactive::water::{COMPONENTS, Water};

/// The number of numbers in a [`ChemistryInput`].
pub const INPUT_NUMBERS: usize = 10;

/// The input of the chemistry of a cell: calcium, magnesium, carbon, alkalinity, chloride, sodium,
/// potassium, calcite and dolomite, in mol per litre of water, and the time step in seconds. 80 bytes.
///
/// Equilibrium does not depend on the time step, and kinetic chemistry would.
pub type ChemistryInput = [f64; INPUT_NUMBERS];

/// The result of the chemistry of a cell. 104 bytes as [`to_array`](Self::to_array) gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChemistryResult {
    /// Calcite that dissolves, in mol per litre of water; negative if it precipitates.
    pub calcite_dissolves: f64,
    /// Dolomite that dissolves, in the same way.
    pub dolomite_dissolves: f64,
    /// The negative decimal logarithm of the activity of H+.
    pub ph: f64,
    /// The ionic strength in mol/l.
    pub ionic_strength: f64,
    /// The concentrations of H+, OH-, CO3 2-, HCO3-, CO2, Ca2+ and Mg2+ in mol/l, without ion pairs.
    pub concentrations: [f64; 7],
    /// The decimal logarithm of the ion activity product of calcite / its solubility product: 0 in
    /// equilibrium, negative if the water would dissolve it.
    pub calcite_saturation: f64,
    /// The same of dolomite.
    pub dolomite_saturation: f64,
}

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

impl Cell {
    /// Returns a cell with this water and the benchmark's calcite.
    #[must_use]
    pub const fn with_calcite(water: Water) -> Self {
        Self { water, calcite: CALCITE, dolomite: 0.0 }
    }

    /// Returns the input of the chemistry of this cell.
    #[must_use]
    pub const fn chemistry_input(&self, step_s: f64) -> ChemistryInput {
        let [calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium] =
            self.water.to_array();
        [
            calcium,
            magnesium,
            carbon,
            alkalinity,
            chloride,
            sodium,
            potassium,
            self.calcite,
            self.dolomite,
            step_s,
        ]
    }

    /// Returns what the cell has of each component, in water and in minerals, in mol per litre of water
    /// (alkalinity in equivalents). Reactions leave it as it is.
    #[must_use]
    pub const fn contents(&self) -> [f64; COMPONENTS] {
        let Self { water, calcite, dolomite } = *self;
        Water {
            calcium: water.calcium + calcite + dolomite,
            magnesium: water.magnesium + dolomite,
            carbon: water.carbon + calcite + 2.0 * dolomite,
            alkalinity: water.alkalinity + 2.0 * calcite + 4.0 * dolomite,
            ..water
        }
        .to_array()
    }

    /// Lets minerals dissolve and precipitate as the result says. What one side gains the other loses,
    /// so elements and charge are conserved even if the result is that of a similar cell. No amount
    /// becomes negative: a mineral dissolves at most as much as is present, and takes at most as much
    /// as is dissolved.
    pub fn react(&mut self, result: &ChemistryResult) {
        // The mineral that precipitates may need what the other one has dissolved.
        if result.calcite_dissolves >= 0.0 {
            self.dissolve_calcite(result.calcite_dissolves);
            self.dissolve_dolomite(result.dolomite_dissolves);
        } else {
            self.dissolve_dolomite(result.dolomite_dissolves);
            self.dissolve_calcite(result.calcite_dissolves);
        }
    }

    fn dissolve_calcite(&mut self, extent: f64) {
        let Self { water, calcite, .. } = self;
        let max = water.calcium.min(water.carbon).max(0.0);
        let extent = extent.clamp(-max, calcite.max(0.0));
        *calcite -= extent;
        water.calcium += extent;
        water.carbon += extent;
        water.alkalinity += 2.0 * extent;
    }

    fn dissolve_dolomite(&mut self, extent: f64) {
        let Self { water, dolomite, .. } = self;
        let max = water.calcium.min(water.magnesium).min(0.5 * water.carbon).max(0.0);
        let extent = extent.clamp(-max, dolomite.max(0.0));
        *dolomite -= extent;
        water.calcium += extent;
        water.magnesium += extent;
        water.carbon += 2.0 * extent;
        water.alkalinity += 4.0 * extent;
    }
}

impl ChemistryResult {
    /// Returns the numbers in the order of the fields.
    #[must_use]
    pub const fn to_array(self) -> [f64; 13] {
        let [h, oh, co3, hco3, co2, ca, mg] = self.concentrations;
        [
            self.calcite_dissolves,
            self.dolomite_dissolves,
            self.ph,
            self.ionic_strength,
            h,
            oh,
            co3,
            hco3,
            co2,
            ca,
            mg,
            self.calcite_saturation,
            self.dolomite_saturation,
        ]
    }

    /// Returns the result with these numbers, in the order of the fields.
    #[must_use]
    pub const fn from_array(numbers: [f64; 13]) -> Self {
        let [calcite_dissolves, dolomite_dissolves, ph, ionic_strength, rest @ ..] = numbers;
        let [h, oh, co3, hco3, co2, ca, mg, calcite_saturation, dolomite_saturation] = rest;
        Self {
            calcite_dissolves,
            dolomite_dissolves,
            ph,
            ionic_strength,
            concentrations: [h, oh, co3, hco3, co2, ca, mg],
            calcite_saturation,
            dolomite_saturation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result that is far from right conserves elements and charge, and leaves no negative amount.
    #[test]
    fn any_result_conserves_mass() {
        let water = Water { calcium: 1e-4, magnesium: 5e-5, carbon: 2e-4, ..Water::pure() };
        for dissolves in [-1.0, -7e-5, 0.0, 3e-5, 1.0] {
            let before = Cell { water, calcite: 1e-4, dolomite: 4e-5 };
            let mut cell = before;
            let (calcite_dissolves, dolomite_dissolves) = (dissolves, -0.5 * dissolves);
            let zeros = ChemistryResult::default();
            cell.react(&ChemistryResult { calcite_dissolves, dolomite_dissolves, ..zeros });
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
        let numbers = core::array::from_fn(|at| at as f64);
        assert_eq!(ChemistryResult::from_array(numbers).to_array(), numbers);
        assert_eq!(size_of_val(&numbers), 104);
        assert_eq!(size_of::<ChemistryInput>(), 80);
    }
}
