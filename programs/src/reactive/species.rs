//! The species of the carbonate system, its minerals, and their constants at 25 degrees Celsius.
//!
//! The constants are those of PHREEQC's database `phreeqc.dat` (D. L. Parkhurst and C. A. J. Appelo,
//! USGS Techniques and Methods 6-A43, 2013), which has them from D. K. Nordstrom et al., *Revised
//! chemical equilibrium data for major water-mineral reactions* (1990), and L. N. Plummer and E.
//! Busenberg (Geochimica et Cosmochimica Acta 46, 1982).

/// Components that reactions are written in: Ca2+, Mg2+, CO3 2- and H+.
pub(crate) const MASTERS: usize = 4;
/// Dissolved species.
pub(crate) const SPECIES: usize = 13;
/// Minerals: calcite and dolomite.
pub(crate) const MINERALS: usize = 2;

/// A dissolved species and its formation from the masters.
pub(crate) struct Species {
    pub(crate) charge: i8,
    /// Masters in the species. Water is left out, so OH- has one H+ less than none.
    pub(crate) masters: [i8; MASTERS],
    /// The decimal logarithm of the formation constant.
    pub(crate) log_k: f64,
}

const fn species(charge: i8, masters: [i8; MASTERS], log_k: f64) -> Species {
    Species { charge, masters, log_k }
}

/// Species that are no ion pairs, which come first.
pub(crate) const WITHOUT_PAIRS: usize = 7;

/// All species; the first seven are no ion pairs.
pub(crate) const ALL: [Species; SPECIES] = [
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

/// A mineral: what it dissolves to, and its solubility product.
pub(crate) struct Mineral {
    pub(crate) masters: [i8; MASTERS],
    /// The decimal logarithm of the solubility product.
    pub(crate) log_k: f64,
}

/// Calcite, CaCO3, and dolomite, CaMg(CO3)2.
pub(crate) const CALCITE_AND_DOLOMITE: [Mineral; MINERALS] = [
    Mineral { masters: [1, 0, 1, 0], log_k: -8.48 },
    Mineral { masters: [1, 1, 2, 0], log_k: -17.09 },
];

/// The Debye-Hueckel constant of water at 25 degrees Celsius, in (l/mol)^0.5.
const DEBYE_HUECKEL: f64 = 0.509;
/// The linear term of Davies (1962).
const DAVIES: f64 = 0.3;

/// Returns the natural logarithm of the activity coefficient of an ion with charge 1 by the equation of
/// Davies; that of another ion is the square of its charge times as large. Valid to an ionic strength
/// of about 0.5 mol/l. Species without a charge have a coefficient of 1.
pub(crate) fn ln_davies(ionic_strength: f64) -> f64 {
    let root = ionic_strength.sqrt();
    -DEBYE_HUECKEL * (root / (1.0 + root) - DAVIES * ionic_strength) * core::f64::consts::LN_10
}
