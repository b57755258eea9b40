//! Checks the amount of memory for a table and the pages that back it.

use crate::cgroup;
use crate::root::{Root, Unseen, size};
use crate::{Finding, Note, Subject};

const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";
/// Pages of 2 MiB that hold the default table of most commands.
const ENOUGH_PAGES: u64 = 64;
/// The default of container runtimes is 64 MiB; a few ranks of MPI or UCX take more.
const LEAST_DEV_SHM: u64 = 1 << 30;
/// The default table of most commands has 128 MiB, and each rank needs some more memory.
const LEAST_AVAILABLE: u64 = 512 << 20;
const SMALL_PAGES: &str = "with 4 KiB pages a device has more translations than fit its cache, and \
                           a miss of the CPU walks the page table too";
const SMALL_SHARED: &str = "over shm, with 4 KiB pages, a miss walks the page table too: random \
                            reads at about half the rate";

pub(crate) fn checks(root: &Root) -> Vec<Finding> {
    vec![available(root), huge_pages(root), shared_huge_pages(root), dev_shm(root)]
}

fn available(root: &Root) -> Finding {
    const CHECK: &str = "memory";
    let machine = &Subject::Machine;
    let available = match root.memory("MemAvailable") {
        Ok(bytes) => bytes,
        Err(unseen) => return Finding::not_seen(CHECK, machine, unseen).command("free -h"),
    };
    let limit = cgroup::memory(root);
    let seen = match limit {
        Some(limit) if limit < available => {
            format!(
                "{} available, of which this container may have {}",
                size(available),
                size(limit)
            )
        }
        _ => format!("{} available", size(available)),
    };
    if limit.unwrap_or(available).min(available) >= LEAST_AVAILABLE {
        return Finding::fine(CHECK, machine, seen);
    }
    Finding::look(CHECK, machine, seen)
        .consequence(
            "too little for the default table of most commands, and a table in swap is none",
        )
        .command("a smaller table by --table-size")
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
fn huge_pages(root: &Root) -> Finding {
    let path = format!("{TRANSPARENT}/enabled");
    let finding = pages(root, "huge-pages", &path, &["always", "madvise"]);
    finding.note(Note::HUGE_PAGES).unless_fine(|finding| {
        finding.consequence(SMALL_PAGES).command(format!("echo madvise | sudo tee /{path}"))
    })
}

/// Checks the pages of windows that several processes share.
fn shared_huge_pages(root: &Root) -> Finding {
    let path = format!("{TRANSPARENT}/shmem_enabled");
    let given = ["always", "within_size", "advise", "force"];
    let finding = pages(root, "shared-memory-pages", &path, &given);
    finding.note(Note::HUGE_PAGES).unless_fine(|finding| {
        finding.consequence(SMALL_SHARED).command(format!("echo advise | sudo tee /{path}"))
    })
}

/// Checks whether memory gets huge pages, from a pool or because the setting in `path` is one of
/// `given`.
fn pages(root: &Root, check: &'static str, path: &str, given: &[&str]) -> Finding {
    let machine = &Subject::Machine;
    let (pool, transparent) = (free_pages(root), root.chosen(path));
    let free = pool.unwrap_or(0);
    let seen = format!("{free} of 2 MiB free in pools");
    match transparent {
        Ok(word) if free >= ENOUGH_PAGES || given.contains(&&*word) => {
            Finding::fine(check, machine, format!("{seen}, transparent ones: {word}"))
        }
        Ok(word) => Finding::look(check, machine, format!("{seen}, transparent ones: {word}")),
        Err(_) if free >= ENOUGH_PAGES => Finding::fine(check, machine, seen),
        Err(unseen) => Finding::not_seen(check, machine, unseen),
    }
}

fn dev_shm(root: &Root) -> Finding {
    const CHECK: &str = "dev-shm";
    let machine = &Subject::Machine;
    let seen = match rustix::fs::statvfs(root.path("dev/shm")) {
        Ok(seen) => seen,
        Err(error) => {
            let why = format!("/dev/shm could not be asked for its size: {error}");
            return Finding::not_seen(CHECK, machine, why).note(Note::SHARED_MEMORY);
        }
    };
    let bytes = seen.f_bavail.saturating_mul(seen.f_frsize);
    let free = format!("{} free", size(bytes));
    if bytes >= LEAST_DEV_SHM {
        return Finding::fine(CHECK, machine, free).note(Note::SHARED_MEMORY);
    }
    Finding::look(CHECK, machine, free)
        .consequence(
            "shm takes none of it, but UCX and MPI do, and end with a bus error when it is full",
        )
        .command("sudo mount -o remount,size=50% /dev/shm, or docker run --shm-size=4g")
        .note(Note::SHARED_MEMORY)
}
