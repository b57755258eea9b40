//! Checks the device's atomics, which inserts use, and its limits of outstanding operations.

use probeline_verbs::{AtomicCapability, OpenError, SelfTestFailed};

use crate::facts::{Facts, Trial};
use crate::root::Root;
use crate::{Finding, Note, Subject};

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
    const CHECK: &str = "atomics";
    match facts.atomics {
        AtomicCapability::None => Finding::broken(CHECK, subject, "none (atomic_cap NONE)")
            .consequence(
                "without a compare-and-swap nothing is inserted: engines do not open on it",
            )
            .command(ANOTHER)
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        AtomicCapability::Device => {
            Finding::fine(CHECK, subject, "with each other on this device (atomic_cap HCA)")
                .consequence("an owner claims buckets of its own part through the device as well")
                .note(Note::DEVICE_ATOMICS)
        }
        AtomicCapability::Global => {
            Finding::fine(CHECK, subject, "with the CPU's too (atomic_cap GLOB)")
                .note(Note::DEVICE_ATOMICS)
        }
    }
}

fn trial(subject: &Subject, trial: &Trial) -> Finding {
    const CHECK: &str = "atomics-tried";
    let error = match trial {
        Trial::Passed => {
            let seen = "compare-and-swap and fetch-and-add over a queue pair to itself: they take \
                        effect, and return old values in the host's byte order";
            return Finding::fine(CHECK, subject, seen).note(Note::ATOMIC_BYTE_ORDER);
        }
        Trial::NotTried(why) => {
            return Finding::not_seen(CHECK, subject, format!("not tried: {why}"))
                .command("probeline doctor")
                .note(Note::ATOMIC_BYTE_ORDER);
        }
        Trial::Failed(error) => error,
    };
    let finding = Finding::broken(CHECK, subject, error.to_string());
    match error {
        OpenError::SelfTest { source: SelfTestFailed::ByteOrder { .. }, .. } => finding
            .consequence("claims would be compared with the wrong bytes, and lost")
            .command(format!("a newer kernel, or {ANOTHER}"))
            .note(Note::ATOMIC_BYTE_ORDER),
        OpenError::SelfTest { source: SelfTestFailed::NoEffect { .. }, .. } => finding
            .consequence("inserts would report success without storing anything")
            .command(format!("a newer driver or firmware, or {ANOTHER}"))
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        OpenError::SelfTest { .. } => finding
            .consequence("nothing that the table does on it could be relied on")
            .command(ANOTHER)
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        // Opening registers only a few pages. The kernel reports a limit of 0 as EPERM.
        OpenError::Verb(failed) if [EPERM, ENOMEM].contains(&failed.errno) => finding
            .consequence("not even a few pages could be locked, as for the smallest engine")
            .command("sudo prlimit --pid $$ --memlock=unlimited:unlimited")
            .note(Note::LOCKED_MEMORY),
        _ => finding
            .consequence("no engine can be opened on it")
            .command("sudo dmesg | tail -50")
            .note(Note::NO_DEVICE),
    }
}

/// errno(3).
const EPERM: i32 = 1;
const ENOMEM: i32 = 12;

fn pci_atomics(root: &Root, subject: &Subject, facts: &Facts) -> Finding {
    const CHECK: &str = "pci-atomics";
    let caps = match facts.pci_atomics {
        Ok(caps) => caps,
        Err(failed) => return Finding::not_seen(CHECK, subject, failed).note(Note::PCI_ATOMICS),
    };
    let seen = match (caps.compare_and_swap, caps.fetch_add) {
        (true, true) => "compare-and-swap and fetch-and-add of 8 bytes",
        (true, false) => "compare-and-swap of 8 bytes",
        (false, true) => "fetch-and-add of 8 bytes",
        (false, false) => "none, or not told",
    };
    let claimed = facts.atomics == AtomicCapability::Global || caps.compare_and_swap;
    let finding = if claimed && root.is_virtual() {
        Finding::look(CHECK, subject, format!("{seen}, in a virtual machine"))
            .consequence(
                "kernels have switched them on where no root port is seen to take them: do not \
                 rely on atomics being atomic with the CPU's",
            )
            .command("probeline bench-latency --transport verbs --direct off")
    } else {
        Finding::fine(CHECK, subject, seen)
    };
    finding.note(Note::PCI_ATOMICS)
}

fn outstanding(subject: &Subject, facts: &Facts) -> Finding {
    const CHECK: &str = "outstanding-reads";
    let (initiator, responder) = (facts.initiator_rd_atomic, facts.responder_rd_atomic);
    let least = initiator.min(responder);
    let seen = format!("{initiator} asked, {responder} answered at once on a queue pair");
    let finding = match least {
        0 => Finding::broken(CHECK, subject, seen)
            .consequence("READs and atomics that are posted never complete")
            .command(format!("ibv_devinfo -v; a newer driver or firmware, or {ANOTHER}")),
        1..USUAL_READS => Finding::look(CHECK, subject, seen)
            .consequence(format!(
                "of more than {least} READs and claims in flight to one owner the others wait: the \
                 rate to one owner is at most {least} a roundtrip"
            ))
            .command("probeline tune --transport verbs, for how many in flight gain anything"),
        _ => Finding::fine(CHECK, subject, seen),
    };
    finding.note(Note::OUTSTANDING_READS)
}
