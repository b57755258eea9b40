//! Topological sort: a sparse upper triangular matrix, whose rows and columns were permuted at random, becomes
//! triangular again.
//!
//! Each row has a word with the number of its nonzero elements and the sum of their columns. A row with one element
//! has its column as the sum: both take the last free place of the order, and the rows of all other elements of
//! the column lose one. A row that loses all but one by this goes to the queue of the rank that has its last
//! column.

use probeline::transport::Transport;

use super::permutation::{self, throw};
use super::words::{Action, owner};
use super::{Bench, Lists, Outcome, random_below};
use crate::Error;
use crate::gather::numbering;

/// One element in the word of a row, above the sum of columns.
const ELEMENT: u64 = 1 << 40;

// Sections of the words, each of as many words as the matrix has rows: places that numbers are thrown at, and
// marks of a verification, twice as many; the new place of each row and the old one of each column; the rows
// with their elements; the results; the ends of queues, a word for each rank; the queues.
const ROWS_TO: u64 = 2;
const COLUMNS_FROM: u64 = 3;
const ELEMENTS: u64 = 4;
const ROW_PLACES: u64 = 5;
const COLUMN_PLACES: u64 = 6;
const ENDS: u64 = 7;

/// Returns the words for a matrix of this many rows.
pub(super) fn words(rows: u64, ranks: u64) -> u64 {
    (ENDS + 1) * rows + ranks
}

/// The columns of this rank, and what its words are.
struct Matrix {
    /// Rows of a rank.
    rows: u64,
    /// Rows of the matrix.
    all: u64,
    ranks: u64,
    me: u64,
    /// The rows of the elements of each column.
    columns: Lists,
}

impl Matrix {
    /// Makes a matrix of `rows` rows of each rank, of `degree` elements beside the diagonal one on average.
    fn new<T: Transport>(bench: &mut Bench<'_, T>, rows: u64, degree: u64) -> Result<Self, Error> {
        let (me, ranks) = (bench.me(), bench.ranks());
        let mut matrix = Self { rows, all: rows * ranks, ranks, me, columns: Lists::default() };
        for section in [ROWS_TO, COLUMNS_FROM] {
            let thrown = throw(bench, rows)?;
            let first = matrix.index(section, thrown.first);
            let places: Vec<u64> = (first..).take(thrown.numbers.len()).collect();
            bench.change_all(&places, |nth| Action::Add(thrown.numbers[nth]))?;
            matrix.clear_marks(bench)?;
        }
        for from in bench.words.part(matrix.places(COLUMNS_FROM)).collect::<Vec<_>>() {
            // Row `i` has elements in columns behind `i`, so a column has the more the further behind it is.
            let above = random_below(from, matrix.all, degree, &mut bench.random);
            matrix.columns.numbers.extend(above);
            matrix.columns.numbers.push(from);
            matrix.columns.end();
        }
        let from: Vec<u64> =
            matrix.columns.numbers.iter().map(|row| matrix.index(ROWS_TO, *row)).collect();
        let elements = &mut matrix.columns.numbers;
        bench.run_all(&from, |_| Action::Get, |nth, row| elements[nth] = row)?;
        let (at, columns): (Vec<u64>, Vec<u64>) =
            matrix.elements().map(|(row, column)| (matrix.index(ELEMENTS, row), column)).unzip();
        bench.change_all(&at, |nth| Action::Add(ELEMENT + columns[nth]))?;
        Ok(matrix)
    }

    /// Returns the index of the word of a row or a column in a section.
    fn index(&self, section: u64, nth: u64) -> u64 {
        section * self.all + nth
    }

    /// Returns the places of a section in a rank's part.
    fn places(&self, section: u64) -> core::ops::Range<u64> {
        section * self.rows..(section + 1) * self.rows
    }

    fn clear_marks<T: Transport>(&self, bench: &mut Bench<'_, T>) -> Result<(), Error> {
        let marks = ROWS_TO * self.rows;
        let clear = |place, word| if place < marks { 0 } else { word };
        bench.words.set_part(clear, bench.exchange)
    }

    /// Returns the rows of the elements of a column of this rank.
    fn column(&self, column: u64) -> &[u64] {
        let nth = usize::try_from(column / self.ranks).unwrap_or(usize::MAX);
        self.columns.list(nth).1
    }

    /// Returns the row and the column of each element of this rank's columns.
    fn elements(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let columns = (0..self.rows).map(|nth| nth * self.ranks + self.me);
        columns.flat_map(|column| self.column(column).iter().map(move |row| (*row, column)))
    }
}

/// Rows with one element, each with its column.
type Pivots = Vec<(u64, u64)>;

