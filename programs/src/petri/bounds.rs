//! Upper bounds on the tokens of each place, proved from the structure of the net.
//!
//! A weighted sum of tokens that no transition changes (a P-invariant) bounds every place in it:
//! with weights y >= 0 and initial marking m0, place p never holds more than (y . m0) / y(p).
//!
//! The invariants come from Farkas' elimination (Colom and Silva, "Convex geometry and semiflows in
//! P/T nets", 1991). The elimination may grow exponentially and is therefore limited; a place
//! without a bound only costs bits.

use crate::petri::Net;

/// Maximum number of places, and of transitions, of a net that is analysed: a dense matrix of 4
/// MiB. Nets whose markings fit 63 bits are far smaller.
const MAX_SIDE: usize = 512;

/// Maximum number of rows: 16 MiB for the largest matrix.
const MAX_ROWS: usize = 2_048;

/// Maximum number of matrix cells visited by the elimination: less than 0.1 s.
const MAX_WORK: usize = 1 << 26;

/// Returns an upper bound on each place's tokens, if one is known.
pub(crate) fn upper_bounds(net: &Net) -> Vec<Option<u64>> {
    let mut bounds = bounds_without_gains(net);
    if net.places().len() > MAX_SIDE || net.transitions().len() > MAX_SIDE {
        return bounds;
    }
    for invariant in Elimination::new(net).invariants() {
        let Some(total) = weighted_sum(&invariant, net) else { continue };
        for (bound, &weight) in bounds.iter_mut().zip(&invariant) {
            let Some(max) = total.checked_div(u128::from(weight)) else { continue };
            let Ok(max) = u64::try_from(max) else { continue };
            *bound = Some(bound.map_or(max, |known| known.min(max)));
        }
    }
    bounds
}

/// Returns the invariant's sum, which is the same in all reachable markings; `None` beyond a
/// `u128`.
fn weighted_sum(invariant: &[u64], net: &Net) -> Option<u128> {
    invariant.iter().zip(net.places()).try_fold(0_u128, |sum, (&weight, place)| {
        sum.checked_add(u128::from(weight) * u128::from(place.initial))
    })
}

/// Returns the bounds of the places that no transition adds to: their initial tokens.
fn bounds_without_gains(net: &Net) -> Vec<Option<u64>> {
    let mut bounds: Vec<_> = net.places().iter().map(|place| Some(place.initial)).collect();
    for transition in net.transitions() {
        for (place, change) in transition.effect() {
            if change > 0 {
                bounds[place] = None;
            }
        }
    }
    bounds
}

/// The state of Farkas' elimination. A row consists of the change that each transition makes to a
/// weighted sum of tokens, followed by the weight of each place in this sum. Rows are combined
/// until all changes are 0.
struct Elimination {
    transitions: usize,
    rows: Vec<Vec<i64>>,
    work: usize,
}

impl Elimination {
    fn new(net: &Net) -> Self {
        let (transitions, places) = (net.transitions().len(), net.places().len());
        let mut rows = vec![vec![0; transitions + places]; places];
        for (place, row) in rows.iter_mut().enumerate() {
            row[transitions + place] = 1;
        }
        for (column, transition) in net.transitions().iter().enumerate() {
            for (place, change) in transition.effect() {
                rows[place][column] = change;
            }
        }
        Self { transitions, rows, work: 0 }
    }

    /// Returns the invariants found, as weights by place.
    fn invariants(mut self) -> Vec<Vec<u64>> {
        while let Some(column) = self.cheapest_column() {
            if !self.eliminate(column) {
                break;
            }
        }
        // Also after an incomplete elimination, a row without changes is an invariant.
        let transitions = self.transitions;
        self.rows.retain(|row| row[..transitions].iter().all(|&change| change == 0));
        let weights = self
            .rows
            .into_iter()
            .map(|row| row[transitions..].iter().map(|weight| weight.unsigned_abs()).collect());
        weights.collect()
    }

