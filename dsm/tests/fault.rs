//! Plain memory in several processes, over READs and WRITEs as well as by the CPU; and what its handler does with
//! faults that are not its own.

#![allow(clippy::cast_possible_truncation, reason = "numbers are small here")]

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::SeqCst;
use std::io::{Error, Read, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::{env, fs, panic, process, thread};

use bytemuck::Pod;
use probeline_dsm::fault::{self, PlainMemory, Protection};
use probeline_dsm::{CollectiveError, Config, Operation, OperationError};
use probeline_exchange::Job;
use probeline_exchange::testing::{Plan, Watched, start, succeed};
use probeline_shm::{Builder, Engine};
use probeline_transport::{Alone, AtomicScope, Exchange, ExchangeError, Fault, Owner};

const RANKS: u32 = 3;
/// Set in a process whose access is not served.
const DIES: &str = "PROBELINE_TEST_DIES";
/// Set in a process whose regions are protected by userfaultfd.
const USERFAULTFD: &str = "PROBELINE_TEST_USERFAULTFD";

type Memory<T> = PlainMemory<T, Watched<Engine>, [Operation; 8]>;

fn main() {
    probeline_exchange::testing::run(&[
        ("passes_all_with_userfaultfd", userfaultfd()),
        ("ranks_share_elements_and_counters", Plan::Run(shared)),
        ("a_store_across_pages_ends", Plan::Run(across)),
        ("pages_that_the_kernel_takes_come_back", Plan::Run(reclaimed)),
        ("pages_of_locked_memory_fault", locked()),
        ("a_foreign_fault_is_passed_on", Plan::Run(foreign)),
        ("a_foreign_fault_ends_the_process", Plan::Run(|| dies("a_foreign_fault_ends", "", null))),
        ("a_signal_of_a_process_is_passed_on", Plan::Run(|| dies("a_signal_of", "", raised))),
        (
            "another_thread_is_refused",
            Plan::Run(|| dies("another_thread", "only the thread", other)),
        ),
        ("an_exchange_is_refused", Plan::Run(|| dies("an_exchange_is", "do not use it in", reads))),
        (
            "a_store_of_an_exchange_is_refused",
            Plan::Run(|| dies("a_store_of", "do not use it in", stores)),
        ),
        ("code_in_the_memory_is_refused", Plan::Run(|| dies("code_in", "cannot run", executes))),
        ("a_page_that_is_lost_is_named", Plan::Run(|| dies("a_page_that_is", "is dead: ", closed))),
        ("system_calls_fail_with_efault", Plan::Run(efault)),
        ("a_forked_process_has_no_region", Plan::Run(forked)),
        ("a_rank_that_cannot_open_tells_others", Plan::Run(unopened)),
        ("many_regions_come_and_go", Plan::Run(many)),
        (
            "a_lack_of_mappings_is_no_error",
            if max_mappings() <= 1 << 20 {
                Plan::Run(mappings)
            } else {
                Plan::Ignore("vm.max_map_count is larger than 1,048,576")
            },
        ),
    ]);
}

/// Opens a region whose pages are read by READs into the private mirror, or loaded by the CPU.
fn open<T: Pod>(config: Config, is_direct: bool, job: &mut (impl Exchange + ?Sized)) -> Memory<T> {
    let engine = Builder::new(config.sizes::<T>(job.owners(), 8)).open(job).unwrap();
    let atomics = if is_direct { AtomicScope::Cpu } else { AtomicScope::Device };
    let engine = Watched::declaring(engine, |caps| caps.atomics = atomics);
    Memory::open_with(protection(), engine, config, [Operation::EMPTY; 8], job).unwrap()
}

fn protection() -> Protection {
    if env::var_os(USERFAULTFD).is_some() { Protection::Userfaultfd } else { Protection::Mprotect }
}

/// Runs all other cases again.
fn userfaultfd() -> Plan {
    if protection() == Protection::Userfaultfd || Protection::Userfaultfd.check().is_err() {
        return Plan::Ignore("userfaultfd(2) is not permitted, or in use already");
    }
    Plan::Run(|| {
        let mut all = Command::new(env::current_exe().unwrap());
        let output = all.env(USERFAULTFD, "1").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    })
}

/// Runs a test on several processes, with both ways to a page.
fn on_processes<T: Pod>(name: &str, config: Config, test: impl Fn(&Memory<T>, &mut Job)) {
    let mut job = start(name, RANKS);
    for is_direct in [false, true] {
        let memory = open(config, is_direct, &mut job);
        test(&memory, &mut job);
        memory.barrier(&mut job).unwrap();
    }
    job.barrier().unwrap();
    succeed(job);
}

/// Edits elements of all ranks in each word, on more pages than may be edited at once, also at their home, and counts
/// under locks.
fn shared() {
    const ELEMENTS: usize = 9_000;
    let config = Config { notices: 2, edited_pages: 2, ..Config::new(ELEMENTS as u64 + 3) };
    on_processes::<u32>("ranks_share_elements_and_counters", config, |memory, job| {
        let (me, cells) = (job.me().0, memory.cells());
        let (elements, counters) = cells.split_at(ELEMENTS);
        for round in 1..10 {
            for (at, cell) in (0..).zip(elements).skip(me as usize).step_by(RANKS as usize) {
                cell.set(round * at);
            }
            for nth in 0..20 {
                let lock = (nth + me) % 3;
                memory.acquire(lock).unwrap();
                counters[lock as usize].set(counters[lock as usize].get() + 1);
                memory.release(lock).unwrap();
            }
            memory.barrier(job).unwrap();
            assert!((0..).zip(elements).all(|(at, cell)| cell.get() == round * at));
            assert_eq!(counters.iter().map(Cell::get).sum::<u32>(), 20 * round * RANKS);
            memory.barrier(job).unwrap();
        }
        assert!(memory.stats().unwrap().flushes > 9 * 22);
    });
}

fn across() {
    let config = Config { edited_pages: 1, ..Config::new(4096 * 3) };
    let memory = open::<u8>(config, false, &mut Alone);
    memory.cells()[4096 * 2].set(1);
    let bytes = 0x0807_0605_0403_0201_u64.to_le();
    // SAFETY: eight bytes of the memory.
    unsafe { memory.as_ptr().add(4092).cast::<u64>().write_unaligned(bytes) };
    memory.barrier(&mut Alone).unwrap();
    assert!(memory.cells()[4092..4100].iter().map(Cell::get).eq(1..9));
}

/// Opens a region in a process that locks its memory: the kernel fills new mappings at once.
fn locked() -> Plan {
    let (mut limit, unlimited) = (libc::rlimit { rlim_cur: 0, rlim_max: 0 }, libc::RLIM_INFINITY);
    // SAFETY: getrlimit(2): a live structure.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    // SAFETY: geteuid(2) takes nothing.
    if limit.rlim_cur != unlimited && unsafe { libc::geteuid() } != 0 {
        return Plan::Ignore("the process may not lock its memory");
    }
    Plan::Run(|| {
        if env::var_os(DIES).is_none() {
            let output = again("pages_of_locked").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        // SAFETY: mlockall(2) takes no pointer.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0);
        let memory = open::<u64>(Config::new(2_000), false, &mut Alone);
        memory.cells()[5].set(7);
        memory.barrier(&mut Alone).unwrap();
        assert!(memory.stats().unwrap().flushes > 0);
    })
}

/// Takes entries from the page table, as the kernel does where memory is scarce.
fn reclaimed() {
    let memory = open::<u64>(Config::new(2_000), false, &mut Alone);
    let cells = memory.cells();
    for round in 1..4 {
        cells[5].set(round);
        let read = cells[1_000].get();
        // SAFETY: madvise(2): pages of a file that is mapped twice, which keeps their bytes.
        let taken = unsafe { libc::madvise(memory.as_ptr().cast(), 16_000, libc::MADV_DONTNEED) };
        assert_eq!(
            (taken, read, cells[1_000].get(), cells[5].get()),
            (0, round - 1, round - 1, round)
        );
        cells[6].set(round);
        memory.barrier(&mut Alone).unwrap();
        cells[1_000].set(round);
        assert_eq!((cells[5].get(), cells[6].get()), (round, round));
    }
}

/// A page of this test, which its handler makes accessible.
static FOREIGN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_foreign(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a live structure; pthread_sigmask(3) fills one; mprotect(2) changes a page of this test
    // only.
    unsafe {
        let page = FOREIGN.load(SeqCst);
        let mut blocked = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut blocked);
        let is_blocked = |signal| libc::sigismember(&raw const blocked, signal) != 0;
        // The flags and the mask of the action.
        let is_right = is_blocked(libc::SIGUSR1) && !is_blocked(libc::SIGSEGV);
        if (*info).si_addr() != page || !is_right || is_blocked(libc::SIGUSR2) {
            libc::_exit(70);
        }
        libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// Installs the handler above before the first region is opened, in a process of its own, for one fault: the second
/// one ends the process.
fn foreign() {
    if env::var_os(DIES).is_none() {
        let status = again("a_foreign_fault_is_passed").status().unwrap();
        return assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
    }
    // SAFETY: mmap(2) and sigaction(2): live structures, and a handler of the type that the flags name.
    let page = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_foreign as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESETHAND;
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGUSR1);
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
    };
    FOREIGN.store(page, SeqCst);
    let memory = open::<u64>(Config::new(1_000), false, &mut Alone);
    memory.cells()[5].set(7);
    // SAFETY: the handler makes the page writable.
    unsafe { page.cast::<u64>().write_volatile(8) };
    assert_eq!((memory.cells()[5].get(), memory.cells()[6].get()), (7, 0));
    null(&memory);
}

/// Returns the command that runs a test in another process.
fn again(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg(name).env(DIES, "1").stdin(Stdio::null());
    command
}

/// Runs this test in another process, which must end by the signal of its fault and say so.
fn dies(name: &str, reason: &str, act: fn(&Memory<u64>)) {
    if env::var_os(DIES).is_some() {
        let memory = open::<u64>(Config::new(1_000), false, &mut Alone);
        memory.cells()[5].set(7);
        act(&memory);
        process::exit(0);
    }
    let output = again(name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let is_of_fault = |signal| signal == libc::SIGSEGV || signal == libc::SIGBUS;
    assert!(output.status.signal().is_some_and(is_of_fault), "{text}");
    assert!(text.contains(reason) && text.contains("probeline") != reason.is_empty(), "{text}");
}

fn null(_: &Memory<u64>) {
    // SAFETY: none: it faults.
    unsafe { ptr::without_provenance::<u64>(8).read_volatile() };
}

fn raised(_: &Memory<u64>) {
    // The handler of the standard library returns from a fault that is not its own, as it would by itself, with the
    // default action for the next one.
    // SAFETY: raise(3) takes no pointer.
    (0..2).for_each(|_| assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0));
}

fn other(memory: &Memory<u64>) {
    let address = memory.as_ptr() as usize;
    // SAFETY: none: it faults.
    let read =
        move || unsafe { ptr::with_exposed_provenance::<u64>(address + 8 * 900).read_volatile() };
    thread::spawn(read).join().ok();
}

/// An exchange that accesses the memory whose barrier calls it.
struct Accesses<F>(F);

impl<F: Fn()> Exchange for Accesses<F> {
    fn me(&self) -> Owner {
        Owner(0)
    }

    fn owners(&self) -> u32 {
        1
    }

    fn all_gather(&mut self, _: &[u8], _: &mut [u8]) -> Result<(), ExchangeError> {
        self.0();
        Ok(())
    }
}

fn reads(memory: &Memory<u64>) {
    memory.barrier(&mut Accesses(|| _ = core::hint::black_box(memory.cells()[900].get()))).ok();
}

/// Of a page that is edited before.
fn stores(memory: &Memory<u64>) {
    memory.barrier(&mut Accesses(|| memory.cells()[5].set(8))).ok();
}

fn executes(memory: &Memory<u64>) {
    // SAFETY: none: it faults.
    let code = unsafe { core::mem::transmute::<*mut u64, extern "C" fn()>(memory.as_ptr()) };
    code();
}

/// The other rank has ended, so that no page can be had.
fn closed(_: &Memory<u64>) {
    let job = &mut start("a_page_that_is_lost_is_named", 2);
    let memory = open::<u64>(Config::new(2_000), false, job);
    job.barrier().unwrap();
    if job.me() == Owner(1) {
        process::exit(0);
    }
    // Without a loss that was seen a page can be had.
    let mut rounds = 0..1 << 26;
    assert!(rounds.any(|_| memory.acquire(1).and_then(|()| memory.release(1)).is_err()));
    let error = memory.view(1_900..1_901).unwrap_err();
    assert_eq!(error, OperationError::Fault(Fault::OwnerLost(Owner(1))).into());
    core::hint::black_box(memory.cells()[1_900].get());
}

fn efault() {
    let memory = open::<u64>(Config::new(3_000), false, &mut Alone);
    let (mut reads, writes) = pipe().unwrap();
    let at = |element: usize| memory.as_ptr().wrapping_add(element).cast::<c_void>();
    // SAFETY: write(2): the kernel checks the addresses, of 8 bytes of the memory.
    let write = |element| unsafe { libc::write(writes.as_raw_fd(), at(element), 8) };
    // SAFETY: read(2), as above.
    let read = |element| unsafe { libc::read(reads.as_raw_fd(), at(element), 8) };
    let is_efault = |result| {
        assert_eq!(result, -1);
        assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
    };
    is_efault(write(5));
    assert_eq!(memory.view(5..6).unwrap()[0].get(), 0);
    assert_eq!(write(5), 8);
    is_efault(read(5));
    memory.edit(4..6).unwrap()[0].set(9);
    assert_eq!(write(4), 8);
    assert_eq!(read(5), 8);
    assert_eq!(read(5), 8);
    memory.barrier(&mut Alone).unwrap();
    // It may be read on, and not written.
    assert_eq!(memory.cells()[5].get(), 9);
    assert_eq!(write(5), 8);
    is_efault(read(5));
    let mut word = [0; 8];
    reads.read_exact(&mut word).unwrap();
    assert_eq!(word, 9_u64.to_ne_bytes());
    assert_eq!(
        memory.view(2_999..3_001).unwrap_err(),
        OperationError::Index { index: 3_000 }.into()
    );
    // Of two pages, one of which is here, the kernel takes the first.
    memory.view(1_024..1_536).unwrap();
    for _ in 0..2 {
        // SAFETY: write(2), as above.
        assert_eq!(unsafe { libc::write(writes.as_raw_fd(), at(1_024), 8_192) }, 4_096);
    }
    memory.edit(1_024..1_536).unwrap();
    // SAFETY: read(2), as above.
    assert_eq!(unsafe { libc::read(reads.as_raw_fd(), at(1_024), 8_192) }, 4_096);
}

/// Returns how a forked process ends that runs this.
fn fork(run: impl FnOnce()) -> process::ExitStatus {
    // SAFETY: this process has one thread, so the child may call any function; waitpid(2) of the child.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let result = panic::catch_unwind(panic::AssertUnwindSafe(run));
            libc::_exit(c_int::from(result.is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        process::ExitStatus::from_raw(status)
    }
}

fn forked() {
    let memory = open::<u64>(Config::new(1_000), false, &mut Alone);
    memory.cells()[5].set(7);
    let calls = fork(|| {
        assert_eq!(memory.acquire(0), Err(fault::Error::Thread));
        assert_eq!(memory.view(5..6).unwrap_err(), fault::Error::Thread);
        assert_eq!(memory.barrier(&mut Alone), Err(fault::Error::Thread));
    });
    assert!(calls.success(), "{calls}");
    let accesses = fork(|| {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        // SAFETY: mmap(2): the kernel chooses other addresses than these if they are in use.
        unsafe {
            libc::mmap(memory.as_ptr().cast(), 8192, access, flags | libc::MAP_ANONYMOUS, -1, 0);
        }
        memory.cells()[5].set(8);
    });
    assert_eq!(accesses.signal(), Some(libc::SIGSEGV));
    // SAFETY: the child drops its own copy.
    let drops = fork(|| drop(unsafe { ptr::read(&raw const memory) }));
    assert!(drops.success(), "{drops}");
    assert_eq!(memory.cells()[5].get(), 7);
    memory.barrier(&mut Alone).unwrap();
}

/// Pages of one rank are smaller than the system's, or it has none.
fn unopened() {
    let mut job = start("a_rank_that_cannot_open_tells_others", 2);
    let config = Config::new(1_000);
    for (wrong, what) in [
        (Config { page_words: 8, ..config }, "page_words is 8: it must be a multiple"),
        (Config { elements: 0, ..config }, "the number of elements is 0"),
        (Config { in_windows: true, ..config }, "set in_windows to false"),
    ] {
        let engine = Builder::new(config.sizes::<u64>(2, 8)).open(&mut job).unwrap();
        let is_wrong = job.me() == Owner(1);
        let config = if is_wrong { wrong } else { config };
        let opened =
            PlainMemory::<u64, _, _>::open(engine, config, [Operation::EMPTY; 8], &mut job);
        match opened.map(drop) {
            Err(fault::Error::Collective(error @ CollectiveError::Config(_))) if is_wrong => {
                assert!(error.to_string().contains(what), "{error}");
            }
            Err(fault::Error::Collective(error)) if !is_wrong => {
                assert_eq!(error, CollectiveError::NotOpened { owner: Owner(1) });
            }
            opened => panic!("{opened:?}"),
        }
    }
    succeed(job);
}

/// Returns the most mappings of a process.
fn max_mappings() -> usize {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    text.trim().parse().unwrap()
}

/// Other mappings leave the kernel room for a few runs of pages of one protection.
fn mappings() {
    const PAGES: usize = 1_000;
    let count = max_mappings().next_multiple_of(2);
    let memory = open::<u64>(Config::new(512 * PAGES as u64), false, &mut Alone);
    // SAFETY: mmap(2), mprotect(2) and munmap(2) of pages of this test.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let others = libc::mmap(ptr::null_mut(), count * 4096, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(others, libc::MAP_FAILED);
        let protect = |page: usize, access| {
            libc::mprotect(others.wrapping_byte_add(page * 4096), 4096, access) == 0
        };
        let has_failed = (0..count).step_by(2).find(|page| !protect(*page, libc::PROT_READ));
        let last = has_failed.expect("vm.max_map_count bounds them") - 2;
        for _ in 0..2 {
            let edited = memory.edit(5_000..5_001).map(drop);
            match protection() {
                Protection::Userfaultfd => assert_eq!(edited, Ok(())),
                Protection::Mprotect => {
                    assert!(matches!(edited, Err(fault::Error::System { call: "mprotect", .. })));
                }
            }
        }
        (0..10).for_each(|nth| assert!(protect(last - 2 * nth, libc::PROT_NONE)));
        let cells = memory.cells();
        for round in 1..3 {
            (0..PAGES).step_by(2).for_each(|page| cells[512 * page].set(round));
            memory.barrier(&mut Alone).unwrap();
            let sum: u64 = (0..PAGES).step_by(2).map(|page| cells[512 * page].get()).sum();
            assert_eq!(sum, round * PAGES as u64 / 2);
        }
        libc::munmap(others, count * 4096);
    }
}

fn many() {
    for _ in 0..3 {
        let open = || open::<u64>(Config::new(1_000), false, &mut Alone);
        let mut all: Vec<_> = (0..20).map(|_| open()).collect();
        for (nth, memory) in all.iter().enumerate() {
            memory.cells()[600].set(nth as u64);
        }
        all.remove(7);
        for (nth, memory) in all.iter().enumerate() {
            memory.barrier(&mut Alone).unwrap();
            assert_eq!(memory.cells()[600].get(), (nth + usize::from(nth >= 7)) as u64);
        }
    }
}
