//! Several disjoint ranges of a slice, some of them to change.

use core::ops::Range;

/// The ranges of one access, those to read and those to change.
pub(crate) type Slices<'s, T, const R: usize, const W: usize> = ([&'s [T]; R], [&'s mut [T]; W]);

/// Returns the ranges of a slice. `None` if two of them overlap or one is not in the slice.
pub(crate) fn split<T, const R: usize, const W: usize>(
    data: &mut [T],
    reads: [Range<usize>; R],
    edits: [Range<usize>; W],
) -> Option<Slices<'_, T, R, W>> {
    let mut views: [Option<&mut [T]>; R] = [const { None }; R];
    let mut changes: [Option<&mut [T]>; W] = [const { None }; W];
    let (mut rest, mut start) = (data, 0);
    // Each iteration splits off the range that begins first, empty ones before others.
    for _ in 0..R + W {
        let parts = views.iter_mut().chain(&mut changes);
        let left = reads.iter().chain(&edits).zip(parts).filter(|(_, part)| part.is_none());
        let (range, part) = left.min_by_key(|(range, _)| (range.start, range.end))?;
        if range.start == range.end {
            // Nothing, wherever it is.
            *part = Some(&mut []);
            continue;
        }
        let skipped = range.start.checked_sub(start)?;
        let (_, from) = core::mem::take(&mut rest).split_at_mut_checked(skipped)?;
        let (mine, after) = from.split_at_mut_checked(range.end.checked_sub(range.start)?)?;
        (*part, rest, start) = (Some(mine), after, range.end);
    }
    let views = views.map(|view| &*view.unwrap_or_default());
    Some((views, changes.map(Option::unwrap_or_default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_disjoint_ranges() {
        let mut data = [0, 1, 2, 3, 4, 5, 6, 7];
        let (reads, edits) = split(&mut data, [5..6, 0..2], [6..8, 2..2, 2..4]).unwrap();
        assert_eq!(reads, [&[5][..], &[0, 1]]);
        assert_eq!(edits, [&[6, 7][..], &[], &[2, 3]]);
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
