//! Compares the committed bindings with the C compiler and the installed `ucp/api/ucp.h`:
//! constants, sizes, alignments and offsets.
//!
//! Needs the header (Debian: libucx-dev) and a C compiler, which `ci/install` installs.

use core::fmt::Write;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const TEXT: &str = include_str!("../src/bindings.rs");

/// Whether bindgen invented the name, because C has none.
fn unnamed(name: &str) -> bool {
    name.contains("__bindgen_") || name.starts_with("_bindgen_")
}

/// The names and values of constants.
fn values() -> impl Iterator<Item = (&'static str, i64)> {
    TEXT.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
        let value = rest.split_once(" = ")?.1.strip_suffix(';')?;
        Some((name, value.parse().expect("a constant is a number")))
    })
}

/// The names and numbers of assertions `["WHAT NAME"][.. - NUMBERusize];`, on one line or more.
fn assertions(what: &'static str) -> impl Iterator<Item = (&'static str, i64)> {
    TEXT.split("[\"").filter_map(move |text| {
        let (name, rest) = text.strip_prefix(what)?.split_once('"')?;
        let number = rest.split_once(" - ")?.1.split_once("usize]")?.0;
        Some((name, number.parse().expect("an assertion ends in a number")))
    })
}

/// The name of a type in C: a type without a typedef of its name is a tag.
fn in_c(name: &str) -> String {
    if name.ends_with("_t") { name.to_owned() } else { format!("struct {name}") }
}

/// The expressions of C that are compared, with their values in the bindings.
fn expected() -> BTreeMap<String, i64> {
    let named = |(name, _): &(&str, i64)| !unnamed(name);
    let constants = values().map(|(name, value)| (name.to_owned(), value));
    let sizes = assertions("Size of ").filter(named);
    let sizes = sizes.map(|(name, bytes)| (format!("sizeof({})", in_c(name)), bytes));
    let alignments = assertions("Alignment of ").filter(named);
    let alignments = alignments.map(|(name, bytes)| (format!("_Alignof({})", in_c(name)), bytes));
    let offsets = assertions("Offset of field: ").filter(named).map(|(name, bytes)| {
        let (name, field) = name.split_once("::").unwrap();
        // bindgen appends an underscore to names that are keywords of Rust.
        (format!("offsetof({}, {})", in_c(name), field.trim_end_matches('_')), bytes)
    });
    constants.chain(sizes).chain(alignments).chain(offsets).collect()
}

/// The values of the expressions by the C compiler.
fn compiled<'a>(expressions: impl Iterator<Item = &'a String>) -> BTreeMap<String, i64> {
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <ucp/api/ucp.h>\nint main(void) {\n",
    );
    for expression in expressions {
        writeln!(program, "printf(\"%s\\t%lld\\n\", \"{expression}\", (long long)({expression}));")
            .unwrap();
    }
    program.push_str("return 0;\n}\n");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (directory.join("header.c"), directory.join("header"));
    fs::write(&source, program).unwrap();
    let compiler = Command::new("cc").arg(&source).arg("-o").arg(&binary).status().unwrap();
    assert!(compiler.success(), "is libucx-dev installed?");
    let output = Command::new(&binary).output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(expression, value)| (expression.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn the_compiler_and_the_header_agree_with_the_bindings() {
    let expected = expected();
    let found = compiled(expected.keys());
    println!("{} expressions compared", found.len());
    assert!(found.len() > 200, "{}", found.len());
    assert_eq!(found, expected);
}
