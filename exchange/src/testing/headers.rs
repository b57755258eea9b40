//! Compares committed bindings, as bindgen writes them, with the C compiler and an installed header:
//! constants, sizes, alignments and offsets.

use core::fmt::Write;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the structs and unions of bindings: the name, and its keyword in C.
pub fn types(bindings: &str) -> impl Iterator<Item = (&str, &str)> {
    bindings.lines().filter_map(|line| {
        let (keyword, name) = line.strip_prefix("pub ")?.strip_suffix(" {")?.split_once(' ')?;
        matches!(keyword, "struct" | "union").then_some((name, keyword))
    })
}

/// Returns the expressions of C that bindings state, with their values. `in_c` names a type in C.
///
/// # Panics
/// If a constant or an assertion is not a number.
pub fn expressions(bindings: &str, in_c: impl Fn(&str) -> String) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for line in bindings.lines() {
        let constant = line.strip_prefix("pub const ").and_then(|line| line.split_once(": "));
        let value = constant.and_then(|(_, rest)| rest.split_once(" = ")?.1.strip_suffix(';'));
        if let Some(((name, _), value)) = constant.zip(value) {
            all.insert(name.to_owned(), value.parse().expect("a constant is a number"));
        }
    }
    // Assertions `["WHAT NAME"][.. - NUMBERusize];`, on one line or more.
    for text in bindings.split("[\"") {
        let Some((what, rest)) = text.split_once('"') else { continue };
        let number = rest.split_once(" - ").and_then(|(_, rest)| rest.split_once("usize]"));
        let Some((number, _)) = number else { continue };
        // bindgen invents names for types and fields that have none in C.
        if what.contains("__bindgen_") || what.contains("_Bindgen") || what.contains(" _bindgen_") {
            continue;
        }
        let expression = if let Some(name) = what.strip_prefix("Size of ") {
            format!("sizeof({})", in_c(name))
        } else if let Some(name) = what.strip_prefix("Alignment of ") {
            format!("_Alignof({})", in_c(name))
        } else if let Some(field) = what.strip_prefix("Offset of field: ") {
            let (name, field) = field.split_once("::").expect("a type and its field");
            // bindgen appends an underscore to names that are keywords of Rust.
            format!("offsetof({}, {})", in_c(name), field.trim_end_matches('_'))
        } else {
            continue;
        };
        all.insert(expression, number.parse().expect("an assertion ends in a number"));
    }
    all
}

/// Returns the values of expressions by the C compiler and the header `include` of a Debian package.
/// Writes into `folder`.
///
/// # Panics
/// If there is no compiler or no such header.
pub fn compiled<'a>(
    expressions: impl Iterator<Item = &'a String>,
    [include, package]: [&str; 2],
    folder: &Path,
) -> BTreeMap<String, i64> {
    let mut program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <{include}>\nint main(void) {{\n"
    );
    for expression in expressions {
        writeln!(program, "printf(\"%s\\t%lld\\n\", \"{expression}\", (long long)({expression}));")
            .unwrap();
    }
    program.push_str("return 0;\n}\n");
    let (source, binary) = (folder.join("header.c"), folder.join("header"));
    fs::write(&source, program).unwrap();
    let compiler = Command::new("cc").arg(&source).arg("-o").arg(&binary).status().unwrap();
    assert!(compiler.success(), "is {package} installed?");
    let output = Command::new(&binary).output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    let values = lines.lines().map(|line| line.split_once('\t').unwrap());
    values.map(|(expression, value)| (expression.to_owned(), value.parse().unwrap())).collect()
}
