use std::fs;

use probeline_pin::{HugePages, NodeId};
use probeline_transport::conformance::on_threads;
use probeline_transport::engine::setup::gather_records;
use probeline_transport::{Alone, Fingerprint, MAX_OWNERS, Sizes};

use super::*;

const SMALL: Sizes = Sizes { window_words: 64, slots: 2, slot_words: 8, depth: 4 };

fn small() -> Builder {
    Builder::new(SMALL)
}

/// Opens one engine with each builder, each in its own thread.
fn open_all(builders: &[Builder]) -> Vec<Result<(), OpenError>> {
    let members = probeline_exchange::threads(u32::try_from(builders.len()).unwrap());
    on_threads(members, |mut member| {
        let opened = builders[member.me().0 as usize].open(&mut member).map(drop);
        member.barrier().unwrap();
        opened
    })
}

/// Returns a window larger than any machine's memory, whose size in bytes still fits 64 bits.
fn too_large() -> Builder {
    Builder::new(Sizes::new(1 << 50))
}

#[test]
fn both_sides_report_differing_sizes() {
    let results = open_all(&[small(), small(), Builder::new(Sizes::new(72).with_slots(2, 8))]);
    let what = "words in the window";
    let differs = |owner, mine, theirs| {
        Err(SetupError::Differs { owner: Owner(owner), what, mine, theirs }.into())
    };
    assert_eq!(results, [differs(2, 64, 72), differs(2, 64, 72), differs(0, 72, 64)]);
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("owner 2 was opened with 72 words in the window, this one with 64"));

    let results = open_all(&[small(), Builder::new(SMALL.with_slots(9, 16))]);
    let of_slots = |error: &OpenError| match error {
        OpenError::Setup(SetupError::Differs { what, .. }) => *what == "words in a slot",
        _ => false,
    };
    assert!(results.iter().all(|result| result.as_ref().is_err_and(of_slots)), "{results:?}");
}

#[test]
fn refuses_another_build() {
    let builds = [7, 8].map(Fingerprint::new);
    let said = on_threads(probeline_exchange::threads(2), |mut member| {
        let mine = builds[member.me().0 as usize];
        gather_records(&mut member, mine, Some([0; 2])).unwrap_err().to_string()
    });
    let [mine, theirs] = builds.map(|build| build.with(2).get());
    let text = format!(
        "owner 1 was opened with {theirs} as fingerprint of the build, this one with {mine}: start \
         every owner with the same options, such as the number of entries or keys, and the same build"
    );
    assert_eq!(said[0], text);
}

#[test]
fn allows_differing_depth_slots_memory() {
    let never = MemoryPolicy { node: None, huge: HugePages::Never };
    let results =
        open_all(&[small(), Builder::new(SMALL.with_depth(9).with_slots(7, 8)).memory(never)]);
    assert_eq!(results, [Ok(()), Ok(())]);
}

#[test]
fn all_learn_of_failed_owner() {
    let results = open_all(&[small(), too_large(), small()]);
    assert!(matches!(results[1], Err(OpenError::Setup(SetupError::Memory { .. }))), "{results:?}");
    assert_eq!(results[0], Err(SetupError::PeerFailed(Owner(1)).into()));
    assert_eq!(results[2], results[0]);
}

#[test]
fn refuses_invalid_sizes() {
    let refused = |sizes| Builder::new(sizes).open(&mut Alone).unwrap_err();
    for sizes in [Sizes::new(0), SMALL.with_slots(1, 12)] {
        assert!(matches!(refused(sizes), OpenError::Setup(SetupError::Sizes(_))), "{sizes:?}");
    }
    for sizes in [Sizes::new(u64::MAX), Sizes::new(1 << 50)] {
        assert!(matches!(refused(sizes), OpenError::Setup(SetupError::Memory { .. })), "{sizes:?}");
    }
    let (what, max) = ("the depth", MAX_DEPTH.into());
    let range = SetupError::Range { what, found: u32::MAX.into(), min: 1, max };
    assert_eq!(refused(SMALL.with_depth(u32::MAX)), range.into());
}

/// A system-call filter refuses the call as a container does.
#[test]
fn reports_refused_policy() {
    let open = |node| {
        let policy = MemoryPolicy { node, huge: HugePages::Never };
        small().memory(policy).open(&mut Alone).unwrap().policy_refused().cloned()
    };
    assert_eq!(open(None), None);
    for errno in [libc::EPERM, libc::ENOSYS] {
        let node = NodeId(0);
        let refused = probeline_pin::testing::refusing(libc::SYS_mbind, errno, || open(Some(node)));
        assert_eq!(refused, Some(probeline_pin::Error::Bind { node, errno }));
    }
}

#[test]
fn refuses_too_many_owners() {
    let error = small().open(&mut probeline_exchange::threads(MAX_OWNERS + 1)[0]).unwrap_err();
    assert_eq!(error, SetupError::TooManyOwners { found: MAX_OWNERS + 1 }.into());
}

/// Maps a peer's window after `change` of its connection info; returns the error.
fn map_changed(change: impl Fn(&mut ConnectionInfo)) -> OpenError {
    let own = small().create(2).unwrap();
    let mut theirs = own.info;
    change(&mut theirs);
    Window::map_peer(Owner(1), &theirs).unwrap_err()
}

#[test]
fn refuses_memory_of_other_file() {
    let wrong = OpenError::WrongMemory { owner: Owner(1), pid: u64::from(std::process::id()) };
    assert_eq!(map_changed(|info| info.nonce ^= 1), wrong);
    // Some open file, such as standard input, but no sealed memfd.
    assert_eq!(map_changed(|info| info.window_words += 1 << 20), wrong);
    let null = fs::File::open("/dev/null").unwrap();
    assert_eq!(map_changed(|info| info.fd = null.as_raw_fd().unsigned_abs().into()), wrong);

    let gone = map_changed(|info| info.pid = u64::from(u32::MAX));
    assert!(matches!(gone, OpenError::Unreachable { errno: libc::ENOENT, .. }), "{gone:?}");
    assert!(gone.to_string().contains("PID namespace"), "{gone}");
    let of_another = OpenError::Unreachable { owner: Owner(1), pid: 7, errno: libc::EACCES };
    assert!(of_another.to_string().contains("run all owners as one user"), "{of_another}");
}
