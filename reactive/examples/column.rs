//! The benchmark's column of 50 cells after 21,000 s: calcite has dissolved up to the front, and
//! dolomite is behind it.
//!
//! `cargo run --release -p probeline-reactive --example column` prints each cell in mmol/l, and the time
//! of an equilibrium.

use core::error::Error;
use std::time::Instant;

use probeline_reactive::{Band, Cell, Flow, Grid, Water, equilibrium};

/// The time that the benchmark simulates, in s.
const TIME_S: f64 = 21_000.0;

fn main() -> Result<(), Box<dyn Error>> {
    let (flow, resident) = (Flow::of_benchmark(), Water::with_calcite()?);
    let mut band = Band::new(Grid { columns: 50, rows: 1 }, 0..1, Cell::with_calcite(resident));
    let mut answers = vec![probeline_reactive::Answer::default(); band.cells().len()];
    let (begin, mut time_s, mut solved) = (Instant::now(), 0.0, 0_u32);
    while time_s < TIME_S {
        band.flow(&flow, &[Water::with_magnesium()], None, None);
        for (cell, answer) in band.cells_mut().iter_mut().zip(&mut answers) {
            *answer = equilibrium(&cell.question(flow.step_s()))?;
            cell.react(answer);
        }
        (time_s, solved) = (time_s + flow.step_s(), solved + 50);
    }
    let us = begin.elapsed().as_secs_f64() * 1e6 / f64::from(solved);
    println!("cell      Ca      Mg       C      Cl    pH  calcite  dolomite");
    for (number, (cell, answer)) in band.cells().iter().zip(&answers).enumerate() {
        let Water { calcium, magnesium, carbon, chloride, .. } = cell.water;
        let [calcium, magnesium, carbon, chloride] =
            [calcium, magnesium, carbon, chloride].map(|total| total * 1e3);
        let (ph, calcite, dolomite) = (answer.ph, cell.calcite * 1e3, cell.dolomite * 1e3);
        println!(
            "{number:4} {calcium:7.4} {magnesium:7.4} {carbon:7.4} {chloride:7.4} {ph:5.2} {calcite:8.4} \
             {dolomite:9.4}"
        );
    }
    println!("{solved} equilibria, {us:.1} us each, flow included");
    Ok(())
}
