//! Tests of whole containers, in one program that is linked once.

/// Opens a container over shared memory, with storage for this number of operations.
macro_rules! on_shm {
    ($open:expr, $config:expr, $sizes:expr, $operations:expr, $job:expr) => {{
        let engine = probeline_shm::Builder::new($sizes).open($job).unwrap();
        let operations = vec![probeline_pipeline::Operation::EMPTY; $operations];
        $open(engine, $config, operations, $job)
    }};
}

mod aggregator;
mod array;
mod costs;
mod counters;
mod edges;
mod filter;
mod maps;
mod queue;
mod simulated;
