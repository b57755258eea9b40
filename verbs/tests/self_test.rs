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
fn detects_wrong_atomics() {
    for (atomics, text) in [
        (Atomics::Swapped, "fetch-and-add: values are in big-endian order"),
        (Atomics::Idle, "fetch-and-add completes without changing the word"),
        (Atomics::Wrong, "fetch-and-add: 0x0123456789abcdf1 instead of 0x0123456789abcdf0"),
        (Atomics::WriteBack, "wrote the old value back: 0x1 where the CPU had stored 0x2"),
    ] {
        let failed = verdict(|faults| faults.atomics = atomics).to_string();
        assert!(failed.contains(text), "{failed}");
    }
}

#[test]
fn reports_request_failures() {
    // The test posts four requests, and 16 more during stores. Each of them fails once.
    for right in 0..20 {
        let failed = verdict(|faults| faults.status = Some((right, IBV_WC_REM_ACCESS_ERR)));
        assert_eq!(failed, PortError::Status(Status::REMOTE_ACCESS));
        let failed = verdict(|faults| faults.status = Some((right, 1234)));
        assert!(
            failed
                .to_string()
                .ends_with("itself failed: completion status 1234 (enum ibv_wc_status)")
        );
        let failed = verdict(|faults| faults.post = Some((right, libc::ENOMEM)));
        assert!(matches!(failed, PortError::Post(post) if post.errno == libc::ENOMEM));
    }
    assert!(matches!(verdict(|faults| faults.poll = Some(-2)), PortError::Verb(_)));
    assert_eq!(verdict(|faults| faults.poll = Some(0)), PortError::TimedOut);
}
