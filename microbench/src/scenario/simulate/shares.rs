//! How far several runs have come that are begun in their order.

/// Of a bar.
pub(super) const STEPS: u64 = 1000;

/// What is done of each run.
pub(super) struct Shares {
    /// How much work each is.
    weights: Vec<f64>,
    /// 0 to 1 of each.
    pub(super) done: Vec<f64>,
}

impl Shares {
    pub(super) fn new(weights: Vec<f64>) -> Self {
        let done = vec![0.0; weights.len()];
        Self { weights, done }
    }

    /// What is done of them all.
    pub(super) fn steps(&self) -> u64 {
        let done: f64 =
            self.weights.iter().zip(&self.done).map(|(weight, done)| weight * done).sum();
        let all: f64 = self.weights.iter().sum();
        // A thousand at most.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let steps = (done / all * STEPS as f64) as u64;
        steps.min(STEPS)
    }

    /// The first that is under way: a bar that says each in its turn would change at every step.
    pub(super) fn oldest(&self) -> usize {
        self.done.iter().position(|&done| done < 1.0).unwrap_or(self.done.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_by_their_work_and_the_oldest_is_told() {
        let mut shares = Shares::new(vec![1.0, 3.0, 6.0]);
        let mut told = Vec::new();
        for (at, done) in [(0, 0.0), (1, 0.0), (0, 0.5), (1, 0.5), (1, 1.0), (0, 1.0), (2, 0.5)] {
            shares.done[at] = done;
            told.push((shares.steps(), shares.oldest()));
        }
        assert_eq!(told, [(0, 0), (0, 0), (50, 0), (200, 0), (350, 0), (400, 2), (700, 2)]);
        shares.done[2] = 1.0;
        assert_eq!((shares.steps(), shares.oldest()), (1000, 2));
        assert_eq!((Shares::new(vec![]).steps(), Shares::new(vec![]).oldest()), (0, 0));
    }
}
