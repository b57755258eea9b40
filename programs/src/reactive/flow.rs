//! Flow of water through the grid: advection along the rows, and dispersion.

use crate::reactive::cell::Water;

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
    pub cell_m: f64,
    /// The time step in s.
    pub step_s: f64,
    /// The share of a cell's water that flow replaces in a time step, and those that dispersion mixes with
    /// each neighbour along and across the flow.
    pub(crate) courant: f64,
    along: f64,
    across: f64,
}

impl Flow {
    /// Returns the flow of Engesgaard and Kipp's column: cells of 1 cm, 9.37e-6 m/s, a dispersivity of
    /// 6.7 mm along the flow; here also a tenth of it across the flow, and molecular diffusion of
    /// 1e-9 m^2/s. The time step is 0.9 of the longest that is stable: 1 / (v/dx + 2 (Dx + Dy)/dx^2). No
    /// concentration then leaves the range of those around it.
    #[must_use]
    pub fn engesgaard_kipp() -> Self {
        let (cell_m, velocity_m_per_s, dispersivity_m, diffusion_m2_per_s) =
            (0.01, 9.37e-6, 0.0067, 1e-9);
        let along_m2_per_s = dispersivity_m * velocity_m_per_s + diffusion_m2_per_s;
        let across_m2_per_s = 0.1 * dispersivity_m * velocity_m_per_s + diffusion_m2_per_s;
        let area_m2 = cell_m * cell_m;
        let both = along_m2_per_s + across_m2_per_s;
        let step_s = SHARE_OF_LIMIT / (velocity_m_per_s / cell_m + 2.0 * both / area_m2);
        Self {
            cell_m,
            step_s,
            courant: velocity_m_per_s * step_s / cell_m,
            along: along_m2_per_s * step_s / area_m2,
            across: across_m2_per_s * step_s / area_m2,
        }
    }

    /// Moves water for one time step: returns the waters of `row`, which has the rows `above` and `below`
    /// it unless it is the first or last of the grid.
    pub(crate) fn step_row<'r>(
        &'r self,
        row: &'r [Water],
        above: Option<&'r [Water]>,
        below: Option<&'r [Water]>,
        inflow: &'r Water,
    ) -> impl Iterator<Item = Water> + 'r {
        row.iter().enumerate().map(move |(at, here)| {
            let left = at.checked_sub(1).map(|at| &row[at]);
            let upstream = left.unwrap_or(inflow);
            let (left, right) = (left.unwrap_or(here), row.get(at + 1).unwrap_or(here));
            let [above, below] = [above, below].map(|row| row.map_or(here, |row| &row[at]));
            core::array::from_fn(|component| {
                let c = here[component];
                c + self.courant * (upstream[component] - c)
                    + self.along * ((left[component] - c) + (right[component] - c))
                    + self.across * ((above[component] - c) + (below[component] - c))
            })
        })
    }
}
