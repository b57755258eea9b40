//! Tests that commands continue without system calls that containers commonly refuse: they print
//! one note and produce the same results.

use std::fs;

use crate::common::{Ended, Running, Scratch, probeline, read_rows};
use probeline::pin::Topology;
use probeline_pin::testing::{
    COMMONLY_REFUSED, ENOSYS, EPERM, NUMA_POLICY, SYS_sched_getaffinity, SYS_sched_setaffinity,
    refuse_in,
};

const ERRORS: [(i32, &str); 2] =
    [(EPERM, "Operation not permitted (EPERM)"), (ENOSYS, "Function not implemented (ENOSYS)")];

/// Runs the command with these system calls failing with that error.
fn run_refusing(calls: &[i64], errno: i32, arguments: &[&str]) -> Ended {
    Running::start(refuse_in(&mut probeline(arguments), calls, errno)).end()
}

/// The counts are the same, and standard error has one note.
#[test]
fn explore_continues_without_refused_calls() {
    for ((error, text), ranks) in ERRORS.into_iter().flat_map(|error| [(error, "2"), (error, "3")])
    {
        let scratch = Scratch::new();
        let csv = scratch.path("rows.csv");
        let arguments =
            ["explore", "fms:2", "--table-size", "2MiB", "--ranks", ranks, "--csv", &csv];
        let explored = |calls: &[i64]| {
            let ended = run_refusing(calls, error, &arguments);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let counts = ["states", "arcs", "deadlocks"];
            assert_eq!(
                counts.map(|count| read_rows(&csv)[0][count].clone()),
                ["3444", "16311", "0"]
            );
            fs::remove_file(&csv).unwrap();
            ended
        };
        // A rank that is not pinned prefers no node.
        let unpinned = explored(&COMMONLY_REFUSED);
        let parts = ["cannot pin to cpu", text, "Continuing without pinning."];
        says_once(&unpinned, Some(parts));
        assert!(unpinned.stdout.contains("ranks are not pinned"), "{}", unpinned.stdout);
        let unbound = explored(&NUMA_POLICY);
        let parts = ["cannot bind memory to node", text, "Continuing without a NUMA policy."];
        says_once(&unbound, has_nodes().then_some(parts));
        assert_eq!(unbound.stdout.contains("without a NUMA policy"), has_nodes());
    }
}

/// Returns whether the kernel reports NUMA nodes, to which memory can be bound.
fn has_nodes() -> bool {
    Topology::from_sysfs("/sys".as_ref()).is_ok_and(|topology| topology.reports_numa())
}

/// Checks that standard error is one note of rank 0 with these parts, or empty.
#[track_caller]
fn says_once(ended: &Ended, parts: Option<[&str; 3]>) {
    assert_eq!(ended.stderr, "");
    let lines: Vec<&str> = ended.notes.lines().collect();
    let Some(parts) = parts else { return assert_eq!(lines, [""; 0]) };
    let [line] = lines[..] else { panic!("{}", ended.notes) };
    assert!(line.starts_with("note: "), "{line}");
    for part in parts {
        assert_eq!(line.matches(part).count(), 1, "{line:?} lacks {part:?}");
    }
}

/// The error states what to do.
#[test]
fn reports_refused_pinning() {
    let arguments = ["explore", "philosophers:5", "--table-size", "1MiB", "--pin", "cores"];
    for (error, text) in ERRORS {
        let said = run_refusing(&[SYS_sched_setaffinity], error, &arguments).failed_in_one_line();
        for part in ["cannot pin to cpu", text, "allow sched_setaffinity", "leave out --pin cores"]
        {
            assert!(said.contains(part), "{said:?} lacks {part:?}");
        }
    }
    // Without the affinity mask the CPUs to pin to are unknown.
    let masked = run_refusing(&[SYS_sched_getaffinity], EPERM, &arguments).failed_in_one_line();
    assert!(masked.contains("cannot read the affinity mask"), "{masked}");
    let ended = run_refusing(&[SYS_sched_getaffinity], EPERM, &arguments[..4]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parts = ["cannot read the affinity mask", "(EPERM)", "Continuing without pinning."];
    says_once(&ended, Some(parts));
    // `--pin none` needs neither call.
    let calls = [SYS_sched_getaffinity, SYS_sched_setaffinity];
    let none = run_refusing(&calls, EPERM, &[&arguments[..5], &["none"]].concat());
    assert_eq!((none.code, none.stderr.as_str()), (Some(0), ""));
}
