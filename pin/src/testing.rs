//! For tests: makes system calls fail as under a container's seccomp filter or another kernel. A
//! filter applies to one thread, or to a started program and its descendants. It checks only calls
//! of this machine's own architecture.

use core::ffi::c_long;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// Runs `test` in a thread in which system call `number` does nothing and fails with `errno`; with
/// errno 0 the call pretends to succeed. The filter ends with the thread.
pub fn refusing<T: Send>(number: c_long, errno: i32, test: impl FnOnce() -> T + Send) -> T {
    refusing_all(&[number], errno, test)
}

/// Runs as [`refusing`], for several system calls.
pub fn refusing_all<T: Send>(numbers: &[c_long], errno: i32, test: impl FnOnce() -> T + Send) -> T {
    filtered(&refuse_all(numbers, errno), test)
}

/// Runs as [`refusing`], but only while the call's second argument is below `bound`.
pub fn refusing_below<T: Send>(
    number: c_long,
    bound: u32,
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    refusing_where(number, [load(SECOND_ARGUMENT), if_at_least(bound, 1)], errno, test)
}

/// Runs as [`refusing`], but only if the call's third argument is `value`.
pub fn refusing_third<T: Send>(
    number: c_long,
    value: u32,
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    refusing_where(number, [load(THIRD_ARGUMENT), unless_equal(value, 1)], errno, test)
}

/// Runs as [`refusing`], but only if `condition` does not jump over the next instruction.
fn refusing_where<T: Send>(
    number: c_long,
    condition: [libc::sock_filter; 2],
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    let [argument, jump] = condition;
    let number = [load(NUMBER), unless_equal(call_number(number), 3)];
    let call = [argument, jump, end_with(errno), allow()];
    filtered(&[&check_architecture()[..], &number, &call].concat(), test)
}

/// Lets the kernel kill this process at any system call of this thread but `number`.
///
/// # Panics
/// If the kernel has no seccomp filters.
pub fn allow_only(number: c_long) {
    let kill = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS);
    install(&[load(NUMBER), unless_equal(call_number(number), 1), allow(), kill]).unwrap();
}

/// Makes `command` start its program under a filter that fails system calls `numbers` with `errno`.
pub fn refuse_in<'a>(command: &'a mut Command, numbers: &[c_long], errno: i32) -> &'a mut Command {
    let program = refuse_all(numbers, errno);
    // SAFETY: between fork and exec the closure makes two system calls and reads memory that was
    // copied into the child; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(move || install(&program)) }
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

/// The offset of the system call number in `seccomp_data` (seccomp(2)).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The offsets of the lower halves of arguments, on a little-endian machine.
const SECOND_ARGUMENT: u32 = 24;
const THIRD_ARGUMENT: u32 = 32;

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine, 64 bits, little-endian.
#[cfg(target_arch = "x86_64")]
const THIS_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const THIS_ARCHITECTURE: u32 = 0xc000_00b7;

fn refuse_all(numbers: &[c_long], errno: i32) -> Vec<libc::sock_filter> {
    let mut program = check_architecture().to_vec();
    program.push(load(NUMBER));
    for &number in numbers {
        program.extend([unless_equal(call_number(number), 1), end_with(errno)]);
    }
    program.push(allow());
    program
}

/// Instructions that allow calls of other architectures, whose numbers differ.
fn check_architecture() -> [libc::sock_filter; 4] {
    [load(ARCHITECTURE), unless_equal(THIS_ARCHITECTURE, 1), skip(1), allow()]
}

fn call_number(number: c_long) -> u32 {
    u32::try_from(number).expect("numbers of system calls are small")
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

/// Skips `skip` instructions unless the loaded word is `value`.
fn unless_equal(value: u32, skip: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value)
}

/// Skips `skip` instructions if the loaded word is at least `bound`.
fn if_at_least(bound: u32, skip: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, skip, 0, bound)
}

fn skip(instructions: u32) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, instructions)
}

fn end_with(errno: i32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno.unsigned_abs())
}

fn allow() -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).expect("a code has 16 bits"), jt, jf, k }
}

fn filtered<T: Send>(program: &[libc::sock_filter], test: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            install(program).expect("this test needs a kernel with seccomp filters");
            test()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Installs a filter for the calling thread (PR_SET_SECCOMP in prctl(2)).
fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let too_long = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let len = u16::try_from(program.len()).map_err(too_long)?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (on, off): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: no pointers are passed.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, off, off, off) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the kernel copies the instructions that `filter` points to and counts, and writes
    // nothing.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
