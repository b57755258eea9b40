//! For tests: system calls that fail as a container's seccomp filter, or another kernel, makes
//! them fail.

use std::thread;

/// Runs `test` in a thread in which system call `number` ends with `errno` and does nothing; errno
/// 0 makes it a call that lies about its success. The filter ends with the thread.
pub(crate) fn refusing<T: Send>(
    number: libc::c_long,
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    filtered(&[load(NUMBER), unless_equal(number, 1), end_with(errno), allow()], test)
}

/// As [`refusing`], but only while the call's second argument is below `bound`.
pub(crate) fn refusing_below<T: Send>(
    number: libc::c_long,
    bound: u32,
    errno: i32,
    test: impl FnOnce() -> T + Send,
) -> T {
    let program = [
        load(NUMBER),
        unless_equal(number, 3),
        load(SECOND_ARGUMENT),
        if_at_least(bound, 1),
        end_with(errno),
        allow(),
    ];
    filtered(&program, test)
}

/// Offsets in `seccomp_data`; the argument's lower half, on a little-endian machine.
const NUMBER: u32 = 0;
const SECOND_ARGUMENT: u32 = 24;

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

/// Skips `skip` instructions unless what was loaded is `value`.
fn unless_equal(value: libc::c_long, skip: u8) -> libc::sock_filter {
    let value = u32::try_from(value).unwrap();
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value)
}

/// Skips `skip` instructions if what was loaded is `bound` or more.
fn if_at_least(bound: u32, skip: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, skip, 0, bound)
}

fn end_with(errno: i32) -> libc::sock_filter {
    let errno = u32::try_from(errno).unwrap();
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno)
}

fn allow() -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap(), jt, jf, k }
}

fn filtered<T: Send>(program: &[libc::sock_filter], test: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            install(program);
            test()
        });
        thread.join().unwrap()
    })
}

/// seccomp(2), for the calling thread.
fn install(program: &[libc::sock_filter]) {
    let len = u16::try_from(program.len()).unwrap();
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (on, off): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: no pointers are passed.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, off, off, off) };
    assert_eq!(done, 0);
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the kernel copies the instructions that `filter` points to and counts, and writes
    // nothing.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) };
    assert_eq!(done, 0, "this kernel has no seccomp filters, which this test needs");
}
