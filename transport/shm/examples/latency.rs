//! Prints the cost of operations on warm memory, post and poll together, for a single owner.

use std::time::Instant;

use probeline_transport::{
    Alone, Completion, Local, Owner, PostError, RemoteWord, Segment, Sizes, Slot, Token, Transport,
};

const OPERATIONS: u32 = 10_000_000;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut engine = probeline_shm::Builder::new(Sizes::new(1024)).open(&mut Alone)?;
    let at = RemoteWord { owner: Owner(0), index: 16 };
    let chunk = Segment { start: at, words: 8 };
    let slot = Local { slot: Slot(0), start: 0, words: 8 };
    println!("window in {}", engine.pages());
    measure("READ of 8 words", &mut engine, |e, token| e.read(token, chunk, slot))?;
    measure("WRITE of 8 words", &mut engine, |e, token| e.write(token, slot, chunk))?;
    measure("compare-and-swap", &mut engine, |e, token| e.compare_and_swap(token, at, 0, 0))?;
    measure("fetch-and-add", &mut engine, |e, token| e.fetch_add(token, at, 1))?;
    Ok(())
}

fn measure<T: Transport>(
    name: &str,
    engine: &mut T,
    post: impl Fn(&mut T, Token) -> Result<(), PostError>,
) -> Result<(), Box<dyn core::error::Error>> {
    let mut done = [Completion::default()];
    let start = Instant::now();
    for token in 0..OPERATIONS {
        post(engine, Token(u64::from(token)))?;
        while engine.poll(&mut done)? == 0 {}
    }
    let each_ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(OPERATIONS);
    println!("{name}: {each_ns:.1} ns");
    Ok(())
}
