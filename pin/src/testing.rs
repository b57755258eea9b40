//! For tests: makes system calls fail as under a container's seccomp filter or another kernel. A
//! filter applies to one thread, or to a started program and its descendants.

use core::ffi::c_long;
use std::env::consts::ARCH;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// Runs `test` in a thread in which system call `number` does nothing and fails with `errno`; with
/// errno 0 the call pretends to succeed. The filter ends with the thread.
pub fn refusing<T: Send>(number: c_long, errno: i32, test: impl FnOnce() -> T + Send) -> T {
    refusing_all(&[number], errno, test)
}

/// Runs as [`refusing`], for several system calls.
pub fn refusing_all<T: Send>(numbers: &[c_long], errno: i32, test: impl FnOnce() -> T + Send) -> T {
    filtered(&refuse(numbers, &[], errno), test)
}

/// Runs as [`refusing`], but only while the call's second argument is below `bound`.
pub fn refusing_below<T: Send>(
    number: c_long,
    bound: u32,
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    refusing_where(number, (1, SeccompCmpOp::Lt, bound), errno, test)
}

/// Runs as [`refusing`], but only if the call's third argument is `value`.
pub fn refusing_third<T: Send>(
    number: c_long,
    value: u32,
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    refusing_where(number, (2, SeccompCmpOp::Eq, value), errno, test)
}

/// Runs as [`refusing`], but only if the comparison of an argument, by its index, with a value holds.
fn refusing_where<T: Send>(
    number: c_long,
    (index, operator, value): (u8, SeccompCmpOp, u32),
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    let condition = SeccompCondition::new(index, Dword, operator, value.into()).unwrap();
    let rule = SeccompRule::new(vec![condition]).unwrap();
    filtered(&refuse(&[number], &[rule], errno), test)
}

/// Lets the kernel kill this process at any system call of this thread but `number`.
///
/// # Panics
/// If the kernel has no seccomp filters.
pub fn allow_only(number: c_long) {
    let program = compiled(&[number], &[], SeccompAction::KillProcess, SeccompAction::Allow);
    apply_filter(&program).unwrap();
}

/// Makes `command` start its program under a filter that fails system calls `numbers` with `errno`.
pub fn refuse_in<'a>(command: &'a mut Command, numbers: &[c_long], errno: i32) -> &'a mut Command {
    let program = refuse(numbers, &[], errno);
    // SAFETY: between fork and exec the closure makes two system calls and reads memory that was
    // copied into the child; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || apply_filter(&program).map_err(|_| io::Error::last_os_error()))
    }
}

pub use libc::{ENOSYS, EPERM, SYS_sched_getaffinity, SYS_sched_setaffinity};

/// System calls that set a NUMA policy.
pub const NUMA_POLICY: [c_long; 2] = [libc::SYS_mbind, libc::SYS_set_mempolicy];
/// The system calls that containers commonly refuse and that probeline does not need: NUMA policy,
/// pinning and profiling.
pub const COMMONLY_REFUSED: [c_long; 5] = [
    NUMA_POLICY[0],
    NUMA_POLICY[1],
    SYS_sched_setaffinity,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
];

/// Returns a program that fails calls to which one of `rules` applies, or all if there are none.
fn refuse(numbers: &[c_long], rules: &[SeccompRule], errno: i32) -> BpfProgram {
    compiled(numbers, rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()))
}

fn compiled(
    numbers: &[c_long],
    rules: &[SeccompRule],
    others: SeccompAction,
    these: SeccompAction,
) -> BpfProgram {
    let calls = numbers.iter().map(|number| (*number, rules.to_vec())).collect();
    let filter = SeccompFilter::new(calls, others, these, ARCH.try_into().unwrap()).unwrap();
    filter.try_into().unwrap()
}

fn filtered<T: Send>(program: &BpfProgram, test: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(program).expect("this test needs a kernel with seccomp filters");
            test()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
