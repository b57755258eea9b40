use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

use crate::testing::{refusing, refusing_all, refusing_third};
use crate::{Affinity, HugePagePool, Topology};

use super::*;

const MIB: usize = 1 << 20;
const POLICIES: [HugePages; 3] = [HugePages::Never, HugePages::Try, HugePages::Require];

fn policy(huge: HugePages) -> MemoryPolicy {
    MemoryPolicy { node: None, huge }
}

fn base() -> MemoryPolicy {
    policy(HugePages::Never)
}

/// Returns the free pages of the hugetlb pool and their size in bytes (proc_meminfo(5)).
fn hugetlb_pool() -> (usize, usize) {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let value = |name: &str| -> usize {
        let line = meminfo.lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap())
    };
    (value("HugePages_Free:"), value("Hugepagesize:") * 1024)
}

fn assert_usable(mapping: &Mapping, bytes: usize) {
    let words = mapping.words();
    assert_eq!(words.len(), bytes / 8);
    assert_eq!(words.as_ptr().addr() % page_size(), 0);
    assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    words.iter().zip(1..).for_each(|(word, value)| word.store(value, Relaxed));
    assert_eq!(words[words.len() - 1].load(Relaxed), (bytes / 8) as u64);
}

#[test]
fn private_memory_has_requested_size() {
    for bytes in [8, 4096, 4104, 3 * MIB, 5 * MIB + 24] {
        for huge in [HugePages::Never, HugePages::Try] {
            assert_usable(&Mapping::anonymous(bytes, &policy(huge)).unwrap(), bytes);
        }
    }
}

#[test]
fn shared_mappings_have_same_words() {
    for bytes in [16, 4096, 3 * MIB + 8] {
        for huge in [HugePages::Never, HugePages::Try] {
            let (mine, file) = Mapping::shared(bytes, &policy(huge)).unwrap();
            let theirs = Mapping::from_fd(file.as_fd(), bytes).unwrap();
            drop(file);
            assert_usable(&mine, bytes);
            theirs.words()[0].store(7, SeqCst);
            assert_eq!(mine.words()[0].load(SeqCst), 7);
            drop(mine);
            assert_eq!(theirs.words()[bytes / 8 - 1].load(SeqCst), (bytes / 8) as u64);
        }
    }
}

#[test]
fn dropping_unmaps() {
    let (mapping, file) = Mapping::shared(MIB, &base()).unwrap();
    let inode = File::from(file).metadata().unwrap().ino().to_string();
    let mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.split_ascii_whitespace().nth(4) == Some(&inode))
    };
    assert!(mapped());
    drop(mapping);
    assert!(!mapped());
}

#[test]
fn shared_file_private_and_sealed() {
    let (mapping, file) = Mapping::shared(MIB, &base()).unwrap();
    let file = File::from(file);
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    for bytes in [0, 4096, 2 * MIB as u64] {
        assert_eq!(file.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    // SAFETY: F_ADD_SEALS takes an int and touches no memory.
    let sealed =
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) };
    assert_eq!((sealed, Errno::last()), (-1, libc::EPERM), "no further seal can be added");
    assert_usable(&mapping, MIB);
}

#[test]
fn refuses_file_risking_sigbus() {
    let (_mapping, file) = Mapping::shared(4096, &base()).unwrap();
    let short = Mapping::from_fd(file.as_fd(), 4097).unwrap_err();
    assert_eq!(short, Error::Short { needed_bytes: 4097, found_bytes: 4096 });

    let open = memfd(MemfdFlags::empty(), 4096).unwrap();
    File::from(open.try_clone().unwrap()).set_len(4096).unwrap();
    assert_eq!(Mapping::from_fd(open.as_fd(), 4096).unwrap_err(), Error::NotSealed);

    let device = File::open("/dev/zero").unwrap();
    assert_eq!(Mapping::from_fd(device.as_fd(), 4096).unwrap_err(), Error::NotSealed);
}

