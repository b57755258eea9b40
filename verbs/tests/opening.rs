//! Failures to open an engine. Each error message states what to do, the opening fails for all
//! owners, and all objects are destroyed.

use core::time::Duration;
use std::time::Instant;

use crate::stand_in::{Atomics, Fabric, Faults, Machine, Setup};
use crate::{job, stand_in};
use probeline_transport::{Exchange, ExchangeError, MAX_OWNERS, Owner, Sizes};
use probeline_verbs::{Builder, OpenError, PortError, Retry, SetupError, Status};
use probeline_verbs_sys::{
    IBV_ATOMIC_NONE, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_WC_REM_ACCESS_ERR,
};

/// The maximum time until opening fails for all owners. It is half the time for which an exchange
/// waits for a missing owner, and far longer than opening takes on a busy machine.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens three engines, the last one on a machine with `setup` and with the builder that `change`
/// returns. Checks the errors of the others and returns the error of the last one.
fn refusal(setup: Setup, change: impl Fn(&Machine, Builder) -> Builder + Sync) -> OpenError {
    let fabric = Fabric::new();
    let mut machines = job::machines(&fabric, 2);
    machines.push(fabric.machine(setup));
    let start = Instant::now();
    let results = job::run(&machines, |machine, member| {
        let builder = job::builder(machine);
        let last = member.me() == Owner(2);
        let builder = if last { change(machine, builder) } else { builder };
        job::open(&builder, member).map(drop)
    });
    assert!(start.elapsed() < OPEN_TIMEOUT);
    fabric.judge_empty();
    let mut errors = results.into_iter().map(Result::unwrap_err);
    for error in errors.by_ref().take(2) {
        let failed = matches!(error, OpenError::Setup(SetupError::PeerFailed(Owner(2))));
        assert!(failed, "{error:?}");
        assert!(error.to_string().contains("see its own message"));
    }
    errors.next().unwrap()
}

#[track_caller]
fn assert_message(error: &OpenError, text: &str) {
    let message = error.to_string();
    assert!(message.contains(text), "{message:?} lacks {text:?}");
}

#[test]
fn too_many_owners() {
    let error = Builder::new(Sizes::new(64))
        .open_in(&mut probeline_exchange::threads(MAX_OWNERS + 1)[0], |_, _| unreachable!())
        .unwrap_err();
    assert_message(&error, "4097 ranks, at most 4096 can be connected: start fewer ranks");

    let fabric = Fabric::new();
    let machine = [fabric.machine(Setup::with(|device| device.queue_pairs = 100))];
    job::run(&machine, |machine, _| {
        let builder = job::builder(machine);
        builder.probe(99).unwrap();
        let error = builder.probe(100).unwrap_err();
        assert_message(&error, "101 queue pairs are needed, but the device has 100 at most");
        assert_message(&builder.probe(MAX_OWNERS + 1).unwrap_err(), "start fewer ranks");
    });
}

