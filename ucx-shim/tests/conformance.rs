//! The suite every transport passes, over UCX between processes of this machine: shared memory and
//! tcp, 2, 3 and 4 of them.

mod common;
mod counting;

use probeline_exchange::Job;
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_transport::{Exchange, Owner};
use probeline_ucx_shim::ucx::{Atomics, Builder, Engine, Progress};

/// What UCX is to use, and what is beyond it then.
struct Way {
    tls: &'static str,
    atomics: Atomics,
    progress: Progress,
    whole: bool,
    skips: &'static [&'static str],
}

/// The CPU that posts does everything, by loads, stores and its own atomic instructions. That a
/// memcpy brings words whole is true of this C library, and promised by nobody.
const SHARED: Way = Way {
    tls: "posix,sysv,cma,self",
    atomics: Atomics::Cpu,
    progress: Progress::Thread,
    whole: true,
    skips: &[],
};

/// The same without a thread: nobody needs it, since UCX is not needed at the owner.
const SHARED_ALONE: Way = Way { progress: Progress::Caller, ..SHARED };

/// Atomics of a device, which memory is not: the owner's CPU does them.
const SHARED_DEVICE: Way = Way {
    atomics: Atomics::Device,
    whole: false,
    skips: &["words_are_whole_under_a_writer", "atomic_with_the_cpu"],
    ..SHARED
};

/// The owner's CPU does everything, in the engine's thread.
const TCP: Way =
    Way { tls: "tcp", whole: false, skips: &["words_are_whole_under_a_writer"], ..SHARED };

fn main() {
    assert!(cases().all(|case| matches!(case.shape.owners, 2 | 3)), "a job of each size below");
    common::run(&[
        ("shared_two", || suite("shared_two", &SHARED, 2)),
        ("shared_three", || suite("shared_three", &SHARED, 3)),
        ("shared_four", || suite("shared_four", &SHARED, 4)),
        ("alone_two", || suite("alone_two", &SHARED_ALONE, 2)),
        ("alone_three", || suite("alone_three", &SHARED_ALONE, 3)),
        ("device_two", || suite("device_two", &SHARED_DEVICE, 2)),
        ("device_three", || suite("device_three", &SHARED_DEVICE, 3)),
        ("tcp_two", || suite("tcp_two", &TCP, 2)),
        ("tcp_three", || suite("tcp_three", &TCP, 3)),
        ("tcp_four", || suite("tcp_four", &TCP, 4)),
    ]);
}

fn open<E: Exchange>(way: &Way, case: &Case, exchange: &mut E) -> Result<Engine, Failure> {
    let shape = case.shape;
    Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .tls(Some(way.tls))
        .atomics(way.atomics)
        .progress(way.progress)
        .word_reads_whole(way.whole)
        .open(exchange)
        .map_err(|error| Failure(format!("{error} ({error:?})")))
}

fn run<E: Exchange>(way: &Way, case: &Case, exchange: &mut E) -> Result<Verdict, Failure> {
    let mut engine = open(way, case, exchange)?;
    let mut rig = Rig::new(&mut engine, exchange);
    rig.allocations = Some(counting::allocations);
    case.run(&mut rig)
}

/// One job for all cases of so many owners, each case with an engine of its own. Four do what is
/// for three.
fn suite(test: &str, way: &Way, owners: u32) {
    let of_size = |case: &&Case| case.shape.owners == owners.min(3);
    let mut job = common::start(test, owners);
    if job.me() == Owner(0) {
        println!("{test}: {}, atomic mode {}", way.tls, way.atomics);
    }
    let mut report = Report::new();
    for case in cases().filter(of_size) {
        let mine = run(way, case, &mut job);
        let verdicts = everybodys(mine, &mut job);
        if job.me() == Owner(0) {
            report.add(case, &verdicts);
        }
    }
    let ends = common::finish(job);
    assert!(ends.iter().all(|end| end.success()), "{ends:?}");
    let skips: Vec<_> = cases().filter(of_size).map(|case| case.name).collect();
    let skips: Vec<_> = way.skips.iter().copied().filter(|skip| skips.contains(skip)).collect();
    report.judge(&skips).unwrap();
}

/// The verdicts of all owners; what went wrong elsewhere is on the other process's output.
fn everybodys(mine: Result<Verdict, Failure>, job: &mut Job) -> Vec<Result<Verdict, Failure>> {
    if let Err(failure) = &mine {
        eprintln!("{}: {failure}", job.me());
    }
    let mut passed = vec![0; job.owners() as usize];
    job.all_gather(&[u8::from(mine.is_ok())], &mut passed).unwrap();
    passed
        .into_iter()
        .map(|passed| match passed {
            0 => Err(Failure("see what it printed itself".into())),
            // A skip depends on the capabilities, which are the same for all.
            _ => mine.clone(),
        })
        .collect()
}
