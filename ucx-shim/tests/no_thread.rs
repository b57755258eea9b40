//! An owner cannot start its progress thread: its error states that, the others report that owner,
//! and all processes continue, although engines were dropped while they connected.

use std::env;

use probeline_exchange::testing::Plan;
use probeline_transport::{Exchange, Owner, Sizes};
use probeline_ucx_shim::SetupError;
use probeline_ucx_shim::ucx::{Builder, OpenError, Progress};

/// The owner that cannot start a thread.
const WITHOUT: Owner = Owner(1);
/// More than the address space of a process: no thread with such a stack can be started.
const STACK_BYTES: u64 = 1 << 47;

fn main() {
    probeline_exchange::testing::run(&[
        ("shared", Plan::Run(|| refused("shared", "posix,sysv,cma,self"))),
        ("tcp", Plan::Run(|| refused("tcp", "tcp"))),
    ]);
}

fn refused(test: &str, tls: &str) {
    let mut job = probeline_exchange::testing::start(test, 2);
    if job.me() == WITHOUT {
        // std reads it when it starts its first thread.
        // SAFETY: hence no other thread reads the environment.
        unsafe { env::set_var("RUST_MIN_STACK", STACK_BYTES.to_string()) };
    }
    let builder = Builder::new(Sizes::new(64).with_slots(1, 8).with_depth(1)).tls(Some(tls));
    // Opens twice, because the leaked objects of the first engine must not affect the second one.
    for _ in 0..2 {
        let error = builder.clone().progress(Progress::Thread).open(&mut job).unwrap_err();
        if job.me() == WITHOUT {
            assert!(matches!(error, OpenError::Thread { errno: libc::EAGAIN }), "{error:?}");
        } else {
            assert!(
                matches!(error, OpenError::Setup(SetupError::PeerFailed(WITHOUT))),
                "{error:?}"
            );
        }
    }
    // Over shared memory no owner needs the CPU of one that waits in the exchange without a thread.
    if tls != "tcp" {
        drop(builder.progress(Progress::Caller).open(&mut job).unwrap());
    }
    probeline_exchange::testing::succeed(job);
}
