//! Runs the kernels histogram and index-gather of `probeline bale` with Lamellar. Each process executes
//! 5 million operations on random words of an array that has a million words per process. Process 0
//! prints the elapsed seconds.

use std::env;
use std::time::Instant;

use lamellar::array::prelude::*;

const WORDS: usize = 1_000_000;
const OPERATIONS: usize = 5_000_000;

fn main() {
    let kernel = env::args().nth(1).unwrap_or_default();
    let world = lamellar::LamellarWorldBuilder::new().build();
    let all = WORDS * world.num_pes();
    let array = AtomicArray::<usize>::new(&world, all, lamellar::Distribution::Block).block();
    let mut random = fastrand::Rng::with_seed(world.my_pe() as u64);
    let indices: Vec<usize> = (0..OPERATIONS).map(|_| random.usize(..all)).collect();
    array.barrier();
    let begun = Instant::now();
    match kernel.as_str() {
        "histogram" => array.batch_add(indices, 1).block(),
        "index-gather" => assert_eq!(array.batch_load(indices).block().len(), OPERATIONS),
        _ => panic!("usage: lamellar-bale histogram|index-gather"),
    }
    world.wait_all();
    world.barrier();
    let seconds = begun.elapsed().as_secs_f64();
    if kernel == "histogram" {
        assert_eq!(array.sum().block(), Some(OPERATIONS * world.num_pes()));
    }
    if world.my_pe() == 0 {
        println!("{seconds}");
    }
}
