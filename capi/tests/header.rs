//! The header is what cbindgen writes for the sources. With the environment variable
//! `PROBELINE_WRITE_HEADER` the test writes it.

use std::env;
use std::fs;
use std::path::Path;

/// The sources with public items, in the order of the header.
const SOURCES: [&str; 10] = [
    "status.rs",
    "job_options.rs",
    "job.rs",
    "table.rs",
    "map.rs",
    "map_file.rs",
    "array.rs",
    "counters.rs",
    "queue.rs",
    "aggregator.rs",
];

#[test]
fn header_matches_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES
        .iter()
        .fold(builder, |builder, source| builder.with_src(root.join("src").join(source)));
    let mut written = Vec::new();
    builder.generate().unwrap().write(&mut written);
    let written = for_c(&String::from_utf8(written).unwrap());
    let header = root.join("include/probeline.h");
    if env::var_os("PROBELINE_WRITE_HEADER").is_some() {
        fs::write(&header, &written).unwrap();
    }
    let there = fs::read_to_string(&header).unwrap_or_default();
    assert!(
        there == written,
        "run PROBELINE_WRITE_HEADER=1 cargo test -p probeline-capi --test header"
    );
}

/// Removes what rustdoc wants and C programmers do not: the sections "# Safety".
fn for_c(header: &str) -> String {
    let mut lines = Vec::new();
    let mut in_safety = false;
    for line in header.lines() {
        let comment = line.trim_start().starts_with("//");
        if line.trim_start() == "// # Safety" {
            in_safety = true;
            // The empty line of the comment before.
            lines.pop_if(|last: &mut &str| last.trim() == "//");
        }
        in_safety &= comment;
        if !in_safety {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}
