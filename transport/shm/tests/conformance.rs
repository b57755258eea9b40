//! The conformance suite, over threads and over processes.

use probeline_exchange::testing::Plan;
use probeline_shm::{Builder, Engine};
use probeline_transport::Exchange;
use probeline_transport::conformance::{
    Case, CountingAllocator, Failure, Report, Rig, Verdict, cases, on_threads,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// This transport has all capabilities.
const SKIPS: &[&str] = &[];

fn main() {
    probeline_exchange::testing::run(&[
        ("threads", Plan::Run(threads)),
        ("two_processes", Plan::Run(|| processes("two_processes", 2))),
        ("three_processes", Plan::Run(|| processes("three_processes", 3))),
    ]);
}

fn open<E: Exchange>(case: &Case, exchange: &mut E) -> Result<Engine, Failure> {
    let sizes = case.sizes;
    Builder::new(sizes).open(exchange).map_err(|error| Failure(format!("{error} ({error:?})")))
}

fn run<E: Exchange>(case: &Case, exchange: &mut E) -> Result<Verdict, Failure> {
    let mut engine = open(case, exchange)?;
    case.run(&mut Rig::new(&mut engine, exchange))
}

fn threads() {
    for owners in 1..=3 {
        let mut report = Report::new(owners);
        for case in cases(owners) {
            let members = probeline_exchange::threads(owners);
            report.add(case, &on_threads(members, |mut member| run(case, &mut member)));
        }
        report.judge(SKIPS).unwrap();
    }
}

fn processes(test: &str, owners: u32) {
    probeline_exchange::testing::conformance(test, owners, SKIPS, run);
}
