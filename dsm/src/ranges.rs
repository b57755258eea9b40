//! Several ranges of a slice, of which those to change are apart from all others.

use core::ops::Range;
use core::slice;

/// The ranges of one access, those to read and those to change.
pub(crate) type Slices<'s, T, const R: usize, const W: usize> = ([&'s [T]; R], [&'s mut [T]; W]);

/// Returns the ranges of a slice. `None` if a range to change overlaps with another one, or one is not in the slice.
#[inline]
pub(crate) fn split<T, const R: usize, const W: usize>(
    data: &mut [T],
    reads: [Range<usize>; R],
    edits: [Range<usize>; W],
) -> Option<Slices<'_, T, R, W>> {
    if !are_apart(data.len(), &reads, &edits) {
        return None;
    }
    let first = data.as_mut_ptr();
    // SAFETY: `are_apart` has found both bounds of each range in the slice, whose borrow the result takes over, and no
    // element of a range to change in another one.
    let views =
        reads.map(|range| unsafe { slice::from_raw_parts(first.add(range.start), range.len()) });
    // SAFETY: the ranges to change are apart from each other and from all others, by the same check.
    let changes = edits
        .map(|range| unsafe { slice::from_raw_parts_mut(first.add(range.start), range.len()) });
    Some((views, changes))
}

/// Returns whether all ranges are in a slice of this length, and those to change overlap with no other one.
#[inline]
pub(crate) fn are_apart(len: usize, reads: &[Range<usize>], edits: &[Range<usize>]) -> bool {
    let is_inside = |range: &Range<usize>| range.start <= range.end && range.end <= len;
    let overlap = |one: &Range<usize>, other: &Range<usize>| {
        one.start < other.end && other.start < one.end && !one.is_empty() && !other.is_empty()
    };
    let is_apart = |(nth, edit): (usize, &Range<usize>)| {
        let others = edits.iter().skip(nth + 1).chain(reads);
        !others.into_iter().any(|other| overlap(edit, other))
    };
    reads.iter().chain(edits).all(is_inside) && edits.iter().enumerate().all(is_apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_ranges() {
        let mut data = [0, 1, 2, 3, 4, 5, 6, 7];
        let (reads, edits) = split(&mut data, [5..6, 0..2], [6..8, 2..2, 2..4]).unwrap();
        assert_eq!(reads, [&[5][..], &[0, 1]]);
        assert_eq!(edits, [&[6, 7][..], &[], &[2, 3]]);
        let (reads, []) = split(&mut data, [0..4, 2..6], []).unwrap();
        assert_eq!(reads, [&[0, 1, 2, 3], &[2, 3, 4, 5]]);
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init, reason = "refused")]
    fn refuses_overlapping_or_outside_ranges() {
        let mut data = [0; 8];
        assert!(split(&mut data, [0..3], [2..4]).is_none());
        assert!(split(&mut data, [], [2..4, 2..4]).is_none());
        assert!(split(&mut data, [5..9], []).is_none());
        assert!(split(&mut data, [5..4], []).is_none());
    }
}
