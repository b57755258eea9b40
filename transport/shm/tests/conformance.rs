//! The suite every transport passes, over threads and over processes.

mod common;
mod counting;

use std::thread;

use common::Plan;
use probeline_exchange::Job;
use probeline_shm::{Builder, Engine};
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_transport::{Exchange, Owner};

/// Nothing is beyond this transport.
const SKIPS: &[&str] = &[];

fn open<E: Exchange>(case: &Case, exchange: &mut E) -> Result<Engine, Failure> {
    let shape = case.shape;
    Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .open(exchange)
        .map_err(|error| Failure(format!("{error} ({error:?})")))
}

fn run<E: Exchange>(case: &Case, exchange: &mut E) -> Result<Verdict, Failure> {
    let mut engine = open(case, exchange)?;
    let mut rig = Rig::new(&mut engine, exchange);
    rig.allocations = Some(counting::allocations);
    case.run(&mut rig)
}

fn threads() {
    let mut report = Report::new();
    for case in cases() {
        let members = probeline_exchange::threads(case.shape.owners);
        let verdicts: Vec<_> = thread::scope(|scope| {
            let owners: Vec<_> = members
                .into_iter()
                .map(|mut member| scope.spawn(move || run(case, &mut member)))
                .collect();
            owners.into_iter().map(|owner| owner.join().unwrap()).collect()
        });
        report.add(case, &verdicts);
    }
    report.judge(SKIPS).unwrap();
}

fn main() {
    assert!(cases().all(|case| matches!(case.shape.owners, 2 | 3)), "a job of each size below");
    common::run(&[
        ("threads", Plan::Run(threads)),
        ("two_processes", Plan::Run(two_processes)),
        ("three_processes", Plan::Run(three_processes)),
    ]);
}

fn two_processes() {
    processes("two_processes", 2);
}

fn three_processes() {
    processes("three_processes", 3);
}

/// One job for all cases of so many owners, each case with an engine of its own.
fn processes(test: &str, owners: u32) {
    let mut job = common::start(test, owners);
    let mut report = Report::new();
    for case in cases().filter(|case| case.shape.owners == owners) {
        let mine = run(case, &mut job);
        let verdicts = everybodys(mine, &mut job);
        if job.me() == Owner(0) {
            report.add(case, &verdicts);
        }
    }
    let ends = common::finish(job);
    assert!(ends.iter().all(|end| end.success()), "{ends:?}");
    report.judge(SKIPS).unwrap();
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
