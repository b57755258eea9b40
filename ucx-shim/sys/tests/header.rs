//! The committed bindings against the C compiler and the installed `ucp/api/ucp.h`: constants,
//! sizes, alignments and offsets.
//!
//! Wants the header (Debian: libucx-dev) and a C compiler, which `ci/install` brings.

use core::fmt::Write;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const TEXT: &str = include_str!("../src/bindings.rs");

/// Named by bindgen, because C gives them no name.
fn unnamed(name: &str) -> bool {
    name.contains("__bindgen_") || name.starts_with("_bindgen_")
}

/// Constants: name and value.
fn values() -> impl Iterator<Item = (&'static str, i64)> {
    TEXT.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
        let value = rest.split_once(" = ")?.1.strip_suffix(';')?;
        Some((name, value.parse().expect("a constant is a number")))
    })
}

/// An assertion is `["WHAT NAME"][.. - NUMBERusize];`, on one line or more.
fn assertions(what: &'static str) -> impl Iterator<Item = (&'static str, i64)> {
    TEXT.split("[\"").filter_map(move |text| {
        let (name, rest) = text.strip_prefix(what)?.split_once('"')?;
        let number = rest.split_once(" - ")?.1.split_once("usize]")?.0;
        Some((name, number.parse().expect("an assertion ends in a number")))
    })
}

/// A type as C names it: those that have no typedef of the same name are tags.
fn in_c(name: &str) -> String {
    if name.ends_with("_t") { name.to_owned() } else { format!("struct {name}") }
}

/// Every expression of C that is asked for, with its value in the bindings.
fn questions() -> BTreeMap<String, i64> {
    let named = |(name, _): &(&str, i64)| !unnamed(name);
    let constants = values().map(|(name, value)| (name.to_owned(), value));
    let sizes = assertions("Size of ").filter(named);
    let sizes = sizes.map(|(name, bytes)| (format!("sizeof({})", in_c(name)), bytes));
    let alignments = assertions("Alignment of ").filter(named);
    let alignments = alignments.map(|(name, bytes)| (format!("_Alignof({})", in_c(name)), bytes));
    let offsets = assertions("Offset of field: ").filter(named).map(|(name, bytes)| {
        let (name, field) = name.split_once("::").unwrap();
        // Where the name is a keyword of Rust, bindgen appends an underscore.
        (format!("offsetof({}, {})", in_c(name), field.trim_end_matches('_')), bytes)
    });
    constants.chain(sizes).chain(alignments).chain(offsets).collect()
}

/// What the C compiler says to each question.
fn answers<'a>(questions: impl Iterator<Item = &'a String>) -> BTreeMap<String, i64> {
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <ucp/api/ucp.h>\nint main(void) {\n",
    );
    for question in questions {
        writeln!(program, "printf(\"%s\\t%lld\\n\", \"{question}\", (long long)({question}));")
            .unwrap();
    }
    program.push_str("return 0;\n}\n");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (directory.join("header.c"), directory.join("header"));
    fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).status().unwrap();
    assert!(compiled.success(), "is libucx-dev installed?");
    let output = Command::new(&binary).output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(question, value)| (question.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn the_compiler_and_the_header_agree_with_the_bindings() {
    let questions = questions();
    let answers = answers(questions.keys());
    println!("{} expressions compared", answers.len());
    assert!(answers.len() > 200, "{}", answers.len());
    assert_eq!(answers, questions);
}
