//! An owner whose system gives it no thread to attend with: it says so, the others hear of it, and
//! all processes go on, though engines were given up in the midst of connecting.

use std::env;

use probeline_testing::Plan;
use probeline_transport::{Exchange, Owner};
use probeline_ucx_shim::SetupError;
use probeline_ucx_shim::ucx::{Builder, OpenError, Progress};

/// The owner that gets none.
const WITHOUT: Owner = Owner(1);
/// More than there is room for in any process: no thread with such a stack can be made.
const STACK_BYTES: u64 = 1 << 47;

fn main() {
    probeline_testing::run(&[
        ("shared", Plan::Run(|| refused("shared", "posix,sysv,cma,self"))),
        ("tcp", Plan::Run(|| refused("tcp", "tcp"))),
    ]);
}

fn refused(test: &str, tls: &str) {
    let mut job = probeline_testing::start(test, 2);
    if job.me() == WITHOUT {
        // std heeds it when it makes its first thread.
        // SAFETY: so there is no other thread that could look at the environment.
        unsafe { env::set_var("RUST_MIN_STACK", STACK_BYTES.to_string()) };
    }
    let builder = Builder::new(64).slots(1, 8).depth(1).tls(Some(tls));
    // Twice: what the first one has left behind is in nobody's way.
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
    // Over shared memory an owner that waits in the exchange is in nobody's way without one, too.
    if tls != "tcp" {
        drop(builder.progress(Progress::Caller).open(&mut job).unwrap());
    }
    probeline_testing::succeed(job);
}
