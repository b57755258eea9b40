//! The two waters of the benchmark.

use crate::reactive::cell::Cell;
use crate::reactive::equilibrium::{Unsolved, equilibrium};
use crate::reactive::water::Water;

/// Sodium chloride in both waters, in mol/l.
const SODIUM_CHLORIDE: f64 = 1e-4;
/// Potassium chloride in both waters, in mol/l.
const POTASSIUM_CHLORIDE: f64 = 2e-5;
/// Magnesium chloride in the water that flows in, in mol/l: the benchmark's.
const MAGNESIUM_CHLORIDE: f64 = 1e-3;

impl Water {
    /// Returns the water that is in the pores at first: in equilibrium with calcite, closed to the
    /// atmosphere, with little sodium and potassium chloride.
    ///
    /// # Errors
    /// [`Unsolved`]: a defect.
    pub fn with_calcite() -> Result<Self, Unsolved> {
        let mut cell = Cell { water: salt(), calcite: 1.0, dolomite: 0.0 };
        let result = equilibrium(&cell.chemistry_input(0.0))?;
        cell.react(&result);
        Ok(cell.water)
    }

    /// Returns the water that flows in: 1 mmol/l magnesium chloride, neutral, without calcium or
    /// carbon.
    #[must_use]
    pub fn with_magnesium() -> Self {
        let salt = salt();
        Self {
            magnesium: MAGNESIUM_CHLORIDE,
            chloride: salt.chloride + 2.0 * MAGNESIUM_CHLORIDE,
            ..salt
        }
    }
}

fn salt() -> Water {
    Water {
        chloride: SODIUM_CHLORIDE + POTASSIUM_CHLORIDE,
        sodium: SODIUM_CHLORIDE,
        potassium: POTASSIUM_CHLORIDE,
        ..Water::pure()
    }
}