    /// Returns the transition whose elimination makes the fewest new rows; `None` after the last
    /// one.
    fn cheapest_column(&mut self) -> Option<usize> {
        self.work += self.rows.len() * self.transitions;
        let mut signs = vec![(0_usize, 0_usize); self.transitions];
        for row in &self.rows {
            for (&change, (gains, losses)) in row.iter().zip(&mut signs) {
                *gains += usize::from(change > 0);
                *losses += usize::from(change < 0);
            }
        }
        let open = signs.iter().enumerate().filter(|(_, (gains, losses))| gains + losses > 0);
        open.min_by_key(|(_, (gains, losses))| gains * losses).map(|(column, _)| column)
    }

    /// Replaces the rows that a transition changes by combinations in which its changes cancel.
    /// Returns false once a limit is exceeded.
    fn eliminate(&mut self, column: usize) -> bool {
        let (changed, mut kept): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.rows).into_iter().partition(|row| row[column] != 0);
        let (gains, losses): (Vec<_>, Vec<_>) = changed.iter().partition(|row| row[column] > 0);
        for gain in &gains {
            for loss in &losses {
                self.work += gain.len() * (1 + kept.len());
                if self.work > MAX_WORK || kept.len() >= MAX_ROWS {
                    self.rows = kept;
                    return false;
                }
                let Some(sum) = combine(gain, loss, column) else { continue };
                // A row that uses all places of another row gives no better bound.
                if !kept.iter().any(|row| self.covers(&sum, row)) {
                    kept.push(sum);
                }
            }
        }
        self.rows = kept;
        true
    }

    /// Returns whether `row` uses every place that `smaller` uses.
    fn covers(&self, row: &[i64], smaller: &[i64]) -> bool {
        let mut weights = row[self.transitions..].iter().zip(&smaller[self.transitions..]);
        weights.all(|(&weight, &needed)| needed == 0 || weight != 0)
    }
}

/// Returns the smallest positive combination of the two rows that is 0 at `column`; `None` if it
/// leaves an `i64`.
fn combine(gain: &[i64], loss: &[i64], column: usize) -> Option<Vec<i64>> {
    let (of_gain, of_loss) = (-i128::from(loss[column]), i128::from(gain[column]));
    // Each product is at most 2^126.
    let sums = gain
        .iter()
        .zip(loss)
        .map(|(&a, &b)| (i128::from(a) * of_gain).checked_add(i128::from(b) * of_loss));
    let sums: Vec<i128> = sums.collect::<Option<_>>()?;
    let common = sums.iter().fold(0, |common, &sum| gcd(common, sum.unsigned_abs()));
    let common = i128::try_from(common.max(1)).ok()?;
    sums.into_iter().map(|sum| i64::try_from(sum / common).ok()).collect()
}

