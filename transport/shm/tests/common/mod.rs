//! Jobs of processes: copies of the test program, all of which run the same test.

use core::time::Duration;
use std::env;
use std::panic::catch_unwind;
use std::process::{self, ExitStatus};

use probeline_exchange::{Job, Limits, Options, Start, join};
use probeline_transport::{Exchange, Owner};

/// Longer than any phase of a test takes on a busy machine, so that a hanging test fails with its
/// name.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a test can run here.
pub(crate) enum Plan {
    Run(fn()),
    /// The test cannot run, for this reason.
    #[allow(dead_code, reason = "each test file uses a part of this")]
    Ignore(&'static str),
}

/// Runs in sequence the tests whose names contain the program's first argument, or all tests
/// without an argument. The last line counts them like the standard test harness.
pub(crate) fn run(tests: &[(&str, Plan)]) {
    let (flags, names): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|a| a.starts_with('-'));
    let exact = flags.iter().any(|flag| flag == "--exact");
    let wanted = |name: &str| match names.first() {
        Some(part) => {
            if exact {
                name == part
            } else {
                name.contains(part)
            }
        }
        None => true,
    };
    let [mut passed, mut failed, mut ignored] = [0; 3];
    for (name, plan) in tests.iter().filter(|(name, _)| wanted(name)) {
        let (end, count) = match plan {
            Plan::Run(test) if catch_unwind(test).is_ok() => ("ok".to_owned(), &mut passed),
            Plan::Run(_) => ("FAILED".to_owned(), &mut failed),
            Plan::Ignore(reason) => (format!("ignored, {reason}"), &mut ignored),
        };
        *count += 1;
        println!("test {name} ... {end}");
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored");
    process::exit(failed);
}

/// Joins a job of `ranks` processes that run the test called `test`. The process that cargo has
/// started is rank 0; the others come here by the same way.
pub(crate) fn start(test: &str, ranks: u32) -> Job {
    let arguments = Some(vec![test.into(), "--exact".into()]);
    join(Options {
        start: Start::Spawn { ranks, arguments },
        parameters: test.into(),
        secret: None,
        limits: Limits { rendezvous: PATIENCE, collective: PATIENCE },
    })
    .unwrap()
}

/// Leaves the job: the others' processes end here, rank 0 gets how they ended, in order of ranks.
pub(crate) fn finish(job: Job) -> Vec<ExitStatus> {
    if job.me() != Owner(0) {
        drop(job);
        process::exit(0);
    }
    let ends = job.finish(PATIENCE);
    ends.into_iter().map(|(rank, end)| end.unwrap_or_else(|| panic!("rank {rank} hung"))).collect()
}
