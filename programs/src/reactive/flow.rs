//! Flow of water through the grid: advection along the rows, and dispersion.

use core::ops::Range;

use crate::reactive::band::Grid;
use crate::reactive::water::{COMPONENTS, Water};

/// The dissolved components of a row's cells.
pub(crate) type Row = [[f64; COMPONENTS]];

/// The share of the largest stable time step that is taken.
const SHARE_OF_LIMIT: f64 = 0.9;

/// A uniform flow along the rows, with dispersion, in explicit steps: advection by differences towards
/// the flow (upwind), dispersion by central differences.
///
/// The flow brings water in at the first column, whose concentration the caller gives, and carries it
/// out at the last one, both without dispersion. Nothing crosses the other two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The length of a cell's side, in m.
    cell_m: f64,
    /// The velocity of the water in the pores, in m/s.
    velocity_m_per_s: f64,
    /// Dispersion along and across the flow, in m^2/s.
    along_m2_per_s: f64,
    across_m2_per_s: f64,
    step_s: f64,
}

/// A time step is too long for explicit differences.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a time step of {step_s} s is unstable on this grid: it must be positive and at most {limit_s} s, \
     so that no more water leaves a cell than is in it (Courant-Friedrichs-Lewy)"
)]
pub struct Unstable {
    /// The step that was asked for.
    pub step_s: f64,
    /// The longest stable one.
    pub limit_s: f64,
}

impl Flow {
    /// Returns the flow of Engesgaard and Kipp's column: cells of 1 cm, 9.37e-6 m/s, a dispersivity of
    /// 6.7 mm along the flow; here also a tenth of it across the flow, and molecular diffusion of
    /// 1e-9 m^2/s. The time step is 0.9 of the longest that is stable.
    #[must_use]
    pub fn engesgaard_kipp() -> Self {
        let (velocity_m_per_s, dispersivity_m, diffusion_m2_per_s) = (9.37e-6, 0.0067, 1e-9);
        let across = 0.1 * dispersivity_m * velocity_m_per_s + diffusion_m2_per_s;
        let flow = Self {
            cell_m: 0.01,
            velocity_m_per_s,
            along_m2_per_s: dispersivity_m * velocity_m_per_s + diffusion_m2_per_s,
            across_m2_per_s: across,
            step_s: 0.0,
        };
        Self { step_s: SHARE_OF_LIMIT * flow.limit_s(), ..flow }
    }

    /// Sets the time step.
    ///
    /// # Errors
    /// [`Unstable`] if it is longer than [`limit_s`](Self::limit_s), or not positive.
    pub fn with_step_s(self, step_s: f64) -> Result<Self, Unstable> {
        let limit_s = self.limit_s();
        if step_s > 0.0 && step_s <= limit_s {
            Ok(Self { step_s, ..self })
        } else {
            Err(Unstable { step_s, limit_s })
        }
    }

    /// Returns the longest stable time step, in s: 1 / (v/dx + 2 (Dx + Dy)/dx^2). No concentration
    /// then leaves the range of those around it.
    #[must_use]
    pub fn limit_s(&self) -> f64 {
        let both = self.along_m2_per_s + self.across_m2_per_s;
        1.0 / (self.velocity_m_per_s / self.cell_m + 2.0 * both / (self.cell_m * self.cell_m))
    }

    /// Returns the time step in s.
    #[must_use]
    pub fn step_s(&self) -> f64 {
        self.step_s
    }

    /// Returns the length of a cell's side in m.
    #[must_use]
    pub fn cell_m(&self) -> f64 {
        self.cell_m
    }

    /// Returns the share of a cell's water that flow replaces in a time step.
    pub(crate) fn courant(&self) -> f64 {
        self.velocity_m_per_s * self.step_s / self.cell_m
    }

    /// Returns the waters that flow into these rows of the grid: `inflow` through the inlet, and
    /// `resident` beside it.
    #[must_use]
    pub fn waters(grid: Grid, rows: Range<usize>, inflow: Water, resident: Water) -> Vec<Water> {
        let inlet = grid.inlet();
        rows.map(|row| if inlet.contains(&row) { inflow } else { resident }).collect()
    }

    /// Moves water for one time step: returns in `after` the components of `row`, which has the rows
    /// `above` and `below` it unless it is the first or last of the grid.
    pub(crate) fn step_row(
        &self,
        row: &Row,
        above: Option<&Row>,
        below: Option<&Row>,
        inflow: &[f64; COMPONENTS],
        after: &mut Row,
    ) {
        let courant = self.courant();
        let per_area = self.step_s / (self.cell_m * self.cell_m);
        let (along, across) = (self.along_m2_per_s * per_area, self.across_m2_per_s * per_area);
        let last = row.len().saturating_sub(1);
        for (at, (after, here)) in after.iter_mut().zip(row).enumerate() {
            let (left, right) = (at.checked_sub(1).map(|at| &row[at]), row.get(at + 1));
            let upstream = left.unwrap_or(inflow);
            let (left, right) = (left.unwrap_or(here), right.filter(|_| at < last).unwrap_or(here));
            let (above, below) =
                (above.map_or(here, |row| &row[at]), below.map_or(here, |row| &row[at]));
            for (component, after) in after.iter_mut().enumerate() {
                let c = here[component];
                *after = c
                    + courant * (upstream[component] - c)
                    + along * ((left[component] - c) + (right[component] - c))
                    + across * ((above[component] - c) + (below[component] - c));
            }
        }
    }
}
