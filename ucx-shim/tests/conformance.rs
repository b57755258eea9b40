//! The conformance suite over UCX, between 2, 3 and 4 processes of this machine, over shared memory
//! and tcp.

use probeline_exchange::testing::Plan;
use probeline_transport::conformance::{CountingAllocator, Failure, Rig};
use probeline_ucx_shim::ucx::{Atomics, Builder, Progress};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Options of UCX, and the cases that are skipped with them.
struct Setting {
    tls: &'static str,
    atomics: Atomics,
    progress: Progress,
    whole: bool,
    skips: &'static [&'static str],
}

/// UCX does not order an atomic after a put without a flush.
const AFTER_WRITE: &str = "an_atomic_follows_the_write_before_it";
const LOST: &str = "a_lost_owner_is_named";

/// Shared memory: the CPU that posts executes all operations, with loads, stores and its own atomic
/// instructions. The memcpy of this C library never tears a word, but no standard promises that.
const SHARED: Setting = Setting {
    tls: "posix,sysv,cma,self",
    atomics: Atomics::Cpu,
    progress: Progress::Thread,
    whole: true,
    skips: &[AFTER_WRITE, LOST],
};

/// Shared memory without a progress thread, because no operation needs the owner's CPU.
const SHARED_ALONE: Setting = Setting { progress: Progress::Caller, ..SHARED };

/// Shared memory in the mode of device atomics: without a device, the owner's CPU executes them.
const SHARED_DEVICE: Setting = Setting {
    atomics: Atomics::Device,
    whole: false,
    skips: &["words_are_whole_under_a_writer", "atomic_with_the_cpu", AFTER_WRITE, LOST],
    ..SHARED
};

/// tcp: the owner's CPU executes all operations, in the engine's progress thread.
const TCP: Setting = Setting {
    tls: "tcp",
    whole: false,
    skips: &["words_are_whole_under_a_writer", AFTER_WRITE, LOST],
    ..SHARED
};

fn main() {
    probeline_exchange::testing::run(&[
        ("shared_two", Plan::Run(|| suite("shared_two", &SHARED, 2))),
        ("shared_three", Plan::Run(|| suite("shared_three", &SHARED, 3))),
        ("shared_four", Plan::Run(|| suite("shared_four", &SHARED, 4))),
        ("alone_two", Plan::Run(|| suite("alone_two", &SHARED_ALONE, 2))),
        ("alone_three", Plan::Run(|| suite("alone_three", &SHARED_ALONE, 3))),
        ("device_two", Plan::Run(|| suite("device_two", &SHARED_DEVICE, 2))),
        ("device_three", Plan::Run(|| suite("device_three", &SHARED_DEVICE, 3))),
        ("tcp_two", Plan::Run(|| suite("tcp_two", &TCP, 2))),
        ("tcp_three", Plan::Run(|| suite("tcp_three", &TCP, 3))),
        ("tcp_four", Plan::Run(|| suite("tcp_four", &TCP, 4))),
    ]);
}

fn suite(test: &str, setting: &Setting, owners: u32) {
    probeline_exchange::testing::conformance(test, owners, setting.skips, |case, job| {
        let mut engine = Builder::new(case.sizes)
            .tls(Some(setting.tls))
            .atomics(setting.atomics)
            .progress(setting.progress)
            .word_reads_whole(setting.whole)
            .open(job)
            .map_err(|error| Failure(format!("{error} ({error:?})")))?;
        case.run(&mut Rig::new(&mut engine, job))
    });
}
