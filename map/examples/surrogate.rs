//! The pattern of a simulation that caches an expensive function: round the arguments of many cells,
//! look all of them up, compute what is missing, and put that into the map.
//!
//! `cargo run --release -p probeline-map --example surrogate`. `probeline surrogate` does the same with
//! reactive transport, over all ranks of a job.

use core::error::Error;

use probeline_map::{Config, Field, Map, Operation, Rounding};
use probeline_shm::Builder;
use probeline_transport::Alone;

const CELLS: usize = 64;
const STEPS: u32 = 200;

/// Temperature and concentration, and the time step, which is not rounded.
type Arguments = [f64; 3];
/// The concentration after the step, and its rate at the end.
type Reaction = [f64; 2];

/// An expensive function: a reaction that heat speeds up, in many small steps.
fn react([temperature, concentration, step]: Arguments) -> Reaction {
    let rate = (-50.0 / temperature).exp();
    let after = (0..1_000).fold(concentration, |left, _| left * (1.0 - rate * step / 1_000.0));
    [after, rate * after]
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::for_entries(100_000, 1);
    let engine = Builder::new(config.sizes::<Arguments, Reaction>(32)).open(&mut Alone)?;
    let mut map = Map::open(engine, config, vec![Operation::EMPTY; 32], &mut Alone)?;
    let rounding = Rounding::<Arguments, 3>::new([Field::F64(4), Field::F64(4), Field::Exact(8)])?;

    // A rod that is hot at one end, in a stream that brings new substance to all cells. As they become
    // steady, their rounded arguments repeat.
    let mut cells: Vec<Arguments> =
        (0..CELLS).map(|at| [20.0 + 80.0 * (0.9_f64).powf(at as f64), 1.0, 0.1]).collect();
    let mut results = vec![None; CELLS];
    for _ in 0..STEPS {
        let keys: Vec<Arguments> = cells.iter().map(|cell| rounding.round(cell)).collect();
        map.get_or_compute_batch(&keys, &mut results, |key| react(*key))?;
        for (cell, result) in cells.iter_mut().zip(&results) {
            let [after, _] = result.ok_or("a result for each cell")?;
            cell[1] = after + 0.1 * (1.0 - after);
        }
        map.advance_age();
    }
    let stats = map.stats();
    println!("{} of {} results were in the map", stats.hits, stats.reads());
    println!("concentrations {:.4} to {:.4}", cells[0][1], cells[CELLS - 1][1]);
    Ok(())
}
