//! Tests that need the whole crate, in one program that is linked once.

mod cases;
mod collective;
mod common;
mod grow;
mod no_alloc;
mod soak;
mod speed;

use probeline_transport::conformance::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
