//! Waters: dissolved components, and the two waters of the benchmark.

use crate::reactive::cell::Cell;
use crate::reactive::equilibrium::{Unsolved, equilibrium};

/// The number of dissolved components.
pub const COMPONENTS: usize = 7;

/// Sodium chloride in both waters, in mol/l.
const SODIUM_CHLORIDE: f64 = 1e-4;
/// Potassium chloride in both waters, in mol/l.
const POTASSIUM_CHLORIDE: f64 = 2e-5;
/// Magnesium chloride in the water that flows in, in mol/l: the benchmark's.
const MAGNESIUM_CHLORIDE: f64 = 1e-3;

/// The dissolved components of a water, by default none: totals over all species, in mol per litre of water. Mixing and
/// flow conserve each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Water {
    /// Calcium of all species.
    pub calcium: f64,
    /// Magnesium of all species.
    pub magnesium: f64,
    /// Inorganic carbon.
    pub carbon: f64,
    /// Alkalinity in equivalents: what strong acid would neutralise. Negative in acid water.
    pub alkalinity: f64,
    /// Chloride, which takes part in no reaction.
    pub chloride: f64,
    /// Sodium, which takes part in no reaction.
    pub sodium: f64,
    /// Potassium, which takes part in no reaction.
    pub potassium: f64,
}

impl Water {
    /// Returns the charge of all ions in equivalents per litre, from the components. It is 0 up to
    /// rounding in every water that electrolytes were mixed into.
    #[must_use]
    pub fn charge(&self) -> f64 {
        2.0 * (self.calcium + self.magnesium) + self.sodium + self.potassium
            - self.chloride
            - self.alkalinity
    }

    /// Returns the components in the order of the fields.
    #[must_use]
    pub const fn to_array(self) -> [f64; COMPONENTS] {
        let Self { calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium } = self;
        [calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium]
    }

    /// Returns a water with these components, in the order of the fields.
    #[must_use]
    pub const fn from_array(
        [calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium]: [f64; COMPONENTS],
    ) -> Self {
        Self { calcium, magnesium, carbon, alkalinity, chloride, sodium, potassium }
    }

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
        ..Water::default()
    }
}
