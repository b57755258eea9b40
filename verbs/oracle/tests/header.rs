//! Compares the committed bindings with the C compiler and the installed `infiniband/verbs.h`:
//! constants, sizes, alignments and offsets, including those that no published crate has.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use verbs_oracle::{LONGER, bindings};

/// Whether bindgen invented this name because the type or field has no name in C.
fn unnamed(name: &str) -> bool {
    name.contains("__bindgen_") || name.starts_with("__Bindgen")
}

/// Returns the C expressions to evaluate, with their values in the bindings.
fn questions() -> BTreeMap<String, i64> {
    let keywords: BTreeMap<&str, &str> = bindings::types().collect();
    let in_c = |name: &str| format!("{} {name}", keywords[name]);
    let number = |bytes: usize| i64::try_from(bytes).unwrap();
    let mut questions: BTreeMap<String, i64> =
        bindings::values().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, bytes) in bindings::sizes().filter(|(name, _)| !unnamed(name)) {
        questions.insert(format!("sizeof({})", in_c(name)), number(bytes));
    }
    for (name, bytes) in bindings::alignments().filter(|(name, _)| !unnamed(name)) {
        questions.insert(format!("_Alignof({})", in_c(name)), number(bytes));
    }
    for (name, bytes) in bindings::offsets().filter(|(name, _)| !unnamed(name)) {
        let (name, field) = name.split_once("::").unwrap();
        // bindgen appends an underscore to names that are keywords of Rust.
        let field = field.trim_end_matches('_');
        questions.insert(format!("offsetof({}, {field})", in_c(name)), number(bytes));
    }
    questions
        .insert("IBV_QPF_GRH_REQUIRED".into(), probeline_verbs_sys::IBV_QPF_GRH_REQUIRED.into());
    questions
}

/// Evaluates the expressions with the C compiler.
fn answers<'a>(questions: impl Iterator<Item = &'a String>) -> BTreeMap<String, i64> {
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {\n",
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
    assert!(compiled.success(), "is libibverbs-dev installed?");
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
    assert_eq!(answers.len(), questions.len());
    assert!(answers.len() > 700, "{}", answers.len());
    let longer = |question: &str, ours: i64, theirs: i64| {
        theirs > ours && LONGER.iter().any(|name| question == format!("sizeof(struct {name})"))
    };
    for (question, ours) in questions {
        let theirs = answers[&question];
        assert!(
            ours == theirs || longer(&question, ours, theirs),
            "{question}: {ours} here, {theirs} in C"
        );
    }
}
