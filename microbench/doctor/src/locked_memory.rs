//! Checks how much memory this process may lock. Registered memory is locked in RAM.

use crate::root::{Root, Unseen, size};
use crate::{Finding, Note, Subject};

const CHECK: &str = "locked-memory";
const LIMITS: &str = "proc/self/limits";

/// The bit of CAP_IPC_LOCK, which lifts the limit (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

/// The default table over verbs needs more than this, with everything else that is registered.
const LEAST: u64 = 2 << 20;

const LOCKS: &str = "a device's window and slots are locked in RAM; shared memory locks nothing";
const MEND: &str = "sudo prlimit --pid $$ --memlock=unlimited:unlimited, in the shell that starts \
                    the ranks";

/// `registers` is whether there is an RDMA device to register memory with.
pub(crate) fn check(root: &Root, registers: bool) -> Finding {
    let machine = &Subject::Machine;
    let limit = match limit(root) {
        Ok(limit) => limit,
        Err(unseen) => {
            return Finding::not_seen(CHECK, machine, unseen)
                .consequence(LOCKS)
                .command("ulimit -l")
                .note(Note::LOCKED_MEMORY);
        }
    };
    if !registers {
        let seen = format!("{}, and no device to register it with", words(limit));
        return Finding::fine(CHECK, machine, seen).consequence(LOCKS).note(Note::LOCKED_MEMORY);
    }
    let Some(bytes) = limit else {
        return Finding::fine(CHECK, machine, words(limit)).note(Note::LOCKED_MEMORY);
    };
    if may_exceed(root) {
        let seen = format!("{}, which does not bind a process with CAP_IPC_LOCK", words(limit));
        return Finding::fine(CHECK, machine, seen).note(Note::LOCKED_MEMORY);
    }
    let memory = root.memory("MemTotal").ok();
    let finding = match memory {
        _ if bytes < LEAST => Finding::broken(CHECK, machine, words(limit))
            .consequence("registering even a small table's memory fails with ENOMEM"),
        // A table rarely uses more than half of the memory.
        Some(memory) if bytes >= memory / 2 => {
            return Finding::fine(CHECK, machine, words(limit)).note(Note::LOCKED_MEMORY);
        }
        _ => Finding::look(CHECK, machine, words(limit)).consequence(
            "a larger table than that cannot be registered: opening it fails with ENOMEM",
        ),
    };
    finding.command(MEND).note(Note::LOCKED_MEMORY)
}

/// Returns the bytes that may be locked; `None` without a limit.
fn limit(root: &Root) -> Result<Option<u64>, Unseen> {
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

fn words(limit: Option<u64>) -> String {
    limit.map_or_else(|| "no limit".to_owned(), |bytes| format!("{} at most", size(bytes)))
}
