//! The combined progress of several runs that start in order.

pub(super) const STEPS: u64 = 1000;

pub(super) struct Shares {
    /// The work of each run, relative to that of the others.
    weights: Vec<f64>,
    /// The completed share of each run, 0 to 1.
    pub(super) done: Vec<f64>,
}

impl Shares {
    pub(super) fn new(weights: Vec<f64>) -> Self {
        let done = vec![0.0; weights.len()];
        Self { weights, done }
    }

    pub(super) fn steps(&self) -> u64 {
        let done: f64 =
            self.weights.iter().zip(&self.done).map(|(weight, done)| weight * done).sum();
        let all: f64 = self.weights.iter().sum();
        // The value is at most `STEPS`.
        #[allow(clippy::cast_possible_truncation)]
        let steps = (done / all * STEPS as f64) as u64;
        steps.min(STEPS)
    }

    /// Returns the first run that is not complete. The bar names only this one, since naming each
    /// run that progresses would change it at every step.
    pub(super) fn oldest(&self) -> usize {
        self.done.iter().position(|&done| done < 1.0).unwrap_or(self.done.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_weighted_by_work_and_names_the_oldest_run() {
        let mut shares = Shares::new(vec![1.0, 3.0, 6.0]);
        let mut states = Vec::new();
        for (at, done) in [(0, 0.0), (1, 0.0), (0, 0.5), (1, 0.5), (1, 1.0), (0, 1.0), (2, 0.5)] {
            shares.done[at] = done;
            states.push((shares.steps(), shares.oldest()));
        }
        assert_eq!(states, [(0, 0), (0, 0), (50, 0), (200, 0), (350, 0), (400, 2), (700, 2)]);
        shares.done[2] = 1.0;
        assert_eq!((shares.steps(), shares.oldest()), (1000, 2));
        assert_eq!((Shares::new(vec![]).steps(), Shares::new(vec![]).oldest()), (0, 0));
    }
}
