//! The rows beside a rank's band, which it READs from the windows of its neighbours.

use core::sync::atomic::Ordering::Release;

use probeline::transport::{Exchange, Owner, RemoteWord, Segment, Sizes};

use crate::reactive::{Band, COMPONENTS, Grid};
use crate::reads::read_all;
use crate::{Error, Timed};

/// Words of one READ, and of the slot that it lands in.
const READ_WORDS: u32 = 512;
/// A rank's first row and its last one.
const ROWS: u64 = 2;
/// Steps whose rows are in the window at a time, so that a step has one barrier: a neighbour may still
/// read the rows of the previous step.
const STEPS: u64 = 2;

type Row = Vec<[f64; COMPONENTS]>;

/// Returns what the rows take of an engine: its last words of each window, and its last slot. Their READs are not in
/// flight together with operations of the map.
pub(super) fn sizes(grid: Grid) -> Sizes {
    let window_words = row_words(grid.columns) * ROWS * STEPS;
    Sizes { window_words, slots: 1, slot_words: READ_WORDS, depth: 0 }
}

/// Shows the neighbours the outer rows of the band, and returns the rows above and below it. All
/// ranks call it, with the number of the step.
pub(super) fn exchange(
    engine: &mut dyn Timed,
    step: u64,
    band: &Band,
    exchange: &mut dyn Exchange,
) -> Result<[Option<Row>; 2], Error> {
    let columns = band.columns();
    let first_word = engine.geometry().window_words - row_words(columns) * ROWS * STEPS;
    let word = |row: u64| first_word + (step % STEPS * ROWS + row) * row_words(columns);
    for (row, components) in (0..).zip(band.outer_rows()) {
        let first = usize::try_from(word(row))?;
        let words = engine.window().iter().skip(first);
        for (word, number) in words.zip(components.as_flattened()) {
            word.store(number.to_bits(), Release);
        }
    }
    exchange.barrier()?;
    let (me, ranks) = (exchange.me().0, exchange.owners());
    // The last row of the rank above, and the first row of the one below.
    let above = me.checked_sub(1).map(|owner| RemoteWord { owner: Owner(owner), index: word(1) });
    let below = (me + 1 < ranks).then(|| RemoteWord { owner: Owner(me + 1), index: word(0) });
    let mut row = |at: Option<RemoteWord>| at.map(|at| read(engine, at, columns)).transpose();
    Ok([row(above)?, row(below)?])
}

fn read(engine: &mut dyn Timed, at: RemoteWord, columns: usize) -> Result<Row, Error> {
    let end = at.index + row_words(columns);
    let starts = (at.index..end).step_by(READ_WORDS as usize);
    let reads = starts.map(|index| Segment {
        start: RemoteWord { index, ..at },
        words: u32::try_from(end - index).map_or(READ_WORDS, |left| left.min(READ_WORDS)),
    });
    let mut numbers = Vec::with_capacity(columns * COMPONENTS);
    // In their order, because there is one slot: the last one.
    let slots = engine.geometry().slots;
    read_all(engine, slots - 1..slots, reads.collect(), |landed| {
        numbers.extend(landed.iter().map(|&bits| f64::from_bits(bits)));
    })?;
    Ok(numbers.as_chunks().0.to_vec())
}

fn row_words(columns: usize) -> u64 {
    (columns * COMPONENTS) as u64
}
