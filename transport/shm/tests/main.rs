//! Tests of shared memory that need no process of their own, in one program that is linked once.

mod order;
mod sabotage;
mod splitter;

use probeline_transport::conformance::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
