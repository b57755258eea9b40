//! Diffs of pages: runs of changed half words, and messages of several of them.

/// Numbers of a record before its runs: the page, the interval, and how many numbers its runs have.
const HEAD: usize = 3;
/// Numbers of a run before its half words: the first one, and how many.
const RUN_HEAD: usize = 2;

/// Returns the runs in which a page differs from its twin.
pub(super) fn runs(twin: &[u32], page: &[u32]) -> Vec<u32> {
    let (mut runs, mut at) = (Vec::new(), 0);
    let differs = |at: &usize| twin[*at] != page[*at];
    while let Some(start) = (at..page.len()).find(differs) {
        at = (start..page.len()).find(|at| !differs(at)).unwrap_or(page.len());
        runs.extend([number(start), number(at - start)]);
        runs.extend(&page[start..at]);
    }
    runs
}

/// Returns the half words in runs.
pub(super) fn changed(runs: &[u32]) -> u64 {
    each(runs).map(|(_, words)| words.len() as u64).sum()
}

/// The diffs of a message.
#[derive(Default)]
pub(super) struct Message {
    pub(super) records: Vec<u32>,
}

impl Message {
    /// Appends a diff if it fits into a message of this many numbers.
    pub(super) fn append(&mut self, page: u32, interval: u32, runs: &[u32], room: usize) -> bool {
        let fits = self.records.len() + HEAD + runs.len() <= room;
        if fits {
            self.records.extend([page, interval, number(runs.len())]);
            self.records.extend(runs);
        }
        fits
    }

    /// Fills an empty message with the first part of a diff that no message has room for, and returns the rest.
    pub(super) fn split(
        &mut self,
        page: u32,
        interval: u32,
        runs: &[u32],
        room: usize,
    ) -> Vec<u32> {
        let (mut first, mut rest) = (Vec::new(), Vec::new());
        for (start, words) in each(runs) {
            let left = (room - HEAD).saturating_sub(first.len() + RUN_HEAD).min(words.len());
            let (fitting, other) = words.split_at(if rest.is_empty() { left } else { 0 });
            for (runs, start, words) in
                [(&mut first, start, fitting), (&mut rest, start + number(fitting.len()), other)]
            {
                if !words.is_empty() {
                    runs.extend([start, number(words.len())]);
                    runs.extend(words);
                }
            }
        }
        self.append(page, interval, &first, room);
        rest
    }
}

/// Returns the records of a message: pages, intervals, and runs.
pub(super) fn records(mut message: &[u32]) -> impl Iterator<Item = (u32, u32, &[u32])> {
    core::iter::from_fn(move || {
        let (&[page, interval, count], rest) = message.split_first_chunk()?;
        let (runs, rest) = rest.split_at_checked(count as usize)?;
        message = rest;
        Some((page, interval, runs))
    })
}

/// Changes a page.
pub(super) fn apply(runs: &[u32], page: &mut [u32]) {
    for (start, words) in each(runs) {
        page[start as usize..][..words.len()].copy_from_slice(words);
    }
}

fn each(mut runs: &[u32]) -> impl Iterator<Item = (u32, &[u32])> {
    core::iter::from_fn(move || {
        let (&[start, count], rest) = runs.split_first_chunk()?;
        let (words, rest) = rest.split_at_checked(count as usize)?;
        runs = rest;
        Some((start, words))
    })
}

#[allow(clippy::cast_possible_truncation, reason = "a page has at most 2^17 half words")]
fn number(count: usize) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A diff arrives whole, in however many messages.
        #[test]
        fn splits_and_applies_diff(
            twin in proptest::collection::vec(0..3_u32, 40),
            page in proptest::collection::vec(0..3_u32, 40),
            room in HEAD + RUN_HEAD + 1..60,
        ) {
            let mut home = twin.clone();
            let mut rest = runs(&twin, &page);
            prop_assert_eq!(changed(&rest), (0..40).filter(|at| twin[*at] != page[*at]).count() as u64);
            while !rest.is_empty() {
                let mut message = Message::default();
                rest = if message.append(7, 1, &rest, room) {
                    Vec::new()
                } else {
                    message.split(7, 1, &rest, room)
                };
                prop_assert!(message.records.len() <= room && !message.records.is_empty());
                for (number, interval, runs) in records(&message.records) {
                    prop_assert_eq!((number, interval), (7, 1));
                    apply(runs, &mut home);
                }
            }
            prop_assert_eq!(home, page);
        }
    }
}