#[test]
fn refuses_impossible_sizes() {
    for huge in POLICIES {
        for bytes in [0, usize::MAX, usize::MAX / 2, 1 << 60] {
            Mapping::anonymous(bytes, &policy(huge)).unwrap_err();
            Mapping::shared(bytes, &policy(huge)).unwrap_err();
        }
    }
    let (_mapping, file) = Mapping::shared(4096, &base()).unwrap();
    Mapping::from_fd(file.as_fd(), 0).unwrap_err();
}

#[test]
fn reports_base_pages() {
    let expected = Pages::Base { page_bytes: page_size(), reason: None };
    assert_eq!(Mapping::anonymous(8 * MIB, &base()).unwrap().pages(), expected);
    let (mine, file) = Mapping::shared(8 * MIB, &base()).unwrap();
    assert_eq!(mine.pages(), expected);
    assert_eq!(Mapping::from_fd(file.as_fd(), 8 * MIB).unwrap().pages(), expected);
}

#[test]
fn reports_reason_for_base_pages() {
    let small = Mapping::anonymous(4096, &policy(HugePages::Try)).unwrap().pages();
    match small {
        Pages::Base { reason: Some(reason), .. } => {
            assert!(matches!(reason, NoHuge::Small | NoHuge::Absent | NoHuge::PrivateOff));
        }
        other => panic!("4 KiB in {other}"),
    }
    let (large, _file) = Mapping::shared(8 * MIB, &policy(HugePages::Try)).unwrap();
    match large.pages() {
        Pages::Base { reason, .. } => assert!(reason.is_some_and(|why| why != NoHuge::Small)),
        Pages::Transparent { huge_bytes, mapped_bytes } => {
            assert!(huge_bytes <= mapped_bytes && mapped_bytes >= 8 * MIB);
        }
        Pages::HugeTlb { page_bytes } => assert!(page_bytes > page_size()),
        unknown @ Pages::Unknown { .. } => panic!("{unknown}"),
    }
}

/// Returns whether the kernel makes huge pages on request: since Linux 6.1, unless the setting is
/// `deny`.
fn kernel_collapses(setting: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    let chosen = fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{setting}"));
    numbers.get(..2) >= Some(&[6, 1]) && chosen.is_ok_and(|chosen| !chosen.contains("[deny]"))
}

/// Requires huge pages: hugetlb pages if enough are free, otherwise transparent ones if the kernel
/// makes them on request or by its settings.
#[test]
fn required_huge_pages_fill_mapping() {
    let bytes = 4 * MIB;
    for setting in [PRIVATE_THP, SHARED_THP] {
        let (free, page) = hugetlb_pool();
        let result = match setting {
            PRIVATE_THP => Mapping::anonymous(bytes, &policy(HugePages::Require)),
            _ => Mapping::shared(bytes, &policy(HugePages::Require)).map(|both| both.0),
        };
        let outcome = result.as_ref().map(Mapping::pages);
        println!("{setting}: {free} free hugetlb pages of {page} bytes: {outcome:?}");
        match outcome {
            Ok(Pages::HugeTlb { page_bytes }) => assert_eq!(page_bytes, page),
            Ok(Pages::Transparent { huge_bytes, mapped_bytes }) => {
                assert!(kernel_collapses(setting) || why_base(setting) == NoHuge::NotGiven);
                assert_eq!(huge_bytes, mapped_bytes);
            }
            Ok(other) => panic!("required huge pages, got {other}"),
            Err(error) => {
                // Other tests use a few pages at the same time.
                assert!(free < 32, "pages were free: {error}");
                assert!(!kernel_collapses(setting), "{setting}: {error}");
                let text = error.to_string();
                assert!(text.contains("sysctl vm.nr_hugepages"), "{text}");
                let reason = transparent_bytes().map_or(NoHuge::Absent, |_| why_base(setting));
                assert!(text.contains(&reason.to_string()), "{text}");
            }
        }
        if let Ok(mapping) = result {
            assert_usable(&mapping, bytes);
        }
    }
}