/// Pushes pivots to the queues of the ranks that have their columns, and pops those of this rank, which has popped
/// `taken` of them before.
fn pass<T: Transport>(
    taken: &mut u64,
    matrix: &Matrix,
    pivots: &Pivots,
    bench: &mut Bench<'_, T>,
) -> Result<Pivots, Error> {
    let Matrix { all, rows, ranks, .. } = *matrix;
    let host = |column: u64| u64::from(owner(column, ranks).0);
    let ends: Vec<u64> = pivots.iter().map(|(_, column)| ENDS * all + host(*column)).collect();
    let mut slots = vec![0; ends.len()];
    bench.run_all(&ends, |_| Action::Add(1), |nth, slot| slots[nth] = slot)?;
    for (slot, end) in slots.iter_mut().zip(&ends) {
        *slot = end + (*slot + 1) * ranks;
    }
    bench.change_all(&slots, |nth| Action::Add(pivots[nth].0 << 32 | pivots[nth].1))?;
    let end = bench.words.word(ENDS * rows);
    let first = ENDS * rows + 1;
    let popped = bench.words.part(first + *taken..first + end);
    let popped = popped.map(|word| (word >> 32, word & u64::from(u32::MAX))).collect();
    *taken = end;
    Ok(popped)
}

pub(super) fn run<T: Transport>(
    bench: &mut Bench<'_, T>,
    rows: u64,
    degree: u64,
) -> Result<Outcome, Error> {
    let matrix = Matrix::new(bench, rows, degree)?;
    let begun_ns = bench.now_ns()?;
    let (done, rounds) = sort(&matrix, bench)?;
    let outcome = bench.outcome(begun_ns, matrix.columns.numbers.len() as u64, rounds)?;
    if done != matrix.all {
        return Err(Error::Wrong(format!("{done} rows of {} have a place", matrix.all)));
    }
    verify(&matrix, bench)?;
    Ok(outcome)
}

/// Gives each row and each column its place. Returns the rows that have one, and the rounds.
fn sort<T: Transport>(matrix: &Matrix, bench: &mut Bench<'_, T>) -> Result<(u64, u64), Error> {
    let (mut taken, mut done, mut rounds) = (0, 0, 0);
    let column = |word: u64| (word / ELEMENT == 1).then_some(word % ELEMENT);
    let own_rows = (0..).map(|nth| nth * matrix.ranks + matrix.me);
    let words = own_rows.zip(bench.words.part(matrix.places(ELEMENTS)));
    let mut found: Pivots = words.filter_map(|(row, word)| Some((row, column(word)?))).collect();
    // Each round ends at least one row.
    loop {
        let pivots = pass(&mut taken, matrix, &found, bench)?;
        let (first, count) = numbering(pivots.len() as u64, bench.exchange)?;
        if count == 0 {
            return Ok((done, rounds));
        }
        let rows = pivots.iter().map(|(row, _)| matrix.index(ROW_PLACES, *row));
        let columns = pivots.iter().map(|(_, column)| matrix.index(COLUMN_PLACES, *column));
        let ends: Vec<u64> = rows.chain(columns).collect();
        let free = matrix.all - done - first;
        bench.change_all(&ends, |nth| Action::Add(free - 1 - (nth % pivots.len()) as u64))?;
        done += count;
        rounds += 1;
        let losses: Pivots = pivots
            .iter()
            .flat_map(|(row, column)| {
                let others = matrix.column(*column).iter().filter(move |other| *other != row);
                others.map(|other| (*other, *column))
            })
            .collect();
        let at: Vec<u64> = losses.iter().map(|(row, _)| matrix.index(ELEMENTS, *row)).collect();
        found.clear();
        let lost = |nth: usize| ELEMENT + losses[nth].1;
        let action = |nth| Action::Add(lost(nth).wrapping_neg());
        bench.run_all(&at, action, |nth, before| {
            found.extend(column(before.wrapping_sub(lost(nth))).map(|left| (losses[nth].0, left)));
        })?;
    }
}

/// Checks that the places are permutations, and that no element is below the diagonal.
fn verify<T: Transport>(matrix: &Matrix, bench: &mut Bench<'_, T>) -> Result<(), Error> {
    for (first, section) in [(0, ROW_PLACES), (matrix.all, COLUMN_PLACES)] {
        let places: Vec<u64> = bench.words.part(matrix.places(section)).collect();
        permutation::verify(bench, &places, first, matrix.all)?;
    }
    let rows: Vec<u64> = matrix.elements().map(|(row, _)| matrix.index(ROW_PLACES, row)).collect();
    let places = matrix
        .elements()
        .map(|(_, column)| bench.words.word(COLUMN_PLACES * matrix.rows + column / matrix.ranks));
    let places: Vec<u64> = places.collect();
    let mut wrong = 0;
    bench.run_all(&rows, |_| Action::Get, |nth, row| wrong += u64::from(row > places[nth]))?;
    bench.verify(wrong, 0, "elements are below the diagonal")
}