#[test]
fn errors_say_what_to_do() {
    type Change = fn(Builder) -> Builder;
    let same: Change = |builder| builder;
    let gids = |gids: &[stand_in::Gid]| Setup::with(|device| device.gids = gids.to_vec());
    let (local, v1, v2) = ("fe80::1", IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2);
    // The GID index of a queue pair is one byte: entry 256 must not become entry 0.
    let far = [vec![(local, v2); 256], vec![("::ffff:10.0.0.9", v2)]].concat();
    let rows: [(Setup, Change, &[&str]); _] = [
        (Setup { devices: Vec::new() }, same, &["no RDMA", "modprobe rdma_rxe"]),
        (
            Setup::default(),
            |builder| builder.device(Some("mlx5_7")),
            &["no RDMA device mlx5_7: choose among stand0"],
        ),
        (
            Setup::default(),
            |builder| builder.port(Some(9)),
            &["no active port among stand0/9: check the cable"],
        ),
        (Setup::with(|d| d.active = false), same, &["no active port among stand0/1: check"]),
        (gids(&[]), same, &["stand0, port 1: its GID table is empty", "an IP address"]),
        (gids(&[(local, v1)]), same, &["stand0, port 1: none", "RoCE v2", "by its index"]),
        (gids(&[(local, v2)]), same, &["stand0, port 1: all", "link-local", "by its index"]),
        (gids(&far), same, &["stand0, port 1: all", "link-local", "an IP address"]),
        (Setup::default(), |builder| builder.gid_index(Some(30)), &["port 1: ", "no entry 30"]),
        (Setup::with(|d| d.atomics = IBV_ATOMIC_NONE), same, &["NONE", "choose another device"]),
        (Setup::default(), |builder| builder.rd_atomic(0), &["at least 1 READ"]),
        (Setup::default(), |builder| builder.service_level(16), &["at most 15"]),
        (Setup::with(|d| d.queue_pairs = 3), same, &["4 queue pairs are needed", "has 3 at most"]),
        (Setup::with(|d| d.work_requests = 48), same, &["51 work requests on a queue pair"]),
        (Setup::with(|d| d.completions = 50), same, &["57 entries of a completion queue"]),
        (Setup::with(|d| d.region_bytes = 511), same, &["4608 bytes in a memory region"]),
        (Setup::with(|d| d.message_bytes = 127), same, &["128 bytes in a message", "another"]),
    ];
    for (setup, change, texts) in rows {
        let error = refusal(setup, |_, builder| change(builder));
        texts.iter().for_each(|text| assert_message(&error, text));
    }
    let unsupported = refusal(Setup::default(), |machine, builder| {
        machine.break_it(|faults| faults.call = Some(("ibv_get_device_list", 0, libc::ENOSYS)));
        builder
    });
    assert_message(&unsupported, "no RDMA device");
    assert_message(&unsupported, "modprobe rdma_rxe");
}

#[test]
fn chooses_first_active_port() {
    let mut setup = Setup::with(|device| (device.name, device.active) = ("down0", false));
    setup.devices.extend(Setup::with(|device| device.name = "up0").devices);
    setup.devices.extend(Setup::with(|device| device.name = "up1").devices);
    let fabric = Fabric::new();
    let machine = [fabric.machine(setup)];
    let names = job::run(&machine, |machine, member| {
        let first = job::open(&job::builder(machine), member).unwrap();
        let asked = job::open(&job::builder(machine).device(Some("up1")), member).unwrap();
        [first.link().device.clone(), asked.link().device.clone()]
    });
    assert_eq!(names, [["up0", "up1"]]);
    fabric.judge_empty();
}

#[test]
fn impossible_sizes() {
    // The tests of `check_sizes` cover the others.
    for (sizes, text) in [
        (job::SIZES.with_slots(1, 7), "a multiple of 8"),
        (job::SIZES.with_depth((1 << 14) + 1), "16385: choose 1 to 16384"),
    ] {
        let error = refusal(Setup::default(), |machine, _| {
            Builder::new(sizes).libibverbs(machine.libibverbs())
        });
        assert!(matches!(error, OpenError::Setup(_)), "{error:?}");
        assert_message(&error, text);
    }
}

#[test]
fn names_owners_with_different_options() {
    let ethernet = || Setup::default();
    for (sizes, setup, texts) in [
        (
            job::SIZES.with_slots(4, 24),
            ethernet(),
            [
                "owner 1 was opened with 24 words in a slot, this one with 16: start every",
                "owner 0 was opened with 16 words in a slot, this one with 24: start every",
            ],
        ),
        (
            Sizes { window_words: 8, ..job::SIZES },
            ethernet(),
            [
                "owner 1 was opened with 8 words in a window, this one with 64",
                "owner 0 was opened with 64 words in a window, this one with 8",
            ],
        ),
        (
            job::SIZES,
            Setup::with(|device| device.ethernet = false),
            ["owner 1 is not on Ethernet as this one is: choose", "owner 0 is not on InfiniBand"],
        ),
    ] {
        let fabric = Fabric::new();
        let machines = [fabric.machine(Setup::default()), fabric.machine(setup)];
        let errors = job::run(&machines, |machine, member| {
            let sizes = if member.me() == Owner(1) { sizes } else { job::SIZES };
            let builder = Builder::new(sizes).libibverbs(machine.libibverbs());
            job::open(&builder, member).map(drop).unwrap_err()
        });
        fabric.judge_empty();
        errors.iter().zip(texts).for_each(|(error, text)| assert_message(error, text));
    }
}

