//! Measures the simulation rate of the stage: blocking READs of 8 words in a second of real time,
//! with one owner active and the others in a barrier, and with all owners active.
//!
//! `cargo run --release -p probeline-sim --features std --example stage_rate`

use std::time::Instant;

use probeline_sim::{Cluster, Config, Engine, Model, stage};
use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport,
};

type Failure = Box<dyn core::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    for (owners, active, ops) in [(2, 1, 2_000_000), (2, 2, 100_000), (4, 4, 50_000)] {
        let config = Config { owners, model: Model::simple(2_000), ..Config::default() };
        let cluster = Cluster::new(config)?;
        let start = Instant::now();
        let bodies = stage::run(&cluster, |mut engine, mut exchange| -> Result<(), Failure> {
            if exchange.me().0 < active {
                reads(&mut engine, ops)?;
            }
            Ok(exchange.barrier()?)
        })?;
        bodies.into_iter().collect::<Result<(), Failure>>()?;
        let all = u64::from(active) * ops;
        let per_s = all * 1_000_000 / u64::try_from(start.elapsed().as_micros())?.max(1);
        println!("{owners} owners, {active} active: {per_s} READs a second, {all} in all");
    }
    Ok(())
}

fn reads(engine: &mut Engine, ops: u64) -> Result<(), Failure> {
    let geometry = *engine.geometry();
    let peer = Owner((geometry.me.0 + 1) % geometry.owners);
    let into = Local { slot: Slot(0), start: 0, words: 8 };
    let mut completions = [Completion::default(); 1];
    for op in 0..ops {
        let start = RemoteWord { owner: peer, index: 8 * (op % 16) };
        engine.read(Token(op), Segment { start, words: 8 }, into)?;
        while engine.poll(&mut completions)? == 0 {}
        completions[0].result?;
    }
    Ok(())
}
