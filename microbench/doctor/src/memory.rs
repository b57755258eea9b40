//! Checks the memory for a table, the pages that back it, and how much of it this process may lock:
//! registered memory is locked in RAM.

use crate::cgroup;
use crate::finding::{Check, Finding};
use crate::root::{Root, Unseen, linux_version, size};

const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";
/// Pages of 2 MiB that hold the default table of most commands.
const ENOUGH_PAGES: u64 = 64;
/// The default of container runtimes is 64 MiB; a few ranks of MPI or UCX take more.
const LEAST_DEV_SHM: u64 = 1 << 30;
/// The default table of most commands has 128 MiB, and each rank needs some more memory.
const LEAST_AVAILABLE: u64 = 512 << 20;
/// The default table over verbs needs to lock more than this, with everything else that is
/// registered.
const LEAST_LOCKED: u64 = 2 << 20;
const LIMITS: &str = "proc/self/limits";
/// The bit of CAP_IPC_LOCK, which lifts the limit (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

pub(crate) const SMALL_PAGES: &str = "with 4 KiB pages a device has more translations than fit its cache, and a miss of the CPU walks \
     the page table too";
pub(crate) const SMALL_SHARED: &str = "over shm, with 4 KiB pages, a miss walks the page table too: random reads at about half the rate";
pub(crate) const LOCKS: &str =
    "a device's window and slots are locked in RAM; shared memory locks nothing";

pub(crate) fn available(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let available = root.memory("MemAvailable")?;
    let limit = cgroup::memory(root).filter(|limit| *limit < available);
    let mut seen = format!("{} available", size(available));
    if let Some(limit) = limit {
        seen += &format!(", but this container is limited to {}", size(limit));
    }
    if limit.unwrap_or(available) >= LEAST_AVAILABLE {
        return Ok(check.fine(seen));
    }
    Ok(check.look(
        seen,
        "too little for the default table of most commands; a swapped table is unusably slow",
        "a smaller table by --table-size",
    ))
}

/// Returns the free huge pages of 2 MiB in all pools.
fn free_pages(root: &Root) -> Result<u64, Unseen> {
    let path = "hugepages/hugepages-2048kB/free_hugepages";
    let of_node = |node: String| root.number::<u64>(&format!("{node}/{path}")).ok();
    let pools: Vec<u64> = root.nodes().into_iter().filter_map(of_node).collect();
    if pools.is_empty() {
        return root.number(&format!("sys/kernel/mm/{path}"));
    }
    Ok(pools.into_iter().fold(0, u64::saturating_add))
}

/// Checks the pages of private memory and of memory that a device registers.
pub(crate) fn huge_pages(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    pages(root, check, ["enabled", "madvise", SMALL_PAGES], &["always", "madvise"])
}

/// Checks the pages of windows that several processes share.
pub(crate) fn shared_huge_pages(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let given = ["always", "within_size", "advise", "force"];
    pages(root, check, ["shmem_enabled", "advise", SMALL_SHARED], &given)
}

/// Checks whether memory gets huge pages: from a pool, because the setting is one of `given`, or
/// because the kernel makes them on request.
fn pages(
    root: &Root,
    check: &Check<'_>,
    [setting, recommended, consequence]: [&'static str; 3],
    given: &[&str],
) -> Result<Finding, Unseen> {
    let path = format!("{TRANSPARENT}/{setting}");
    let free = free_pages(root).unwrap_or(0);
    let seen = format!("{free} huge pages of 2 MiB free in pools");
    let command = format!("echo {recommended} | sudo tee /{path}");
    // MADV_COLLAPSE of Linux 6.1 regards only the setting `deny` (madvise(2)).
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let collapses = linux_version(&release) >= Some((6, 1));
    Ok(match root.chosen(&path) {
        Ok(word) if free >= ENOUGH_PAGES || given.contains(&&*word) => {
            check.fine(format!("{seen}, transparent huge pages: {word}"))
        }
        Ok(word) if collapses && word == "never" => {
            check.fine(format!("{seen}, transparent huge pages: {word}, but made on request"))
        }
        Ok(word) => {
            check.look(format!("{seen}, transparent huge pages: {word}"), consequence, command)
        }
        Err(_) if free >= ENOUGH_PAGES => check.fine(seen),
        Err(unseen) => check.not_seen(unseen).consequence(consequence).command(command),
    })
}

pub(crate) fn dev_shm(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let seen = match rustix::fs::statvfs(root.path("dev/shm")) {
        Ok(seen) => seen,
        Err(error) => {
            return Ok(check.not_seen(format_args!("the size of /dev/shm is unknown: {error}")));
        }
    };
    let bytes = seen.f_bavail.saturating_mul(seen.f_frsize);
    let free = format!("{} free", size(bytes));
    if bytes >= LEAST_DEV_SHM {
        return Ok(check.fine(free));
    }
    Ok(check.look(
        free,
        "shm does not use it, but UCX and MPI do, and crash with a bus error when it is full",
        "sudo mount -o remount,size=50% /dev/shm, or docker run --shm-size=4g",
    ))
}

/// The limit of locked memory matters only if there is a device to register memory with.
pub(crate) fn locked(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let limit = locked_limit(root)?;
    let words = limit.map_or_else(|| "no limit".to_owned(), |b| format!("{} at most", size(b)));
    if root.rdma_devices().is_empty() {
        let seen = format!("{words}, and no device to register memory with");
        return Ok(check.fine(seen).consequence(LOCKS));
    }
    let command = "sudo prlimit --pid $$ --memlock=unlimited:unlimited, in the shell that starts the \
                   ranks";
    Ok(match (limit, root.memory("MemTotal")) {
        (None, _) => check.fine(words),
        _ if may_exceed(root) => {
            check.fine(format!("{words}, which does not bind a process with CAP_IPC_LOCK"))
        }
        (Some(bytes), _) if bytes < LEAST_LOCKED => check.broken(
            words,
            "registering even a small table's memory fails with ENOMEM",
            command,
        ),
        // A table rarely uses more than half of the memory.
        (Some(bytes), Ok(memory)) if bytes >= memory / 2 => check.fine(words),
        _ => check.look(
            words,
            "a larger table than that cannot be registered: opening it fails with ENOMEM",
            command,
        ),
    })
}

/// Returns the bytes that may be locked; `None` without a limit.
fn locked_limit(root: &Root) -> Result<Option<u64>, Unseen> {
    let text = root.text(LIMITS)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => Ok(None),
        // The parser rejects a missing or malformed number, with an error that names the file.
        word => root.parsed(LIMITS, word.unwrap_or_default()).map(Some),
    }
}

fn may_exceed(root: &Root) -> bool {
    let effective = root.field("proc/self/status", "CapEff").unwrap_or_default();
    u64::from_str_radix(&effective, 16).is_ok_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1)
}
