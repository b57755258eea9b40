//! The notes in `firmware-notes`: all are in the index, and every command that they name exists in
//! this repository. `microbench/tests/documents.rs` checks recipes, options and links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The sections of a note.
const PARTS: [&str; 5] = [
    "\n**Claim.**",
    "\n**What it means here.**",
    "\n**How to read and set it.**",
    "\n**How to measure.**",
    "\n**Source.**",
];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = top().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the notes by name, and their content.
fn notes() -> Vec<(String, String)> {
    let entries = fs::read_dir(top().join(probeline_doctor::FOLDER)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "README.md").collect();
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    let text = |name: &String| read(&format!("{}/{name}", probeline_doctor::FOLDER));
    names.iter().map(|name| (name.clone(), text(name))).collect()
}

fn index() -> String {
    read(&format!("{}/README.md", probeline_doctor::FOLDER))
}

/// Returns the code between backticks, each in one line.
fn code(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The names of notes in the checks are strings.
#[test]
fn notes_of_findings_exist() {
    let known: BTreeSet<String> = notes().into_iter().map(|(name, _)| name).collect();
    let mut named = BTreeSet::new();
    for entry in fs::read_dir(top().join("microbench/doctor/src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let words = text.split('"').filter(|word| word.ends_with(".md") && !word.contains('/'));
        named.extend(words.map(str::to_owned));
    }
    assert!(named.len() > 20, "{named:?}");
    assert!(named.is_subset(&known), "{:?}", named.difference(&known));
}

#[test]
fn index_lists_every_note() {
    let index = index();
    let (symptoms, by_note) = index.split_once("\n## By note\n").unwrap();
    let (_, symptoms) = symptoms.split_once("\n## By symptom\n").unwrap();
    let rows: Vec<&str> = by_note.lines().filter(|line| line.starts_with("| [")).collect();
    let expected: Vec<String> = notes()
        .iter()
        .map(|(name, text)| {
            let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
            // In lower case, as in the middle of a sentence.
            let claim = title[..1].to_lowercase() + &title[1..];
            format!("| [{name}]({name}) | {claim} |")
        })
        .collect();
    assert_eq!(rows, expected);
    for (name, _) in notes() {
        assert!(symptoms.contains(&format!("[{name}]({name})")), "no symptom leads to {name}");
    }
}

#[test]
fn notes_have_all_parts() {
    for (name, text) in notes() {
        let place = |part| text.find(part).unwrap_or_else(|| panic!("{name} lacks {part}"));
        let places = PARTS.map(place);
        assert!(places.is_sorted(), "{name}: {places:?}");
        for part in PARTS {
            assert!(text.matches(part).count() <= 1, "{name} has {part} twice");
        }
        let (_, source) = text.split_once(PARTS[4]).unwrap();
        assert!(source.contains("https://"), "{name} names no address of its source");
        let (measure, _) = text.split_once(PARTS[3]).unwrap().1.split_once(PARTS[4]).unwrap();
        let ours = ["just ", "probeline ", "cargo "];
        let runs = code(measure).iter().any(|span| ours.iter().any(|word| span.contains(word)));
        assert!(runs, "{name} is not measured by a command of this repository");
    }
}

/// Returns every case of the virtual machines by its name in the source.
fn cases() -> String {
    let folder = top().join("testbed/src/cases");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let names = paths.map(|path| fs::read_to_string(path).unwrap());
    // The strings in the source.
    names.map(|text| text.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("\n")).collect()
}

/// Returns the folder of a package of this workspace.
fn package(name: &str) -> PathBuf {
    let manifest = read("Cargo.toml");
    let (_, members) = manifest.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let members = members.split('"').skip(1).step_by(2);
    let line = format!("name = \"{name}\"");
    let is_it =
        |member: &&str| read(&format!("{member}/Cargo.toml")).lines().any(|its| its == line);
    top().join(members.into_iter().find(is_it).unwrap_or_else(|| panic!("no package {name}")))
}

/// Returns the word after `option`.
fn value<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == option)?;
    words.get(at + 1).copied()
}

#[test]
fn commands_of_notes_exist() {
    let (cases, layers) = (cases(), read("testbed/src/case.rs"));
    let mut seen = 0;
    for (name, text) in notes() {
        for span in code(&text) {
            let words: Vec<&str> = span.split(' ').collect();
            match words[..] {
                ["just", ..] => {
                    if let Some(only) = value(&words, "--only") {
                        assert!(cases.contains(only), "{name}: no case has {only} in its name");
                    }
                    if let Some(layer) = value(&words, "--layer") {
                        // The variant of `Layer`, whose name is in lower case on the command line.
                        let variant = format!("    {}{},", layer[..1].to_uppercase(), &layer[1..]);
                        assert!(layers.contains(&variant), "{name}: no layer {layer}");
                    }
                }
                ["cargo", command @ ("run" | "test"), ..] => {
                    let folder = package(value(&words, "--package").unwrap());
                    if let Some(test) = value(&words, "--test") {
                        let tests = folder.join("tests");
                        let file = tests.join(format!("{test}.rs")).exists();
                        assert!(file || tests.join(test).exists(), "{name}: {span}");
                    }
                    if let Some(given) = value(&words, "--").filter(|_| command == "run") {
                        let main = match value(&words, "--example") {
                            Some(example) => format!("examples/{example}/main.rs"),
                            None => "src/main.rs".to_owned(),
                        };
                        let main = fs::read_to_string(folder.join(main)).unwrap();
                        let known = main.to_lowercase().contains(given);
                        assert!(known, "{name}: {span}: no command {given}");
                    }
                }
                _ => continue,
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
