//! Random permutations: each number is thrown at random places until it meets a free one. The order of the
//! places is that of the permutation.

use probeline::transport::Transport;

use super::words::Action;
use super::{Bench, Outcome};
use crate::Error;
use crate::gather::numbering;

/// Returns the words for a permutation of this many numbers: two places for each.
pub(super) fn words(len: u64) -> u64 {
    2 * len
}

/// Numbers that have met places of this rank, in order.
pub(super) struct Thrown {
    pub(super) numbers: Vec<u64>,
    /// The place of the first one in the permutation.
    pub(super) first: u64,
    rounds: u64,
    throws: u64,
}

/// Throws `len` numbers of each rank at the first words, which are 0.
pub(super) fn throw<T: Transport>(bench: &mut Bench<'_, T>, len: u64) -> Result<Thrown, Error> {
    let (me, ranks) = (bench.me(), bench.ranks());
    let (mut rounds, mut throws) = (0, 0);
    // A word of 0 is free.
    let mut left: Vec<u64> = (0..len).map(|nth| nth * ranks + me + 1).collect();
    // At least half of the places are free: half of the throws meet one.
    while bench.sum(left.len() as u64)? > 0 {
        let places = bench.random_indices(left.len() as u64, words(len * ranks));
        let mut missed = Vec::new();
        let action = |nth: usize| Action::Claim(left[nth]);
        bench.run_all(&places, action, |nth, before| {
            if before != 0 {
                missed.push(left[nth]);
            }
        })?;
        rounds += 1;
        throws += left.len() as u64;
        left = missed;
    }
    let taken = bench.words.part(0..words(len)).filter(|word| *word != 0);
    let numbers: Vec<u64> = taken.map(|word| word - 1).collect();
    let (first, _) = numbering(numbers.len() as u64, bench.exchange)?;
    Ok(Thrown { numbers, first, rounds, throws })
}

/// Checks that the lists of all ranks have each number below `len` once. The words from `first` on are 0, as many.
pub(super) fn verify<T: Transport>(
    bench: &mut Bench<'_, T>,
    numbers: &[u64],
    first: u64,
    len: u64,
) -> Result<(), Error> {
    bench.verify(numbers.len() as u64, len, "numbers are in a permutation")?;
    let mut strange = numbers.iter().filter(|number| **number >= len).count() as u64;
    let marks: Vec<u64> = numbers.iter().map(|number| first + number % len).collect();
    bench.run_all(&marks, |_| Action::Claim(1), |_, before| strange += u64::from(before != 0))?;
    bench.verify(strange, 0, "numbers are twice in a permutation, or not of it")
}

pub(super) fn run<T: Transport>(bench: &mut Bench<'_, T>, len: u64) -> Result<Outcome, Error> {
    let begun_ns = bench.now_ns()?;
    let Thrown { numbers, rounds, throws, .. } = throw(bench, len)?;
    let outcome = bench.outcome(begun_ns, throws, rounds)?;
    bench.words.set_part(|_, _| 0, bench.exchange)?;
    let all = len * bench.ranks();
    verify(bench, &numbers, 0, all)?;
    Ok(outcome)
}
