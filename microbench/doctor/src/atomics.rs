//! Checks the device's atomics, which inserts use, and its limits of outstanding operations.

use probeline_verbs::{AtomicCapability, OpenError, SelfTestFailed};

use crate::facts::{Facts, Trial};
use crate::finding::{Check, Finding, Subject};
use crate::note::Note;
use crate::root::Root;

/// The value of most devices, which an engine requests by default.
const USUAL_READS: u8 = 16;

const ANOTHER: &str = "another device: probeline doctor --device ANOTHER";

pub(crate) fn checks(root: &Root, subject: &Subject, facts: &Facts) -> Vec<Finding> {
    vec![
        capability(subject, facts),
        trial(subject, &facts.trial),
        pci_atomics(root, subject, facts),
        outstanding(subject, facts),
    ]
}

fn capability(subject: &Subject, facts: &Facts) -> Finding {
    let check = Check::new("atomics", subject, Note::DEVICE_ATOMICS);
    match facts.atomics {
        AtomicCapability::None => check
            .broken(
                "none (atomic_cap NONE)",
                "without a compare-and-swap nothing is inserted: engines do not open on it",
                ANOTHER,
            )
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        AtomicCapability::Device => check
            .fine("with each other on this device (atomic_cap HCA)")
            .consequence("an owner claims buckets of its own part through the device as well"),
        AtomicCapability::Global => check.fine("with the CPU's too (atomic_cap GLOB)"),
    }
}

fn trial(subject: &Subject, trial: &Trial) -> Finding {
    let check = Check::new("atomics-tried", subject, Note::ATOMIC_BYTE_ORDER);
    let error = match trial {
        Trial::Passed => {
            return check.fine(
                "compare-and-swap and fetch-and-add over a queue pair to itself: they take effect, \
                 and return old values in the host's byte order",
            );
        }
        Trial::NotTried(why) => {
            return check.not_seen(format_args!("not tried: {why}")).command("probeline doctor");
        }
        Trial::Failed(error) => error,
    };
    let (consequence, command, note) = match error {
        OpenError::SelfTest { source: SelfTestFailed::ByteOrder { .. }, .. } => (
            "claims would compare the wrong bytes, and fail",
            format!("a newer kernel, or {ANOTHER}"),
            Note::ATOMIC_BYTE_ORDER,
        ),
        OpenError::SelfTest { source: SelfTestFailed::NoEffect { .. }, .. } => (
            "inserts would report success without storing anything",
            format!("a newer driver or firmware, or {ANOTHER}"),
            Note::DEVICES_WITHOUT_ATOMICS,
        ),
        OpenError::SelfTest { .. } => (
            "results of a table over it would be unreliable",
            ANOTHER.to_owned(),
            Note::DEVICES_WITHOUT_ATOMICS,
        ),
        // Opening registers only a few pages. The kernel reports a limit of 0 as EPERM.
        OpenError::Verb(failed) if [EPERM, ENOMEM].contains(&failed.errno) => (
            "not even the few pages of the smallest engine could be locked",
            "sudo prlimit --pid $$ --memlock=unlimited:unlimited".to_owned(),
            Note::LOCKED_MEMORY,
        ),
        _ => ("no engine can be opened on it", "sudo dmesg | tail -50".to_owned(), Note::NO_DEVICE),
    };
    check.broken(error.to_string(), consequence, command).note(note)
}

/// errno(3).
const EPERM: i32 = 1;
const ENOMEM: i32 = 12;

fn pci_atomics(root: &Root, subject: &Subject, facts: &Facts) -> Finding {
    let check = Check::new("pci-atomics", subject, Note::PCI_ATOMICS);
    let caps = match facts.pci_atomics {
        Ok(caps) => caps,
        Err(failed) => return check.not_seen(failed),
    };
    let seen = match (caps.compare_and_swap, caps.fetch_add) {
        (true, true) => "compare-and-swap and fetch-and-add of 8 bytes",
        (true, false) => "compare-and-swap of 8 bytes",
        (false, true) => "fetch-and-add of 8 bytes",
        (false, false) => "none, or not reported",
    };
    let claimed = facts.atomics == AtomicCapability::Global || caps.compare_and_swap;
    if !claimed || !root.is_virtual() {
        return check.fine(seen);
    }
    check.look(
        format!("{seen}, in a virtual machine"),
        "some kernels enable them although no visible root port supports them: do not rely on \
         atomics that are atomic with the CPU's",
        "probeline bench-latency --transport verbs --direct off",
    )
}

fn outstanding(subject: &Subject, facts: &Facts) -> Finding {
    let check = Check::new("outstanding-reads", subject, Note::OUTSTANDING_READS);
    let (initiator, responder) = (facts.initiator_rd_atomic, facts.responder_rd_atomic);
    let least = initiator.min(responder);
    let seen = format!("{initiator} as initiator, {responder} as responder, per queue pair");
    match least {
        0 => check.broken(
            seen,
            "READs and atomics that are posted never complete",
            format!("ibv_devinfo -v; a newer driver or firmware, or {ANOTHER}"),
        ),
        1..USUAL_READS => check.look(
            seen,
            format!(
                "at most {least} READs and claims to one owner execute at once, and others wait: \
                 the rate to one owner is at most {least} per roundtrip"
            ),
            "probeline tune --transport verbs, which finds the number in flight up to which \
             throughput rises",
        ),
        _ => check.fine(seen),
    }
}
