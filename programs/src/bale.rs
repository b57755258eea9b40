//! The irregular kernels of the benchmark suite bale: histogram, index gather, random permutation, topological
//! sort and triangle counting. Results are verified, but for the triangles of a random graph.
//!
//! All of them operate in batches on words that are distributed over the ranks, by one-sided operations or by
//! messages in blocks ([`Access`]). `docs/comparisons.md` describes them.

mod permutation;
#[cfg(test)]
mod tests;
mod topological;
mod triangles;
mod words;

use std::collections::BTreeSet;

use fastrand::Rng;
use probeline::containers::aggregator;
use probeline::transport::{Exchange, Sizes, Transport};

pub use self::triangles::{Graph, Stars};
pub use self::words::Access;
use self::words::{Action, Words};
use crate::Error;
use crate::gather::check_sum;

/// A kernel and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Adds 1 to random words.
    Histogram {
        /// Words of a rank.
        words: u64,
        /// Adds of a rank.
        updates: u64,
    },
    /// Reads random words.
    IndexGather {
        /// Words of a rank.
        words: u64,
        /// Reads of a rank.
        reads: u64,
    },
    /// Permutes numbers: each is thrown at random places of twice as many until it meets a free one.
    Permutation {
        /// Numbers of a rank.
        len: u64,
    },
    /// Finds the permutations of rows and columns that make a sparse matrix triangular again.
    TopologicalSort {
        /// Rows of a rank.
        rows: u64,
        /// Nonzero elements of a row, its diagonal element not counted, on average.
        degree: u64,
    },
    /// Counts the triangles of a graph.
    Triangles(Graph),
}

impl Kernel {
    /// Checks the parameters for this many ranks.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check(&self, access: Access, ranks: u32) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Parameter(text));
        if access == Access::Aggregated && ranks > aggregator::MAX_RANKS {
            return wrong(format!(
                "messages are for up to {} ranks, and there are {ranks}: take direct operations",
                aggregator::MAX_RANKS
            ));
        }
        let (size, degree) = match self {
            Self::Histogram { words: size, .. }
            | Self::IndexGather { words: size, .. }
            | Self::Permutation { len: size } => (*size, 0),
            Self::TopologicalSort { rows: size, degree }
            | Self::Triangles(Graph::Random { vertices: size, degree }) => (*size, *degree),
            Self::Triangles(Graph::Stars(_)) => return Ok(()),
        };
        let max = MAX_SIZE / u64::from(ranks);
        if !(1..=max).contains(&size) {
            return wrong(format!("a rank would have {size} elements: give a size of 1 to {max}"));
        }
        match (2 * degree.min(MAX_SIZE) + 1) * size > MAX_SIZE {
            true => wrong(format!("a degree of {degree} is too large for a size of {size}")),
            false => Ok(()),
        }
    }

    /// Returns the words of all ranks.
    fn words(&self, ranks: u64) -> u64 {
        match self {
            Self::Histogram { words, .. } | Self::IndexGather { words, .. } => words * ranks,
            Self::Permutation { len } => permutation::words(len * ranks),
            Self::TopologicalSort { rows, .. } => topological::words(rows * ranks, ranks),
            Self::Triangles(graph) => graph.words(ranks),
        }
    }

    /// Returns the sizes of the engine of a job of this many ranks.
    #[must_use]
    pub fn sizes(&self, access: Access, ranks: u32) -> Sizes {
        words::sizes(access, self.words(ranks.into()), ranks)
    }
}

/// The most elements of all ranks, and twice the most elements of the rows of a rank.
const MAX_SIZE: u64 = u32::MAX as u64;

/// The result of a kernel. All but the time is the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Operations of all ranks: adds, reads, throws, nonzero elements of the matrix or edges of the graph.
    pub operations: u64,
    /// Rounds in which all ranks wait for each other.
    pub rounds: u64,
    /// Triangles of a graph.
    pub triangles: Option<u64>,
    /// Whether the result was verified: the number of triangles of a random graph was not.
    pub is_verified: bool,
    /// Nanoseconds of the kernel by the clock of this rank, without input and verification.
    pub ns: u64,
}

/// Runs a kernel together with all other ranks, and verifies its result. `engine` has [`Kernel::sizes`], and `now_ns`
/// returns the time on its clock.
///
/// # Errors
/// [`Error::Wrong`] if the result is wrong; [`Error::Parameter`]; or a rank failed.
pub fn run<T: Transport>(
    kernel: &Kernel,
    access: Access,
    seed: u64,
    engine: T,
    now_ns: fn(&T) -> u64,
    exchange: &mut dyn Exchange,
) -> Result<Outcome, Error> {
    kernel.check(access, exchange.owners())?;
    let len = kernel.words(exchange.owners().into());
    let mut words = Words::open(access, len, engine, exchange)?;
    // Touches all pages.
    words.set_part(|_, _| 0, exchange)?;
    let random = Rng::with_seed(seed.wrapping_mul(1 << 16).wrapping_add(exchange.me().0.into()));
    let mut bench = Bench { words, random, now_ns, exchange };
    match kernel {
        Kernel::Histogram { words, updates } => bench.histogram(*words, *updates),
        Kernel::IndexGather { words, reads } => bench.index_gather(*words, *reads),
        Kernel::Permutation { len } => permutation::run(&mut bench, *len),
        Kernel::TopologicalSort { rows, degree } => topological::run(&mut bench, *rows, *degree),
        Kernel::Triangles(graph) => triangles::run(&mut bench, graph),
    }
}

