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
//! use probeline_programs::reactive::{Band, Cell, Flow, Grid, Water};
//!
//! let grid = Grid { columns: 20, rows: 1 };
//! let flow = Flow::engesgaard_kipp();
//! let (resident, inflow) = (Water::with_calcite()?, Water::with_magnesium());
//! let mut band = Band::new(grid, 0..1, Cell::with_calcite(resident));
//! for _ in 0..100 {
//!     band.flow(&flow, &[inflow], None, None);
//!     for cell in band.cells_mut() {
//!         let result = probeline_programs::reactive::equilibrium(&cell.chemistry_input(flow.step_s()))?;
//!         cell.react(&result);
//!     }
//! }
//! // The calcite at the inflow has dissolved; dolomite is on its way.
//! assert_eq!(band.cells()[0].calcite, 0.0);
//! assert!(band.cells().iter().any(|cell| cell.dolomite > 1e-5));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod band;
mod cell;
mod equilibrium;
mod flow;
mod linear;
mod water;

pub use band::{Band, Grid};
pub use cell::{Cell, ChemistryInput, ChemistryResult, INPUT_NUMBERS, PH};
pub use equilibrium::{Unsolved, equilibrium};
pub use flow::{Flow, Unstable};
pub use water::{COMPONENTS, Water};
