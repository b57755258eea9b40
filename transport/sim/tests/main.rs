//! Tests of the simulator, in one program that is linked once.

mod common;
mod conformance;
mod faults;
mod order;
mod property;
mod splitter;
mod stage;
mod timing;

use probeline_transport::conformance::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