/// State that all kernels use.
struct Bench<'e, T> {
    words: Words<T>,
    random: Rng,
    now_ns: fn(&T) -> u64,
    exchange: &'e mut dyn Exchange,
}

impl<T: Transport> Bench<'_, T> {
    fn me(&self) -> u64 {
        self.exchange.me().0.into()
    }

    fn ranks(&self) -> u64 {
        self.exchange.owners().into()
    }

    /// Waits for all ranks, and returns the time.
    fn now_ns(&mut self) -> Result<u64, Error> {
        self.exchange.barrier()?;
        Ok((self.now_ns)(self.words.transport()))
    }

    /// Returns the outcome of a kernel that began at this time and ends now.
    fn outcome(&mut self, begun_ns: u64, operations: u64, rounds: u64) -> Result<Outcome, Error> {
        let ns = self.now_ns()?.saturating_sub(begun_ns);
        let operations = self.exchange.sum(operations)?;
        Ok(Outcome { operations, rounds, triangles: None, is_verified: true, ns })
    }

    fn sum(&mut self, mine: u64) -> Result<u64, Error> {
        Ok(self.exchange.sum(mine)?)
    }

    /// Fails on all ranks if the sum of what they have found is not the expected one.
    fn verify(&mut self, found: u64, expected: u64, what: &str) -> Result<(), Error> {
        check_sum(self.exchange, found, expected, what)
    }

    fn random_indices(&mut self, count: u64, below: u64) -> Vec<u64> {
        (0..count).map(|_| self.random.u64(..below)).collect()
    }

    fn run_all(
        &mut self,
        indices: &[u64],
        action: impl Fn(usize) -> Action,
        store: impl FnMut(usize, u64),
    ) -> Result<(), Error> {
        self.words.run_all(indices, action, true, store, self.exchange)
    }

    fn change_all(
        &mut self,
        indices: &[u64],
        action: impl Fn(usize) -> Action,
    ) -> Result<(), Error> {
        self.words.run_all(indices, action, false, |_, _| (), self.exchange)
    }

    /// Adds 1 to random words; verified by taking all away again, which must leave 0.
    fn histogram(&mut self, words: u64, updates: u64) -> Result<Outcome, Error> {
        let indices = self.random_indices(updates, words * self.ranks());
        let begun_ns = self.now_ns()?;
        self.change_all(&indices, |_| Action::Add(1))?;
        let outcome = self.outcome(begun_ns, updates, 1)?;
        let added = self.words.part(0..words).sum();
        self.verify(added, outcome.operations, "updates have arrived")?;
        self.change_all(&indices, |_| Action::Add(u64::MAX))?;
        let wrong = self.words.part(0..words).filter(|word| *word != 0).count();
        self.verify(wrong as u64, 0, "words have not the counts that were added")?;
        Ok(outcome)
    }

    /// Reads random words, each of which tells its index.
    fn index_gather(&mut self, words: u64, reads: u64) -> Result<Outcome, Error> {
        let (me, ranks) = (self.me(), self.ranks());
        self.words.set_part(|place, _| !(place * ranks + me), self.exchange)?;
        let indices = self.random_indices(reads, words * ranks);
        let mut found = vec![0; indices.len()];
        let begun_ns = self.now_ns()?;
        self.run_all(&indices, |_| Action::Get, |nth, word| found[nth] = word)?;
        let outcome = self.outcome(begun_ns, reads, 1)?;
        let wrong = indices.iter().zip(&found).filter(|(index, word)| **word != !**index).count();
        self.verify(wrong as u64, 0, "words are not those of their indices")?;
        Ok(outcome)
    }
}

/// Lists of numbers, one behind the other.
#[derive(Default)]
struct Lists {
    numbers: Vec<u64>,
    /// The end of each list.
    ends: Vec<usize>,
}

impl Lists {
    /// Ends the list of the last numbers.
    fn end(&mut self) {
        self.ends.push(self.numbers.len());
    }

    /// Returns the place of a list's first number, and the list.
    fn list(&self, nth: usize) -> (usize, &[u64]) {
        let start = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
        (start, &self.numbers[start..self.ends[nth]])
    }
}

/// Returns random numbers below one of `all`, in order: the more the larger it is, and `degree` on average.
fn random_below(number: u64, all: u64, degree: u64, random: &mut Rng) -> BTreeSet<u64> {
    let count = (2 * degree * number + random.u64(..all)) / all;
    (0..count.min(number)).map(|_| random.u64(..number)).collect()
}
