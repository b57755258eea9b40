//! Waters: dissolved components.

/// The number of dissolved components.
pub const COMPONENTS: usize = 7;

/// The dissolved components of a water: totals over all species, in mol per litre of water. Mixing and
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
    /// Returns pure water.
    #[must_use]
    pub fn pure() -> Self {
        Self::default()
    }

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
}
