//! Tests of the verbs and of the transport over stand-in devices, in one program that is linked once.

mod conformance;
mod faults;
mod job;
mod keepalive;
mod opening;
mod queries;
mod requests;
mod stand_in;
mod teardown;

use probeline_transport::conformance::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
