//! The suite every transport passes, over UCX between processes of this machine: shared memory and
//! tcp, 2, 3 and 4 of them.

use probeline_testing::Plan;
use probeline_transport::Exchange;
use probeline_transport::conformance::{Case, CountingAllocator, Failure, Rig, Verdict};
use probeline_ucx_shim::ucx::{Atomics, Builder, Engine, Progress};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What UCX is to use, and what is beyond it then.
struct Way {
    tls: &'static str,
    atomics: Atomics,
    progress: Progress,
    whole: bool,
    skips: &'static [&'static str],
}

/// UCX orders no atomic after a put without a flush.
const AFTER_WRITE: &str = "an_atomic_follows_the_write_before_it";

/// The CPU that posts does everything, by loads, stores and its own atomic instructions. That a
/// memcpy brings words whole is true of this C library, and promised by nobody.
const SHARED: Way = Way {
    tls: "posix,sysv,cma,self",
    atomics: Atomics::Cpu,
    progress: Progress::Thread,
    whole: true,
    skips: &[AFTER_WRITE],
};

/// The same without a thread: nobody needs it, since UCX is not needed at the owner.
const SHARED_ALONE: Way = Way { progress: Progress::Caller, ..SHARED };

/// Atomics of a device, which memory is not: the owner's CPU does them.
const SHARED_DEVICE: Way = Way {
    atomics: Atomics::Device,
    whole: false,
    skips: &[AFTER_WRITE, "words_are_whole_under_a_writer", "atomic_with_the_cpu"],
    ..SHARED
};

/// The owner's CPU does everything, in the engine's thread.
const TCP: Way = Way {
    tls: "tcp",
    whole: false,
    skips: &[AFTER_WRITE, "words_are_whole_under_a_writer"],
    ..SHARED
};

fn main() {
    probeline_testing::run(&[
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

fn suite(test: &str, way: &Way, owners: u32) {
    probeline_testing::conformance(test, owners, way.skips, |case, job| run(way, case, job));
}

fn run<E: Exchange>(way: &Way, case: &Case, exchange: &mut E) -> Result<Verdict, Failure> {
    let mut engine = open(way, case, exchange)?;
    case.run(&mut Rig::new(&mut engine, exchange))
}

fn open<E: Exchange>(way: &Way, case: &Case, exchange: &mut E) -> Result<Engine, Failure> {
    let sizes = case.sizes;
    Builder::new(sizes.window_words)
        .slots(sizes.slots, sizes.slot_words)
        .depth(sizes.depth)
        .tls(Some(way.tls))
        .atomics(way.atomics)
        .progress(way.progress)
        .word_reads_whole(way.whole)
        .open(exchange)
        .map_err(|error| Failure(format!("{error} ({error:?})")))
}
