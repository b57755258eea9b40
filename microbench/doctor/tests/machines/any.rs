//! For any missing, truncated or random files, each check returns a verdict or reports that there is
//! none, and nothing panics.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use probeline_doctor::{Finding, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::ward::Ward;

/// The change to a file.
#[derive(Clone, Debug)]
enum Fate {
    Kept,
    Gone,
    Holds(Vec<u8>),
    Folder,
    Pipe,
}

fn fate() -> impl Strategy<Value = Fate> {
    let text = "[-0-9a-z:.\\[\\]/ \n\t]{0,40}".prop_map(|text| Fate::Holds(text.into_bytes()));
    let bytes = vec(any::<u8>(), 0..300).prop_map(Fate::Holds);
    let number = any::<i128>().prop_map(|number| Fate::Holds(format!("{number}\n").into_bytes()));
    prop_oneof![
        8 => Just(Fate::Kept),
        2 => Just(Fate::Gone),
        3 => text,
        2 => bytes,
        2 => number,
        1 => Just(Fate::Folder),
        1 => Just(Fate::Pipe),
    ]
}

/// Collects the files below `root` without following links.
fn files(root: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        match path.symlink_metadata().unwrap().is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

fn befall(path: &Path, fate: &Fate) {
    if matches!(fate, Fate::Kept) {
        return;
    }
    fs::remove_file(path).unwrap();
    match fate {
        Fate::Holds(bytes) => fs::write(path, bytes).unwrap(),
        Fate::Folder => fs::create_dir(path).unwrap(),
        // Others read only the topology there, and would open a FIFO as a device's file.
        Fate::Pipe if path.to_string_lossy().contains("/sys/devices/") => {}
        Fate::Pipe => {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }
        Fate::Kept | Fate::Gone => {}
    }
}

/// Checks that every check of the healthy machine has a finding, in one line.
fn check(findings: &[Finding]) -> Result<(), TestCaseError> {
    static HEALTHY: LazyLock<Vec<Finding>> = LazyLock::new(|| Ward::healthy().findings());
    for Finding { check, .. } in HEALTHY.iter() {
        let count = findings.iter().filter(|finding| finding.check == *check).count();
        // The device is software if the driver's link is gone.
        let has_slot = !["pcie-link", "read-request", "iommu"].contains(check);
        prop_assert!(count == 1 || count == 0 && !has_slot, "{}: {}", check, count);
    }
    for finding in findings {
        let line = finding.line();
        prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        prop_assert!(!finding.seen.is_empty(), "{:?}", finding);
        let wrong = matches!(finding.verdict, Verdict::Broken | Verdict::Warning);
        prop_assert!(!wrong || finding.consequence.is_some(), "{:?}", finding);
        prop_assert!(!wrong || finding.command.is_some(), "{:?}", finding);
    }
    Ok(())
}

proptest! {
    #[test]
    fn survives_missing_and_random_files(fates in vec(fate(), 90)) {
        let ward = Ward::healthy();
        let survey = ward.survey();
        let mut paths = Vec::new();
        files(ward.tree.root(), &mut paths);
        for (path, fate) in paths.iter().zip(fates.iter().cycle()) {
            befall(path, fate);
        }
        check(&ward.doctor().examine(&survey))?;
    }
}