/// Returns the greatest common divisor; 0 if both numbers are 0.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::petri::MAX_TOKENS;
    use crate::petri::naive::{largest, net, nets};

    #[test]
    fn invariants_bound_places() {
        for (model, bound, places) in [("kanban:5", 5, 16), ("philosophers:12", 1, 60)] {
            assert_eq!(upper_bounds(&Net::load(model).unwrap()), vec![Some(bound); places]);
        }
        // a -> 2b, 3b -> c: 6a + 3b + 9c stays at 42.
        let weighted = net(&[7, 0, 0], &[(&[(0, 1)], &[(1, 2)]), (&[(1, 3)], &[(2, 1)])]);
        assert_eq!(upper_bounds(&weighted), [Some(7), Some(14), Some(4)]);
        let source = net(&[3, 0, 9], &[(&[], &[(1, 1)]), (&[(2, 1)], &[])]);
        assert_eq!(upper_bounds(&source), [Some(3), None, Some(9)]);
        // The lower of two bounds.
        for (left, right) in [(7, 3), (3, 7)] {
            let both: (&[_], &[_]) = (&[(0, 1), (1, 1)], &[(2, 1)]);
            let joined = net(&[left, right, 0], &[both, (both.1, both.0)]);
            assert_eq!(upper_bounds(&joined), [Some(left), Some(right), Some(3)]);
        }
    }

    /// The invariants have weights of 2^124 and of 2^64.
    #[test]
    fn overflowing_weights_give_no_bound() {
        let max = MAX_TOKENS;
        let ends = [[(0, 1)], [(1, max)], [(1, max - 1)], [(2, max)]];
        let down = net(&[9, 0, 0], &[(&ends[0], &ends[1]), (&ends[2], &ends[3])]);
        let up = net(&[0, 0, 9], &[(&ends[1], &ends[0]), (&ends[3], &ends[2])]);
        let narrow = net(&[0, 0, 9], &[(&ends[1], &ends[0]), (&[(2, 4)], &[(1, 1)])]);
        assert_eq!(upper_bounds(&down), [Some(9), None, None]);
        assert_eq!(upper_bounds(&up), [None, None, Some(9)]);
        assert_eq!(upper_bounds(&narrow), [None, None, Some(9)]);
    }

    /// The invariant's sum is 16 times 2^124 plus 3, which just exceeds a u128.
    #[test]
    fn overflowing_sums_give_no_bound() {
        let mut initial = vec![MAX_TOKENS; 17];
        initial[0] = 3;
        let ends: Vec<_> = (1..17).map(|place| ([(0, MAX_TOKENS)], [(place, 1)])).collect();
        let ends: Vec<_> = ends.iter().map(|(from, to)| (&from[..], &to[..])).collect();
        let bounds = upper_bounds(&net(&initial, &ends));
        assert_eq!(bounds[0], Some(3));
        assert_eq!(bounds[1..], [None; 16]);
    }

    /// Each of 30 stages has two places. Every choice of one place per stage is an invariant: 2^30
    /// of them.
    #[test]
    fn limits_invariants() {
        let stages = 30;
        let mut initial = vec![0; 2 * stages];
        (initial[0], initial[1]) = (1, 1);
        let ends: Vec<_> = (0..2 * stages - 2)
            .step_by(2)
            .map(|at| ([(at, 1), (at + 1, 1)], [(at + 2, 1), (at + 3, 1)]))
            .collect();
        let ends: Vec<_> = ends.iter().map(|(from, to)| (&from[..], &to[..])).collect();
        let net = net(&initial, &ends);
        for (max, bound) in largest(&net, 100).into_iter().zip(upper_bounds(&net)) {
            assert!(bound.is_none_or(|bound| max <= bound));
        }
    }

    #[test]
    fn large_net_keeps_simple_bounds() {
        let initial = vec![2; MAX_SIDE + 1];
        let net = net(&initial, &[(&[(0, 1)], &[(1, 1)])]);
        let bounds = upper_bounds(&net);
        assert_eq!((bounds[0], bounds[1], bounds[MAX_SIDE]), (Some(2), None, Some(2)));
    }

    #[test]
    fn combines_to_smallest_row() {
        let (max, min) = (i64::MAX, i64::MIN);
        assert_eq!(combine(&[2, 4, 0], &[-2, 0, 6], 0), Some(vec![0, 2, 3]));
        assert_eq!(combine(&[1, max, 0], &[-1, max, 0], 0), Some(vec![0, 1, 0]));
        assert_eq!(combine(&[max, 1, 0], &[min, 0, 1], 0), None);
        assert_eq!(combine(&[max, min, 0], &[min, min, 1], 0), None);
    }

    proptest! {
        #[test]
        fn reachable_markings_respect_bounds(net in nets()) {
            for (max, bound) in largest(&net, 300).into_iter().zip(upper_bounds(&net)) {
                prop_assert!(bound.is_none_or(|bound| max <= bound));
            }
        }
    }
}
