//! Fits a constant and two factors to a few runs by least squares.

/// The unknowns: a constant and two factors.
pub(crate) const UNKNOWNS: usize = 3;

/// The accepted range of a factor. The minimum is the time of a READ from the nearest CPU cache /
/// the time of one from memory.
pub(crate) const LEAST_FACTOR: f64 = 0.05;
pub(crate) const MOST_FACTOR: f64 = 4.0;
/// The standard deviations that weight the equations: the noise of a run as a share of its time,
/// and the prior of a factor around 1. The prior keeps a factor near 1 if the runs hardly determine
/// it.
const CHANCE: f64 = 0.03;
const OFF_ONE: f64 = 0.5;

/// The normal equations: the matrix of the rows times their transpose, and the right-hand sides.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    squares: [[f64; UNKNOWNS]; UNKNOWNS],
    sides: [f64; UNKNOWNS],
    /// The lower bound of the constant: it may cancel the known part of a run, within noise.
    least_constant: f64,
}

/// The solution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) unknowns: [f64; UNKNOWNS],
    /// Whether the constant or a factor is at a bound of its accepted range.
    pub(crate) pinned: bool,
}

impl Fit {
    pub(crate) fn new() -> Self {
        let (squares, sides) = ([[0.0; UNKNOWNS]; UNKNOWNS], [0.0; UNKNOWNS]);
        let mut fit = Self { squares, sides, least_constant: f64::NEG_INFINITY };
        let weight = CHANCE / OFF_ONE;
        fit.add([0.0, weight, 0.0], weight);
        fit.add([0.0, 0.0, weight], weight);
        fit
    }

    /// Adds a run of `ns` nanoseconds, of which `known` are known. The rest is the constant plus
    /// the sum of `factors`, each multiplied by its unknown.
    pub(crate) fn run(&mut self, ns: f64, known: f64, factors: [f64; 2]) {
        // Noise is a share of the time of a run.
        let weight = 1.0 / ns.max(1e-3);
        let [first, second] = factors;
        self.add([weight, weight * first, weight * second], weight * (ns - known));
        self.least_constant = self.least_constant.max(-known - CHANCE * ns);
    }

    fn add(&mut self, row: [f64; UNKNOWNS], side: f64) {
        for (at, &one) in row.iter().enumerate() {
            for (of, &other) in row.iter().enumerate() {
                self.squares[at][of] += one * other;
            }
            self.sides[at] += one * side;
        }
    }

    /// Solves for the unknowns within their accepted ranges.
    pub(crate) fn solve(&self) -> Fitted {
        let factor = (LEAST_FACTOR, MOST_FACTOR);
        let bounds = [(self.least_constant, f64::INFINITY), factor, factor];
        let is_odd = |at: usize, value: f64| !(bounds[at].0..=bounds[at].1).contains(&value);
        let mut fixed = [None; UNKNOWNS];
        let mut unknowns = self.solve_with(fixed);
        // Each iteration fixes one of the three unknowns.
        while let Some(at) =
            (0..UNKNOWNS).find(|&at| fixed[at].is_none() && is_odd(at, unknowns[at]))
        {
            fixed[at] = Some(unknowns[at].clamp(bounds[at].0, bounds[at].1));
            unknowns = self.solve_with(fixed);
        }
        Fitted { unknowns, pinned: fixed.iter().any(Option::is_some) }
    }

    /// Solves by Gaussian elimination. The diagonal of the normal equations is positive after one
    /// run.
    fn solve_with(&self, fixed: [Option<f64>; UNKNOWNS]) -> [f64; UNKNOWNS] {
        let (mut rows, mut sides) = (self.squares, self.sides);
        for (at, value) in fixed.iter().enumerate() {
            if let Some(value) = *value {
                rows[at] = [0.0; UNKNOWNS];
                rows[at][at] = 1.0;
                sides[at] = value;
            }
        }
        for pivot in 0..UNKNOWNS {
            let (by, side) = (rows[pivot], sides[pivot]);
            for (at, (row, its_side)) in rows.iter_mut().zip(&mut sides).enumerate() {
                if at == pivot || by[pivot] == 0.0 {
                    continue;
                }
                let times = row[pivot] / by[pivot];
                for (one, other) in row.iter_mut().zip(by) {
                    *one -= times * other;
                }
                *its_side -= times * side;
            }
        }
        let mut unknowns = [0.0; UNKNOWNS];
        for (at, unknown) in unknowns.iter_mut().enumerate() {
            *unknown = if rows[at][at] == 0.0 { 0.0 } else { sides[at] / rows[at][at] };
        }
        unknowns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(runs: &[([f64; 2], f64)]) -> Fitted {
        let mut fit = Fit::new();
        for &(factors, ns) in runs {
            fit.run(ns, 40.0, factors);
        }
        fit.solve()
    }

    fn near(found: f64, expected: f64, within: f64) -> bool {
        (found - expected).abs() < within
    }

    #[test]
    fn runs_determine_the_constant_and_the_factors() {
        let of = |factors: [f64; 2]| 40.0 + 150.0 + 0.9 * factors[0] + 0.3 * factors[1];
        let runs = [[200.0, 500.0], [230.0, 115.0], [380.0, 20.0]].map(|at| (at, of(at)));
        let Fitted { unknowns: [constant, first, second], pinned } = fitted(&runs);
        assert!(near(constant, 150.0, 12.0) && !pinned, "{constant}");
        assert!(near(first, 0.9, 0.05) && near(second, 0.3, 0.02), "{first} {second}");
    }

    #[test]
    fn undetermined_factors_are_one() {
        let same = [([200.0, 10.0], 340.0); 3];
        let Fitted { unknowns: [constant, first, second], pinned } = fitted(&same);
        assert!(near(constant, 90.0, 1.0) && near(first, 1.0, 0.01) && near(second, 1.0, 0.01));
        assert!(!pinned);
        assert_eq!(Fit::new().solve().unknowns, [0.0, 1.0, 1.0]);
    }

    #[test]
    fn a_factor_out_of_range_is_pinned_and_the_others_are_fitted() {
        let of = |factors: [f64; 2]| 40.0 + 100.0 + 0.9 * factors[0] - 0.5 * factors[1];
        let runs = [[200.0, 500.0], [230.0, 115.0], [380.0, 20.0]].map(|at| (at, of(at)));
        let Fitted { unknowns: [_, first, second], pinned } = fitted(&runs);
        assert!(pinned);
        assert_eq!(second.to_bits(), LEAST_FACTOR.to_bits());
        assert!((LEAST_FACTOR..=MOST_FACTOR).contains(&first), "{first}");
    }

    /// Runs that alternate with other work suggest that READs take longer than the whole run.
    #[test]
    fn a_negative_constant_cancels_at_most_the_known_part() {
        let of = |constant: f64, factors: [f64; 2]| {
            (factors, 40.0 + constant + 1.5 * factors[0] + 0.8 * factors[1])
        };
        let runs =
            |constant| [[200.0, 500.0], [230.0, 115.0], [380.0, 20.0]].map(|at| of(constant, at));
        let Fitted { unknowns: [constant, ..], pinned } = fitted(&runs(-180.0));
        assert!(pinned && (-60.0..-40.0).contains(&constant), "{constant}");
        let Fitted { unknowns: [constant, first, second], pinned } = fitted(&runs(-30.0));
        assert!(!pinned && near(constant, -30.0, 20.0), "{constant}");
        assert!(near(first, 1.5, 0.1) && near(second, 0.8, 0.05), "{first} {second}");
    }
}
