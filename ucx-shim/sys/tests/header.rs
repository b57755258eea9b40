//! Compares the committed bindings with the C compiler and the installed `ucp/api/ucp.h`.

use std::path::Path;

use probeline_exchange::testing::headers::{compiled, expressions};

/// Returns the name of a type in C: a type without a typedef of its name is a tag.
fn in_c(name: &str) -> String {
    if name.ends_with("_t") { name.to_owned() } else { format!("struct {name}") }
}

#[test]
fn matches_header() {
    let expected = expressions(include_str!("../src/bindings.rs"), in_c);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let found = compiled(expected.keys(), ["ucp/api/ucp.h", "libucx-dev"], folder);
    println!("{} expressions compared", found.len());
    assert!(found.len() > 200, "{}", found.len());
    assert_eq!(found, expected);
}
