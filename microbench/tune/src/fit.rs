//! Least squares: what a few runs say of a constant and two factors.

/// The unknowns: a constant and two factors.
pub(crate) const UNKNOWNS: usize = 3;

/// What a factor may be within reason: a READ of what lies in the CPU's nearest cache by one of
/// what lies in memory is the least.
pub(crate) const LEAST_FACTOR: f64 = 0.05;
pub(crate) const MOST_FACTOR: f64 = 4.0;
/// The share by which chance has runs differ, and by how much a factor is off 1 as a rule: what the
/// runs hardly say of a factor leaves it near 1.
const CHANCE: f64 = 0.03;
const OFF_ONE: f64 = 0.5;

/// Rows of a system of equations, times their transpose.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    squares: [[f64; UNKNOWNS]; UNKNOWNS],
    sides: [f64; UNKNOWNS],
    /// What the constant may be: it takes back what is known of a run at most, but for chance.
    least_constant: f64,
}

/// What fits best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) unknowns: [f64; UNKNOWNS],
    /// The constant or a factor would be less or more than is within reason.
    pub(crate) pinned: bool,
}

impl Fit {
    /// Nothing measured yet.
    pub(crate) fn new() -> Self {
        let (squares, sides) = ([[0.0; UNKNOWNS]; UNKNOWNS], [0.0; UNKNOWNS]);
        let mut fit = Self { squares, sides, least_constant: f64::NEG_INFINITY };
        let weight = CHANCE / OFF_ONE;
        fit.add([0.0, weight, 0.0], weight);
        fit.add([0.0, 0.0, weight], weight);
        fit
    }

    /// A run of `ns`, of which `known` are known, took the constant and so much times each factor.
    pub(crate) fn run(&mut self, ns: f64, known: f64, factors: [f64; 2]) {
        // Chance is a share of what a run takes.
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

    /// What fits best within reason.
    pub(crate) fn solve(&self) -> Fitted {
        let factor = (LEAST_FACTOR, MOST_FACTOR);
        let bounds = [(self.least_constant, f64::INFINITY), factor, factor];
        let is_odd = |at: usize, value: f64| !(bounds[at].0..=bounds[at].1).contains(&value);
        let mut fixed = [None; UNKNOWNS];
        let mut unknowns = self.solve_with(fixed);
        // Each turn fixes one of the three.
        while let Some(at) =
            (0..UNKNOWNS).find(|&at| fixed[at].is_none() && is_odd(at, unknowns[at]))
        {
            fixed[at] = Some(unknowns[at].clamp(bounds[at].0, bounds[at].1));
            unknowns = self.solve_with(fixed);
        }
        Fitted { unknowns, pinned: fixed.iter().any(Option::is_some) }
    }

    /// Gauss's elimination. The squares of rows have a positive diagonal, where there is one run.
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
    fn runs_say_what_they_are_made_of() {
        let of = |factors: [f64; 2]| 40.0 + 150.0 + 0.9 * factors[0] + 0.3 * factors[1];
        let runs = [[200.0, 500.0], [230.0, 115.0], [380.0, 20.0]].map(|at| (at, of(at)));
        let Fitted { unknowns: [constant, first, second], pinned } = fitted(&runs);
        assert!(near(constant, 150.0, 12.0) && !pinned, "{constant}");
        assert!(near(first, 0.9, 0.05) && near(second, 0.3, 0.02), "{first} {second}");
    }

    #[test]
    fn what_they_do_not_say_is_one() {
        let same = [([200.0, 10.0], 340.0); 3];
        let Fitted { unknowns: [constant, first, second], pinned } = fitted(&same);
        assert!(near(constant, 90.0, 1.0) && near(first, 1.0, 0.01) && near(second, 1.0, 0.01));
        assert!(!pinned);
        assert_eq!(Fit::new().solve().unknowns, [0.0, 1.0, 1.0]);
    }

    #[test]
    fn a_factor_beyond_reason_is_said_and_the_rest_fits_with_it() {
        let of = |factors: [f64; 2]| 40.0 + 100.0 + 0.9 * factors[0] - 0.5 * factors[1];
        let runs = [[200.0, 500.0], [230.0, 115.0], [380.0, 20.0]].map(|at| (at, of(at)));
        let Fitted { unknowns: [_, first, second], pinned } = fitted(&runs);
        assert!(pinned);
        assert_eq!(second.to_bits(), LEAST_FACTOR.to_bits());
        assert!((LEAST_FACTOR..=MOST_FACTOR).contains(&first), "{first}");
    }

    /// Runs by turns with something else say that READs take more than all of a run.
    #[test]
    fn a_constant_takes_back_what_is_known_and_no_more() {
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
