use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

use super::*;

const MIB: usize = 1 << 20;
const POLICIES: [HugePages; 3] = [HugePages::Never, HugePages::Try, HugePages::Require];

fn policy(huge: HugePages) -> MemoryPolicy {
    MemoryPolicy { node: None, huge }
}

fn base() -> MemoryPolicy {
    policy(HugePages::Never)
}

/// Free pages of the hugetlb pool and their size, as meminfo tells.
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
    assert_eq!(words.as_ptr().addr() % page_bytes(), 0);
    assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    words.iter().zip(1..).for_each(|(word, value)| word.store(value, Relaxed));
    assert_eq!(words[words.len() - 1].load(Relaxed), (bytes / 8) as u64);
}

#[test]
fn private_memory_is_zero_and_of_the_size_asked_for() {
    for bytes in [8, 4096, 4104, 3 * MIB, 5 * MIB + 24] {
        for huge in [HugePages::Never, HugePages::Try] {
            assert_usable(&Mapping::anonymous(bytes, &policy(huge)).unwrap(), bytes);
        }
    }
}

#[test]
fn shared_memory_is_one_for_all_who_map_it() {
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
fn shared_memory_is_the_owners_alone_and_keeps_its_size() {
    let (mapping, file) = Mapping::shared(MIB, &base()).unwrap();
    let file = File::from(file);
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    for bytes in [0, 4096, 2 * MIB as u64] {
        assert_eq!(file.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    // SAFETY: F_ADD_SEALS takes an int and touches no memory.
    let sealed =
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) };
    assert_eq!((sealed, last_errno()), (-1, libc::EPERM), "nobody may add a seal");
    assert_usable(&mapping, MIB);
}

#[test]
fn a_file_that_could_end_in_sigbus_is_refused() {
    let (_mapping, file) = Mapping::shared(4096, &base()).unwrap();
    let short = Mapping::from_fd(file.as_fd(), 4097).unwrap_err();
    assert_eq!(short, MappingError::Short { needed_bytes: 4097, found_bytes: 4096 });

    let open = memfd(0, 4096).unwrap();
    File::from(open.try_clone().unwrap()).set_len(4096).unwrap();
    assert_eq!(Mapping::from_fd(open.as_fd(), 4096).unwrap_err(), MappingError::NotSealed);

    let device = File::open("/dev/zero").unwrap();
    assert_eq!(Mapping::from_fd(device.as_fd(), 4096).unwrap_err(), MappingError::NotSealed);
}

#[test]
fn impossible_sizes_are_errors() {
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
fn base_pages_are_base_pages() {
    let expected = Pages::Base { page_bytes: page_bytes(), reason: None };
    assert_eq!(Mapping::anonymous(8 * MIB, &base()).unwrap().pages(), expected);
    let (mine, file) = Mapping::shared(8 * MIB, &base()).unwrap();
    assert_eq!(mine.pages(), expected);
    assert_eq!(Mapping::from_fd(file.as_fd(), 8 * MIB).unwrap().pages(), expected);
}

#[test]
fn trying_says_why_there_are_no_huge_pages() {
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
        Pages::HugeTlb { page_bytes } => assert!(page_bytes > super::page_bytes()),
    }
}

/// Takes the hugetlb path if enough pages are free and the transparent one if that is on; the
/// outcome must be the one that the system's settings call for.
#[test]
fn requiring_gives_huge_pages_for_everything_or_says_what_to_do() {
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
                assert!(transparent_bytes(setting).is_ok());
                assert_eq!(huge_bytes, mapped_bytes);
            }
            Ok(other) => panic!("required huge pages, got {other}"),
            Err(error) => {
                // The other tests hold a few pages at the same time.
                assert!(free < 32, "pages were free: {error}");
                let text = error.to_string();
                assert!(text.contains("sysctl vm.nr_hugepages"), "{text}");
                if let Err(reason) = transparent_bytes(setting) {
                    assert!(text.contains(&reason.to_string()), "{text}");
                }
            }
        }
        if let Ok(mapping) = result {
            assert_usable(&mapping, bytes);
        }
    }
}

#[test]
fn more_hugetlb_pages_than_there_are_is_no_signal() {
    let (free, page) = hugetlb_pool();
    // At most 1 GiB, for transparent huge pages may step in.
    let bytes = ((free + 1) * page.max(2 * MIB)).min(1 << 30);
    if let Ok(mapping) = Mapping::anonymous(bytes, &policy(HugePages::Try)) {
        assert_usable(&mapping, bytes);
    }
}

#[test]
fn memory_lies_on_the_node_asked_for_and_a_missing_node_is_an_error() {
    let on = |node| MemoryPolicy { node: Some(NodeId(node)), huge: HugePages::Never };
    assert_usable(&Mapping::anonymous(MIB, &on(0)).unwrap(), MIB);
    assert_usable(&Mapping::shared(MIB, &on(0)).unwrap().0, MIB);
    for result in [Mapping::anonymous(MIB, &on(1023)), Mapping::shared(MIB, &on(1023)).map(|m| m.0)]
    {
        let error = result.unwrap_err();
        assert!(matches!(error, MappingError::Bind { node: NodeId(1023), .. }), "{error}");
    }
}

#[test]
fn two_mappings_side_by_side_are_counted_apart() {
    let huge = Mapping::anonymous(4 * MIB, &policy(HugePages::Try)).unwrap();
    let small = Mapping::anonymous(4 * MIB, &base()).unwrap();
    let again = Mapping::anonymous(4 * MIB, &policy(HugePages::Try)).unwrap();
    for pages in [huge.pages(), again.pages()] {
        if let Pages::Transparent { huge_bytes, mapped_bytes } = pages {
            assert!(huge_bytes <= mapped_bytes, "{pages}");
        }
    }
    assert_eq!(small.pages(), Pages::Base { page_bytes: page_bytes(), reason: None });
}

#[test]
fn errors_say_what_to_do() {
    let text = |error: MappingError| error.to_string();
    let call = |errno| MappingError::Call { call: "mmap", bytes: 8, errno };
    assert!(text(call(libc::ENOMEM)).contains("ask for less"));
    assert!(text(call(libc::EMFILE)).contains("ulimit -n"));
    let no_huge = |reason| MappingError::NoHugePages { bytes: 3 * MIB, hugetlb_errno: 12, reason };
    assert!(text(no_huge(NoHuge::SharedOff)).contains("add 2 to `sysctl vm.nr_hugepages`"));
    assert!(text(no_huge(NoHuge::SharedOff)).contains("advise >"));
    assert!(text(no_huge(NoHuge::PrivateOff)).contains("madvise >"));
    assert!(text(no_huge(NoHuge::Small)).contains("Cannot allocate memory"));
}
