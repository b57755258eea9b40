//! Tests of `doctor` on the machine that runs them: its lines, its JSON and its exit status.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Ended, Scratch, run};
use serde_json::Value;

const VERDICTS: [&str; 4] = ["fine", "warning", "broken", "unknown"];

fn notes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware-notes")
}

/// Returns the verdict and the rest of each finding, which goes on in indented lines.
fn findings(printed: &str) -> Vec<(&'static str, String)> {
    let (_, lines) = printed.split_once("\n\n").unwrap();
    let joined = lines.replace("\n    ", " ");
    let verdict = |line: &str| {
        VERDICTS.into_iter().find_map(|verdict| {
            let rest = line.strip_prefix(verdict)?;
            Some((verdict, rest.trim_start().to_owned()))
        })
    };
    joined.lines().map(|line| verdict(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// The answer comes first, then a line for each finding, the worst first. The JSON has the same.
#[test]
fn prints_findings_and_json() {
    let scratch = Scratch::new();
    let path = scratch.path("doctor.json");
    let Ended { code, stdout: printed, .. } = run(&["doctor", "--json", &path]);
    let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let lines = findings(&printed);
    let broken = lines.iter().any(|(verdict, _)| *verdict == "broken");
    assert_eq!(code, Some(if broken { 3 } else { 0 }), "{printed}");
    let count = |verdict: &str| lines.iter().filter(|(its, _)| *its == verdict).count();
    let counts = VERDICTS.map(|verdict| format!("{} {verdict}", count(verdict))).join(", ");
    assert_eq!(printed.lines().next(), Some(&*counts));
    let worst_first = ["broken", "warning", "unknown", "fine"];
    let at = |verdict| worst_first.iter().position(|known| *known == verdict).unwrap();
    assert!(lines.is_sorted_by_key(|(verdict, _)| at(*verdict)), "{printed}");

    assert_eq!((&json["schema"], &json["command"]), (&Value::from(1), &Value::from("doctor")));
    assert_eq!((&json["rows"], &json["summary"]), (&serde_json::json!([]), &[counts].into()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(json["machine"]["host"], Value::from(host.trim()));
    let all = json["doctor"].as_array().unwrap();
    assert_eq!(all.len(), lines.len());
    for (finding, (verdict, line)) in all.iter().zip(lines) {
        let text = |key: &str| finding[key].as_str();
        assert_eq!(text("verdict"), Some(verdict));
        let parts = ["subject", "check", "seen", "consequence", "command"].map(text);
        for part in parts.into_iter().flatten() {
            assert!(line.contains(part), "{line} lacks {part}");
        }
        let note = text("note").map(|note| note.strip_prefix("firmware-notes/").unwrap());
        assert!(note.is_none_or(|note| notes().join(note).is_file()), "{line}");
        let printed = note.map(|note| format!("(firmware-notes/{note})"));
        assert!(printed.is_none_or(|printed| line.ends_with(&printed)), "{line}");
    }
}

#[test]
fn reports_missing_device() {
    let ended = run(&["doctor", "--device", "nosuch0"]);
    assert_eq!(ended.code, Some(1));
    let said = ended.failed_in_one_line();
    assert!(said.contains("no RDMA device is called nosuch0: "), "{said}");
    assert!(said.contains("this machine has none") || said.contains("choose among"), "{said}");
}

#[test]
fn quiet_output_omits_fine_findings() {
    let quiet = run(&["doctor", "--quiet"]).stdout;
    let (counts, findings) = quiet.split_once('\n').unwrap();
    let heads = || findings.lines().filter(|line| !line.starts_with("    "));
    let [fine, all @ ..] = VERDICTS.map(|verdict| {
        let is_its = |count: &&str| count.ends_with(verdict);
        let count = counts.split(", ").find(is_its).unwrap().split(' ').next().unwrap();
        (count.parse::<usize>().unwrap(), heads().filter(|line| line.starts_with(verdict)).count())
    });
    assert!(fine.0 > 0 && fine.1 == 0, "{quiet}");
    let [warning, broken, unknown] = all;
    assert_eq!((warning.0, broken.0, unknown.1), (warning.1, broken.1, 0), "{quiet}");
    assert_eq!(heads().count(), warning.1 + broken.1, "{quiet}");
}