#[test]
fn peers_map_huge_pages() {
    for bytes in [2 * MIB, 7 * MIB + 8] {
        let (mine, file) = Mapping::shared(bytes, &policy(HugePages::Try)).unwrap();
        let theirs = Mapping::from_fd(file.as_fd(), bytes).unwrap();
        if let Pages::Base { page_bytes, .. } = mine.pages() {
            assert!(!kernel_collapses(SHARED_THP), "{}", mine.pages());
            assert_eq!(theirs.pages(), Pages::Base { page_bytes, reason: None });
        } else {
            assert_eq!(theirs.pages(), mine.pages());
        }
        assert_usable(&theirs, bytes);
    }
}

/// Each thread searches for aligned addresses that the others may map first.
#[test]
fn threads_map_aligned_addresses_concurrently() {
    let align = 2 * MIB;
    let plan = Plan { bytes: 8, length: 8192, align, node: None, advice: None, reason: None };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let mapping = Mapping::map(&plan, None).unwrap();
                    assert_eq!(mapping.start.addr().get() % align, 0);
                }
            });
        }
    });
}

/// Without advice the kernel provides base pages, as with the setting `never`.
#[test]
fn collapses_private_memory_without_advice() {
    let huge_bytes = transparent_bytes().unwrap_or(2 * MIB);
    let length = 2 * huge_bytes;
    let plan =
        Plan { bytes: length, length, align: huge_bytes, node: None, advice: None, reason: None };
    let mapping = Mapping::map(&plan, None).unwrap();
    let collapsed = mapping.collapse(huge_bytes);
    assert_eq!(collapsed.is_ok(), kernel_collapses(PRIVATE_THP), "{collapsed:?}");
    if collapsed.is_ok() {
        let pages = Pages::seen(&area_at(mapping.start.addr().get()).unwrap(), length, None);
        assert_eq!(pages, Pages::Transparent { huge_bytes: length, mapped_bytes: length });
    }
    assert_usable(&mapping, length);
}

/// A kernel before 6.1, a seccomp filter, and lack of memory leave base pages, unless the kernel
/// provides huge ones by its settings.
#[test]
fn failed_collapse_populates_and_reports() {
    let bytes = 4 * MIB;
    let unsupported = [libc::EINVAL, libc::EPERM, libc::ENOSYS];
    let all = unsupported.into_iter().chain([libc::EAGAIN, libc::ENOMEM, libc::EBUSY]);
    for (errno, setting) in all.flat_map(|errno| [(errno, PRIVATE_THP), (errno, SHARED_THP)]) {
        let map = |huge| match setting {
            PRIVATE_THP => Mapping::anonymous(bytes, &policy(huge)),
            _ => Mapping::shared(bytes, &policy(huge)).map(|both| both.0),
        };
        let collapse = MADV_COLLAPSE.unsigned_abs();
        let (tried, required) = refusing_third(libc::SYS_madvise, collapse, errno, || {
            (map(HugePages::Try).unwrap(), map(HugePages::Require))
        });
        assert_eq!(resident(&tried), tried.length / page_size(), "errno {errno}");
        assert_usable(&tried, bytes);
        let expected = match transparent_bytes() {
            None => NoHuge::Absent,
            Some(_) if unsupported.contains(&errno) => why_base(setting),
            Some(_) => NoHuge::NotGiven,
        };
        match (tried.pages(), required.map(|mapping| mapping.pages())) {
            (Pages::Base { reason, .. }, Err(Error::NoHugePages { reason: why, .. })) => {
                assert_eq!((reason, why), (Some(expected), expected), "errno {errno}");
            }
            (Pages::HugeTlb { .. }, Ok(Pages::HugeTlb { .. })) => {}
            (Pages::Transparent { .. }, _) => assert_eq!(why_base(setting), NoHuge::NotGiven),
            other => panic!("errno {errno}: {other:?}"),
        }
    }
}

#[test]
fn hugetlb_shortage_raises_no_signal() {
    let (free, page) = hugetlb_pool();
    // At most 1 GiB, because the mapping may use transparent huge pages instead.
    let bytes = ((free + 1) * page.max(2 * MIB)).min(1 << 30);
    assert_usable(&Mapping::anonymous(bytes, &policy(HugePages::Try)).unwrap(), bytes);
}

/// Maps private and shared memory with this policy.
fn both(policy: &MemoryPolicy) -> [Result<Mapping, Error>; 2] {
    [Mapping::anonymous(MIB, policy), Mapping::shared(MIB, policy).map(|both| both.0)]
}

