//! A small reactive-transport simulation in two dimensions, of the kind for which caches of expensive
//! results are made: water flows through a porous medium that holds calcite, and water with magnesium
//! chloride flows in. Calcite dissolves, dolomite precipitates behind the front and dissolves again as
//! the calcite beside it is used up (P. Engesgaard and K. L. Kipp, *A geochemical transport model for
//! redox-controlled movement of mineral fronts in groundwater flow systems*, Water Resources Research
//! 28(10), 1992).
//!
//! Each time step is split into two (sequential non-iterative operator splitting): [`Flow`] moves the
//! dissolved components of all cells ([`Band`]), then every [`Cell`] is brought into equilibrium by
//! itself ([`equilibrium`]). The second part is a pure function of ten numbers and takes nearly all of
//! the time.
//!
//! ```
//! use probeline_programs::reactive::{
//!     Band, CALCITE, Cell, DOLOMITE, Flow, Grid, equilibrium, magnesium_water,
//! };
//!
//! let grid = Grid { columns: 20, rows: 1 };
//! let flow = Flow::engesgaard_kipp();
//! let mut band = Band::new(grid, 0..1, Cell::resident()?);
//! for _ in 0..100 {
//!     band.flow(&flow, &[magnesium_water()], None, None);
//!     for cell in &mut band.cells {
//!         cell.react(&equilibrium(&cell.chemistry_input(flow.step_s))?);
//!     }
//! }
//! // The calcite at the inflow has dissolved; dolomite is on its way.
//! assert_eq!(band.cells[0].minerals[CALCITE], 0.0);
//! assert!(band.cells.iter().any(|cell| cell.minerals[DOLOMITE] > 1e-5));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod band;
mod cell;
mod equilibrium;

pub use band::{Band, Flow, Grid};
pub use cell::{
    ALKALINITY, CALCITE, CHLORIDE, COMPONENTS, Cell, ChemistryInput, ChemistryResult, DOLOMITE,
    INPUT_NUMBERS, PH, Water, charge, magnesium_water,
};
pub use equilibrium::{Unsolved, equilibrium};