#[test]
fn fails_if_member_leaves() {
    let fabric = Fabric::new();
    let results = job::run(&job::machines(&fabric, 3), |machine, member| {
        if member.me() == Owner(1) {
            return None;
        }
        job::open(&job::builder(machine), member).map(drop).err()
    });
    for error in [&results[0], &results[2]] {
        let lost = ExchangeError::OwnerLost(Owner(1));
        let expected = SetupError::Exchange(lost);
        let ended = matches!(error, Some(OpenError::Setup(why)) if *why == expected);
        assert!(ended, "{error:?}");
    }
    fabric.judge_empty();
}

#[test]
fn missing_and_short_memory() {
    let fabric = Fabric::new();
    let results = job::run(&job::machines(&fabric, 2), |machine, member| {
        let (builder, last) = (job::builder(machine), member.me() == Owner(1));
        let short = builder
            .open_in(member, |_, words| Ok(Box::new(job::zeroes(words - usize::from(last)))));
        let none = builder.open_in(member, |_, words| match last {
            true => Err(SetupError::Sizes("no memory today").into()),
            false => Ok(Box::new(job::zeroes(words))),
        });
        [short, none].map(|end| end.map(drop).unwrap_err())
    });
    let failed =
        |error: &OpenError| matches!(error, OpenError::Setup(SetupError::PeerFailed(Owner(1))));
    assert!(results[0].iter().all(failed));
    assert_message(&results[1][0], "shorter than requested");
    assert_message(&results[1][1], "no memory today");
    fabric.judge_empty();
}

#[test]
fn failed_call_destroys_all_objects() {
    let calls = [
        ("ibv_get_device_list", libc::EPERM, 1, "permissions"),
        ("ibv_open_device", libc::EACCES, 1, "/dev/infiniband"),
        ("ibv_query_device", libc::EIO, 1, "EIO"),
        ("ibv_query_port", libc::EIO, 1, "EIO"),
        ("ibv_alloc_pd", libc::ENOMEM, 1, "ulimit -l"),
        ("ibv_create_cq", libc::ENOMEM, 1, "ulimit -l"),
        ("ibv_reg_mr", libc::ENOMEM, 2, "ulimit -l"),
        // One call for each of three owners and one for the loopback. If the first call fails, the
        // engine tries again without inline data.
        ("ibv_create_qp", libc::ENOMEM, 4, "ulimit -l"),
        // Four calls to INIT, four to RTR, and three to RTS: the loopback stays in RTR.
        ("ibv_modify_qp", libc::ETIMEDOUT, 11, "address reachable?"),
    ];
    for (name, errno, times, text) in calls {
        for right in 0..times {
            let error = refusal(Setup::default(), |machine, builder| {
                machine.break_it(|faults| faults.call = Some((name, right, errno)));
                builder
            });
            let OpenError::Verb(failed) = error else { panic!("{name} {right}: {error:?}") };
            assert_eq!(failed.errno, errno, "{name}, {right}");
            assert!(failed.verb.starts_with(name), "{failed}");
            assert_message(&OpenError::Verb(failed), text);
        }
        // The engine does not make one more of these calls.
        let fabric = Fabric::new();
        let machines = job::machines(&fabric, 3);
        machines[2].break_it(|faults| faults.call = Some((name, times, errno)));
        drop(job::engines(&machines));
        fabric.judge_empty();
    }
}

/// As in a container that hides devices, the stand-in devices are missing in this machine's `/sys`.
#[cfg(feature = "pin")]
#[test]
fn opens_despite_refused_memory_policy() {
    use probeline_pin::{HugePages, MemoryPolicy, NodeId};

    let open = |node| {
        let fabric = Fabric::new();
        let memory = MemoryPolicy { node, huge: HugePages::Never };
        let builder = job::builder(&fabric.machine(Setup::default())).memory(memory);
        builder.open(&mut probeline_transport::Alone).unwrap().policy_refused().cloned()
    };
    assert_eq!(open(None), None, "the device's node is not known");
    for errno in [libc::EPERM, libc::ENOSYS] {
        let node = NodeId(0);
        let refused = probeline_pin::testing::refusing(libc::SYS_mbind, errno, || open(Some(node)));
        assert_eq!(refused, Some(probeline_pin::Error::Bind { node, errno }));
    }
}

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
