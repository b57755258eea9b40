//! Small dense systems of linear equations.

/// Equations that a [`System`] has room for.
pub(crate) const MAX_EQUATIONS: usize = 6;

/// `size` linear equations, at most [`MAX_EQUATIONS`], with as many unknowns.
pub(crate) struct System {
    pub(crate) size: usize,
    pub(crate) matrix: [[f64; MAX_EQUATIONS]; MAX_EQUATIONS],
    pub(crate) right: [f64; MAX_EQUATIONS],
}

impl System {
    pub(crate) fn new(size: usize) -> Self {
        debug_assert!(size <= MAX_EQUATIONS);
        Self { size, matrix: [[0.0; MAX_EQUATIONS]; MAX_EQUATIONS], right: [0.0; MAX_EQUATIONS] }
    }

    /// Solves by Gaussian elimination with scaled rows and partial pivoting. `None` if the matrix is
    /// singular to working precision.
    pub(crate) fn solve(mut self) -> Option<[f64; MAX_EQUATIONS]> {
        for row in 0..self.size {
            self.scale(row)?;
        }
        for pivot in 0..self.size {
            let largest = (pivot..self.size).max_by(|&a, &b| {
                self.matrix[a][pivot].abs().total_cmp(&self.matrix[b][pivot].abs())
            })?;
            self.matrix.swap(pivot, largest);
            self.right.swap(pivot, largest);
            if self.matrix[pivot][pivot].abs() < f64::EPSILON * f64::EPSILON {
                return None;
            }
            self.eliminate(pivot);
        }
        let mut found = [0.0; MAX_EQUATIONS];
        for row in (0..self.size).rev() {
            let known: f64 = (row + 1..self.size).map(|at| self.matrix[row][at] * found[at]).sum();
            found[row] = (self.right[row] - known) / self.matrix[row][row];
        }
        found.iter().all(|value| value.is_finite()).then_some(found)
    }

    /// Divides a row by its largest element.
    fn scale(&mut self, row: usize) -> Option<()> {
        let largest = self.matrix[row].iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        if !(largest > 0.0 && largest.is_finite()) {
            return None;
        }
        self.matrix[row].iter_mut().for_each(|value| *value /= largest);
        self.right[row] /= largest;
        Some(())
    }

    fn eliminate(&mut self, pivot: usize) {
        let (pivot_row, pivot_right) = (self.matrix[pivot], self.right[pivot]);
        for row in pivot + 1..self.size {
            let factor = self.matrix[row][pivot] / pivot_row[pivot];
            for (value, of_pivot) in self.matrix[row].iter_mut().zip(pivot_row) {
                *value -= factor * of_pivot;
            }
            self.right[row] -= factor * pivot_right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_systems_with_pivots() {
        let mut system = System::new(3);
        system.matrix[0][..3].copy_from_slice(&[0.0, 2.0, 1.0]);
        system.matrix[1][..3].copy_from_slice(&[1e-9, 1e-9, 0.0]);
        system.matrix[2][..3].copy_from_slice(&[3.0, 0.0, -1.0]);
        system.right[..3].copy_from_slice(&[7.0, 3e-9, 0.0]);
        let found = system.solve().unwrap();
        for (value, expected) in found.into_iter().zip([1.0, 2.0, 3.0]) {
            assert!((value - expected).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn singular_systems_have_no_solution() {
        let mut system = System::new(2);
        system.matrix[0][..2].copy_from_slice(&[1.0, 2.0]);
        system.matrix[1][..2].copy_from_slice(&[2.0, 4.0]);
        assert!(system.solve().is_none());
    }
}