fn on_node(node: u32) -> MemoryPolicy {
    MemoryPolicy { node: Some(NodeId(node)), huge: HugePages::Never }
}

#[track_caller]
fn assert_on(node: NodeId, mapping: &Mapping) {
    for page in mapping.words().chunks(page_size() / 8) {
        assert_eq!(crate::node_of(NonNull::from(&page[0]).cast()), Ok(node));
    }
}

/// Leaves huge pages to a machine with a pool of enough of them on each node, as the test bed has.
#[test]
fn binds_nodes_or_reports_refusal() {
    const BYTES: usize = 8 * MIB;
    // Other tests use some pages at the same time.
    let enough = |pool: &HugePagePool| pool.page_bytes == 2 << 20 && pool.free >= 40;
    let topology = Topology::from_sysfs("/sys".as_ref()).unwrap();
    for node in topology.nodes().iter().filter(|node| node.has_memory()) {
        let pool = node.huge_pages.iter().find(|pool| enough(pool));
        let huge = pool.map_or(HugePages::Never, |_| HugePages::Require);
        for huge in [HugePages::Never, huge] {
            let policy = MemoryPolicy { node: Some(node.id), huge };
            let (shared, file) = Mapping::shared(BYTES, &policy).unwrap();
            let theirs = Mapping::from_fd(file.as_fd(), BYTES).unwrap();
            let private = Mapping::anonymous(BYTES, &policy).unwrap();
            for mapping in [&private, &shared] {
                assert_usable(mapping, BYTES);
                let is_huge = matches!(mapping.pages(), Pages::HugeTlb { .. });
                assert_eq!(is_huge, huge == HugePages::Require, "{}", mapping.pages());
            }
            match (private.policy_refused(), shared.policy_refused()) {
                (None, None) => {
                    [&private, &shared, &theirs].iter().for_each(|each| assert_on(node.id, each));
                }
                (Some(Error::Bind { node: at, .. }), Some(Error::Bind { node: of_shared, .. })) => {
                    assert_eq!([at, of_shared], [&node.id; 2]);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Without a policy, memory is on the node of the rank that touches it first.
#[test]
fn first_touch_is_on_placed_node() {
    let (topology, affinity) =
        (Topology::from_sysfs("/sys".as_ref()).unwrap(), Affinity::take().unwrap());
    for near in topology.nodes().iter().map(|node| node.id) {
        for placement in crate::place(&topology, affinity.allowed(), 2, Some(near)).unwrap() {
            affinity.pin(placement.cpu).unwrap();
            let mapping = Mapping::anonymous(MIB, &base()).unwrap();
            if crate::node_of(mapping.start).is_ok() {
                assert_on(placement.memory.unwrap(), &mapping);
            }
        }
    }
}

#[test]
fn reports_missing_node() {
    for result in both(&on_node(1023)) {
        let refused = result.map(|mapping| mapping.policy_refused().cloned());
        let (Err(error) | Ok(Some(error))) = refused else { panic!("bound to node 1023") };
        assert!(matches!(error, Error::Bind { node: NodeId(1023), .. }), "{error}");
    }
    let errno = libc::EINVAL;
    let results = refusing(libc::SYS_mbind, errno, || both(&on_node(7)));
    for result in results {
        assert_eq!(result.unwrap_err(), Error::Bind { node: NodeId(7), errno });
    }
}

#[test]
fn maps_despite_refused_policy() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let refused = Some(Error::Bind { node: NodeId(1), errno });
        for huge in [HugePages::Never, HugePages::Try] {
            let policy = MemoryPolicy { huge, ..on_node(1) };
            for mapping in refusing(libc::SYS_mbind, errno, || both(&policy)) {
                let mapping = mapping.unwrap();
                assert_eq!(mapping.policy_refused(), refused.as_ref());
                assert_usable(&mapping, MIB);
            }
        }
        // No policy is refused if none was requested.
        for mapping in refusing(libc::SYS_mbind, errno, || both(&base())) {
            assert_eq!(mapping.unwrap().policy_refused(), None);
        }
    }
}

/// Returns the number of pages of a mapping that are in memory.
fn resident(mapping: &Mapping) -> usize {
    let mut pages = vec![0_u8; mapping.length.div_ceil(page_size())];
    // SAFETY: the kernel writes one byte for each page of the range, which belongs to the mapping.
    let done =
        unsafe { libc::mincore(mapping.start.as_ptr().cast(), mapping.length, pages.as_mut_ptr()) };
    assert_eq!(done, 0);
    pages.iter().filter(|page| *page & 1 == 1).count()
}

#[test]
fn populates_despite_refused_advice() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
        let private = || Mapping::anonymous(MIB, &base());
        let private = refusing(libc::SYS_madvise, errno, private).unwrap();
        assert_eq!(resident(&private), MIB / page_size(), "errno {errno}");
        assert_usable(&private, MIB);
        let shared = || Mapping::shared(MIB, &base());
        let (shared, file) = refusing(libc::SYS_madvise, errno, shared).unwrap();
        // In blocks of 512 bytes, regardless of the file system's block size (stat(2)).
        assert_eq!(File::from(file).metadata().unwrap().blocks(), MIB as u64 / 512);
        assert_usable(&shared, MIB);
    }
    // Without either call an access by a peer could raise SIGBUS.
    let calls = [libc::SYS_madvise, libc::SYS_fallocate];
    let [_, shared] = refusing_all(&calls, libc::EPERM, || both(&base()));
    let error = shared.unwrap_err().to_string();
    assert!(error.contains(": fallocate: ") && error.contains("seccomp"), "{error}");
}

#[test]
fn hidden_smaps_yields_unknown_pages() {
    let hidden = |policy| refusing(libc::SYS_openat, libc::EPERM, move || both(&policy));
    for mapping in hidden(base()) {
        let mapping = mapping.unwrap();
        assert_eq!(mapping.pages(), Pages::Unknown { errno: libc::EPERM });
        assert_usable(&mapping, MIB);
    }
    // Without smaps, required huge pages are known only for hugetlb pages: fstat(2) reports their
    // size.
    for result in hidden(policy(HugePages::Require)) {
        let is_huge = |mapping: Mapping| matches!(mapping.pages(), Pages::HugeTlb { .. });
        match result {
            Ok(mapping) => assert!(is_huge(mapping)),
            Err(error) => assert!(matches!(error, Error::NoHugePages { .. }), "{error}"),
        }
    }
}

#[test]
fn only_shared_memory_needs_memfd_create() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let policy = policy(HugePages::Try);
        let [private, shared] = refusing(libc::SYS_memfd_create, errno, || both(&policy));
        assert_usable(&private.unwrap(), MIB);
        let error = shared.unwrap_err();
        assert_eq!(error, Error::Map { call: "memfd_create", bytes: MIB, errno });
        assert!(error.to_string().contains("allow it"), "{error}");
    }
}

#[test]
fn counts_adjacent_mappings_separately() {
    let huge = Mapping::anonymous(4 * MIB, &policy(HugePages::Try)).unwrap();
    let small = Mapping::anonymous(4 * MIB, &base()).unwrap();
    let again = Mapping::anonymous(4 * MIB, &policy(HugePages::Try)).unwrap();
    for pages in [huge.pages(), again.pages()] {
        if let Pages::Transparent { huge_bytes, mapped_bytes } = pages {
            assert!(huge_bytes <= mapped_bytes, "{pages}");
        }
    }
    assert_eq!(small.pages(), Pages::Base { page_bytes: page_size(), reason: None });
}

#[test]
fn refuses_more_than_installed_memory() {
    let bytes = 1 << 46;
    let shared = Mapping::shared(bytes, &base()).map(|both| both.0);
    for refused in [Mapping::anonymous(bytes, &base()), shared].map(Result::unwrap_err) {
        let Error::TooLarge { bytes: asked, installed_bytes } = refused else {
            panic!("{refused}");
        };
        assert_eq!(asked, bytes);
        assert!(installed_bytes < bytes as u64 && refused.to_string().contains("request less"));
    }
}
