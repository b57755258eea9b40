//! Opening an engine fails on devices whose atomics do not work.

use crate::job;
use crate::stand_in::{Atomics, Fabric, Faults};
use probeline_transport::Owner;
use probeline_verbs::{OpenError, PortError, Retry, SetupError, Status};
use probeline_verbs_sys::IBV_WC_REM_ACCESS_ERR;

/// Opens engines on two machines, of which owner 1's has faults. Returns owner 1's failure of the
/// self-test, and checks that owner 0 reports that owner 1 failed.
fn verdict(broken: impl Fn(&mut Faults)) -> PortError {
    let fabric = Fabric::new();
    let machines = job::machines(&fabric, 2);
    machines[1].break_it(broken);
    let retry = Retry::new(1, 0).unwrap();
    let mut results = job::run(&machines, |machine, member| {
        job::open(&job::builder(machine).retry(retry), member).map(drop).unwrap_err()
    });
    fabric.judge_empty();
    let own = results.pop();
    let failed = SetupError::PeerFailed(Owner(1));
    assert!(matches!(results.pop(), Some(OpenError::Setup(error)) if error == failed));
    match own {
        Some(OpenError::SelfTest { device, source }) if device == "stand0" => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn detects_wrong_byte_order() {
    let failed = verdict(|faults| faults.atomics = Atomics::Swapped);
    assert_eq!(failed, PortError::ByteOrder { operation: "fetch-and-add" });
    assert!(failed.to_string().contains("big-endian order"));
}

#[test]
fn detects_atomic_without_effect() {
    let failed = verdict(|faults| faults.atomics = Atomics::Idle);
    assert_eq!(failed, PortError::NoEffect { operation: "fetch-and-add" });
}

#[test]
fn detects_wrong_sum() {
    let failed = verdict(|faults| faults.atomics = Atomics::Wrong);
    assert!(matches!(failed, PortError::Wrong { operation: "fetch-and-add", .. }));
    assert!(failed.to_string().contains("0x0123456789abcdf1 instead of 0x0123456789abcdf0"));
}

#[test]
fn detects_failed_swap_write_back() {
    let failed = verdict(|faults| faults.atomics = Atomics::WriteBack);
    assert!(matches!(failed, PortError::StoreUndone { stored: 2, found: 1 }), "{failed:?}");
    assert!(failed.to_string().contains("wrote the old value back: 0x1 where"));
}

#[test]
fn reports_request_failures() {
    // The test posts four requests, and 16 more during stores. Each of them fails once.
    for right in 0..20 {
        let failed = verdict(|faults| faults.status = Some((right, IBV_WC_REM_ACCESS_ERR)));
        assert_eq!(failed, PortError::Status(Status::RemoteAccess));
        let failed = verdict(|faults| faults.status = Some((right, 1234)));
        assert_eq!(failed, PortError::Status(Status::Unknown(1234)));
        let failed = verdict(|faults| faults.post = Some((right, libc::ENOMEM)));
        assert!(matches!(failed, PortError::Post(post) if post.errno == libc::ENOMEM));
    }
    assert!(matches!(verdict(|faults| faults.poll = Some(-2)), PortError::Verb(_)));
    assert_eq!(verdict(|faults| faults.poll = Some(0)), PortError::TimedOut);
}
