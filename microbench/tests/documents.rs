//! The README, the documentation and the notes: links resolve, and commands parse as written.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::common::{Ended, Running, Scratch, run};
use serde_json::Value;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the pages, by their paths from the top.
fn pages() -> Vec<(PathBuf, String)> {
    let in_folder = |folder: &&str| {
        let entries = fs::read_dir(top().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let folders = ["docs", "docs/guide", "firmware-notes"];
    let paths = folders.iter().flat_map(in_folder).chain([top().join("README.md")]);
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the code between backticks and the lines of shell blocks.
fn code(text: &str) -> Vec<String> {
    let mut spans = Vec::new();
    for (at, block) in text.split("```").enumerate() {
        match block.strip_prefix("sh\n").filter(|_| at % 2 == 1) {
            Some(shell) => spans.extend(shell.replace("\\\n", " ").lines().map(str::to_owned)),
            None if at % 2 == 0 => {
                spans.extend(block.split('`').skip(1).step_by(2).map(str::to_owned));
            }
            None => {}
        }
    }
    spans
}

/// Returns the arguments of `probeline` in a span, up to a comment, a pipe or a redirection; `None` if
/// it runs something else, or leaves something to the reader.
fn arguments(span: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = span.split_whitespace().collect();
    let is_program = |word: &str| word == "probeline" || word.ends_with("release/probeline");
    let program = words.iter().position(|word| is_program(word));
    let start = match program.filter(|at| words[*at] != "-p") {
        Some(at) => at + 1,
        None if span.starts_with("cargo run --release -- ") => 4,
        None => return None,
    };
    let end = |word: &&&str| !matches!(**word, "#" | "|" | ">" | "&&" | "beside");
    let given = words.get(start..)?.iter().take_while(end);
    let given: Vec<&str> = given.map(|word| word.trim_end_matches([')', ';'])).collect();
    let is_open = |word: &&str| {
        let value = word.rsplit('=').next().unwrap_or_default();
        value == "..."
            || value.contains(['|', '$'])
            || value.starts_with(|c: char| c.is_uppercase())
                && !value.chars().any(char::is_lowercase)
    };
    let is_command = given.first().is_some_and(|word| word.starts_with(|c: char| c.is_lowercase()));
    (is_command && !given.iter().any(is_open)).then_some(given)
}

/// Returns the anchors of a page: of each heading, in lower case, its letters and digits, with hyphens for
/// spaces, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    let headings = outside
        .filter(|line| line.starts_with('#'))
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |heading: &str| heading.trim().to_lowercase().chars().filter(kept).collect();
    headings.map(anchor).map(|anchor: String| anchor.replace(' ', "-")).collect()
}

#[test]
fn links_resolve() {
    for (path, text) in &pages() {
        let behind = text.split("](").skip(1);
        for link in behind.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path } else { &path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            let has_anchor =
                || anchors(&fs::read_to_string(target).unwrap()).iter().any(|its| its == anchor);
            assert!(anchor.is_empty() || has_anchor(), "{}: {link}", path.display());
        }
        let is_source =
            |span: &String| span.contains('/') && span.ends_with(".rs") && !span.contains(' ');
        for source in code(text).into_iter().filter(is_source) {
            let is_there = source.starts_with("tests/") || top().join(&source).exists();
            assert!(is_there, "{}: {source}", path.display());
        }
    }
}

/// With `--help` at its end, the whole command is parsed, including the values of its options, and
/// nothing is executed. A recipe of just is in the justfile.
#[test]
fn commands_parse() {
    let (mut count, mut wrong) = (0, Vec::new());
    let justfile = fs::read_to_string(top().join("justfile")).unwrap();
    let is_recipe = |name: &str| {
        let rest = justfile.lines().filter_map(|line| line.strip_prefix(name));
        name.starts_with('-') || rest.into_iter().any(|rest| rest.starts_with([' ', ':']))
    };
    for (path, text) in pages() {
        for span in code(&text) {
            let recipe = span.strip_prefix("just ").and_then(|rest| rest.split(' ').next());
            if recipe.is_some_and(|name| !is_recipe(name)) {
                wrong.push(format!("{}: `{span}`: no such recipe", path.display()));
            }
            let Some(arguments) = arguments(&span) else { continue };
            let arguments: Vec<&str> = arguments.into_iter().chain(["--help"]).collect();
            let Ended { code, stdout, stderr, .. } = run(&arguments);
            let is_valid = code == Some(0) && stdout.contains("Usage: probeline ");
            if !is_valid {
                wrong.push(format!("{}: `{span}`: {stderr}", path.display()));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "{count}");
}

/// The table of `programs/bench-peers` is that of its recorded run, and the figures of the README too.
#[test]
fn figures_match_recorded_run() {
    let read = |path: &str| fs::read_to_string(top().join(path)).unwrap();
    let (table, readme) = (read("docs/comparisons.md"), read("README.md"));
    let run: Value = serde_json::from_str(&read("docs/data/peers.json")).unwrap();
    for row in run["rows"].as_array().unwrap() {
        let [work, program] = ["measured", "system"].map(|name| row[name].as_str().unwrap());
        let cells = format!("| {work} | {program} | ");
        let line = table
            .lines()
            .find(|line| line.starts_with(&cells))
            .unwrap_or_else(|| panic!("{cells}"));
        let figures: Vec<f64> = line[cells.len()..]
            .split(" | ")
            .take(2)
            .map(|cell| cell.trim_end_matches(" |").parse().unwrap())
            .collect();
        for (figure, name) in figures.iter().zip(["seconds", "times_probeline"]) {
            let recorded = row[name].as_f64().unwrap();
            assert!((figure / recorded - 1.0).abs() < 0.01, "{line}: {recorded}");
        }
        let shown = match (work, program) {
            (_, program) if program.starts_with("probeline, ") => continue,
            ("count 21-mers" | "unitigs, k = 21" | "histogram", "probeline") => figures[0],
            ("count 21-mers" | "unitigs, k = 21" | "histogram", _) => figures[1],
            _ => continue,
        };
        let shown =
            if program == "probeline" { format!("{shown} s") } else { format!("{shown:.1} times") };
        assert!(readme.contains(&shown), "README.md lacks {shown} for {work} by {program}");
    }
}

/// Text blocks that begin with a command are what `docs/record` has recorded of it, up to a last line `...`.
#[test]
fn outputs_match_recorded_runs() {
    let files = fs::read_dir(top().join("docs/data")).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let script = fs::read_to_string(top().join("docs/record")).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(script.contains(&format!("\n    \"{name}\": [")), "docs/record records no {name}");
        format!("\n{}", fs::read_to_string(path).unwrap())
    };
    let recorded: String = texts.map(read).collect();
    let records: Vec<&str> = recorded.split("\n$ ").collect();
    let mut count = 0;
    for (path, text) in pages() {
        for block in text.split("```text\n$ ").skip(1) {
            let shown = block.split("\n```").next().unwrap();
            let command = shown.lines().next();
            let record = records.iter().find(|record| record.lines().next() == command);
            let is_equal = record.is_some_and(|record| match shown.strip_suffix("...") {
                Some(first) => record.starts_with(first),
                None => record.trim_end() == shown.trim_end(),
            });
            assert!(is_equal, "{}: {command:?}: run docs/record", path.display());
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

/// The first shell block of the section prints the text block after it.
#[test]
fn guide_of_kmers_runs() {
    let page = fs::read_to_string(top().join("docs/commands.md")).unwrap();
    let (_, section) = page.split_once("## Count k-mers").unwrap();
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    let [shell, text] =
        [(0, "sh\n"), (1, "text\n")].map(|(at, kind)| blocks[at].strip_prefix(kind).unwrap());
    let folder = Scratch::new();
    let program = Path::new(env!("CARGO_BIN_EXE_probeline")).parent().unwrap();
    let path = format!("{}:{}", program.display(), env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-ec", shell]).current_dir(folder.path("")).env("PATH", path);
    let Ended { code, stdout, stderr, .. } = Running::start(&mut command).end();
    assert_eq!((code, stdout.as_str()), (Some(0), text), "{stderr}");
}

/// Words and phrases for which the field has plainer ones.
const AVOIDED: [&str; 14] = [
    "desk",
    "farewell",
    "crew",
    "mends",
    "glance",
    "look at this",
    "not seen",
    "that is there",
    "also if",
    "so many",
    "no whole number",
    "is taken for",
    "by the contract",
    "here, then there",
];

/// Returns the words that a text should not have. A comma counts as a word.
fn avoided(text: &str) -> impl Iterator<Item = &'static str> {
    fn spaced(text: &str) -> String {
        let text = text.to_lowercase().replace(',', " , ");
        let words = text.split(|c: char| !c.is_alphanumeric() && c != ',');
        format!(" {} ", words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
    }
    let text = spaced(text);
    AVOIDED.into_iter().filter(move |word| text.contains(&spaced(word)))
}

/// Returns the first line of each documenting comment of a source file.
fn comments(source: &str) -> impl Iterator<Item = &str> {
    fn comment(line: &str) -> Option<&str> {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!")).map(str::trim)
    }
    let before = [""].into_iter().chain(source.lines());
    let firsts = before.zip(source.lines()).filter(|(before, _)| comment(before).is_none());
    firsts.filter_map(|(_, line)| comment(line))
}

/// Returns the names of constants with another word than `MIN` or `MAX` for a bound.
fn misnamed_bounds(source: &str) -> impl Iterator<Item = &str> {
    let names = source.lines().filter_map(|line| line.split_once("const ")?.1.split(':').next());
    let is_bound = |word| matches!(word, "MOST" | "LEAST" | "LONGEST" | "SHORTEST" | "FEWEST");
    names.filter(move |name| name.split('_').next().is_some_and(is_bound))
}

/// Returns the safety comments that name no clause.
fn unclear_safety(source: &str) -> impl Iterator<Item = &str> {
    let said = source.lines().filter_map(|line| line.trim_start().strip_prefix("// SAFETY: "));
    said.filter(|said| said.contains("by the contract"))
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            sources(&path, all);
        } else if name.ends_with(".rs") {
            all.push(path);
        }
    }
}

/// Of pages and help texts, and of the first lines of comments; bounds and safety comments of sources too.
#[test]
fn uses_field_terms() {
    let mut texts = pages();
    texts.push(("justfile".into(), fs::read_to_string(top().join("justfile")).unwrap()));
    let help = run(&["--help"]).printed();
    let commands = help.split("Commands:\n").nth(1).unwrap().lines();
    let names = commands.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then_some(name)
    });
    for command in names {
        texts.push((command.into(), run(&[command, "--help"]).printed()));
    }
    let mut files = Vec::new();
    sources(&top(), &mut files);
    for path in files {
        let source = fs::read_to_string(&path).unwrap();
        let starts = comments(&source).filter(|line| line.starts_with("What "));
        let wrong = starts.chain(misnamed_bounds(&source)).chain(unclear_safety(&source));
        assert_eq!(wrong.collect::<Vec<_>>(), [""; 0], "{}", path.display());
        texts.extend(comments(&source).map(|line| (path.clone(), line.to_owned())));
    }
    assert!(texts.len() > 5_000, "{}", texts.len());
    for (path, text) in texts {
        let found: Vec<_> = avoided(&text).collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}
