//! The data path over shared memory makes no system call: it runs in a thread in seccomp's strict
//! mode, in which any system call but read(2), write(2) and exit(2) ends the thread (seccomp(2)).

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use probeline_transport::conformance::{local, segment, word};
use probeline_transport::{Completion, Sizes, Token, Transport};
use probeline_ucx_shim::ucx::{Builder, Engine};

/// The time limit of the thread, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than the number of completions after which a poll progresses the worker.
const ROUNDS: u64 = 1000;

/// Calls `work` in a thread that may not make system calls. Returns whether `work` returned.
fn returns_without_system_calls(
    prepare: impl FnOnce() -> Box<dyn FnOnce()> + Send + 'static,
) -> bool {
    let returned = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let of_thread = Arc::clone(&returned);
    thread::spawn(move || {
        let work = prepare();
        // SAFETY: a system call without arguments.
        sender.send(unsafe { libc::gettid() }).unwrap();
        // SAFETY: strict mode applies to this thread, which ends by the exit(2) below: it frees
        // nothing and runs no destructors, which might make system calls.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT), 0);
            work();
            of_thread.store(true, Release);
            libc::syscall(libc::SYS_exit, 0);
        }
    });
    let task = format!("/proc/self/task/{}", receiver.recv().unwrap());
    let begin = Instant::now();
    while fs::exists(&task).unwrap() {
        assert!(begin.elapsed() < PATIENCE, "the thread does not end");
        thread::sleep(Duration::from_millis(1));
    }
    returned.load(Acquire)
}

#[test]
fn avoids_system_calls() {
    let [first, second]: [_; 2] = probeline_exchange::threads(2).try_into().ok().unwrap();
    let open = |mut member| {
        Builder::new(Sizes::new(64).with_slots(2, 8).with_depth(4))
            .tls(Some("posix,self"))
            .open(&mut member)
            .unwrap()
    };
    // Its window is used while the thread sleeps.
    let (close, closes) = mpsc::channel::<()>();
    let owner = thread::spawn(move || {
        let engine = open(second);
        closes.recv().unwrap_err();
        drop(engine);
    });
    let prepare = move || -> Box<dyn FnOnce()> {
        // Not dropped, because that makes system calls.
        let engine = Box::leak(Box::new(open(first)));
        Box::new(move || (0..ROUNDS).for_each(|round| use_data_path(engine, round)))
    };
    let returned = returns_without_system_calls(prepare);
    drop(close);
    owner.join().unwrap();
    assert!(returned, "a system call on the data path");
}

/// Posts all operations on both windows and polls until they have completed.
fn use_data_path(engine: &mut Engine, round: u64) {
    let mut ended = [Completion::default(); 4];
    for owner in [0, 1] {
        let (at, words) = (word(owner, 0), segment(owner, 8, 8));
        engine.staged(local(0, 0, 8)).unwrap().fill(round);
        engine.write(Token(0), local(0, 0, 8), words).unwrap();
        engine.read(Token(1), words, local(1, 0, 8)).unwrap();
        engine.compare_and_swap(Token(2), at, round, round).unwrap();
        engine.fetch_add(Token(3), at, 1).unwrap();
        engine.kick();
        while engine.in_flight() > 0 {
            let reported = engine.poll(&mut ended).unwrap();
            assert!(ended[..reported].iter().all(|end| end.result.is_ok()));
        }
        assert_eq!(engine.poll(&mut ended), Ok(0));
    }
}

#[test]
fn detects_system_call() {
    let polls = || -> Box<dyn FnOnce()> {
        Box::new(|| {
            // SAFETY: poll(2) of no descriptors.
            unsafe { libc::poll(core::ptr::null_mut(), 0, 0) };
        })
    };
    assert!(!returns_without_system_calls(polls));
    assert!(returns_without_system_calls(|| Box::new(|| ())));
}
