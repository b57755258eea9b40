//! Installs the library, and compiles and runs the C programs of this folder, the example and the programs of
//! the guide, with warnings as errors: with the shared and the static library, as C and as C++.

mod common;

use common::{Installed, Language, root, run};

#[test]
fn programs_in_c() {
    let installed = Installed::new("c");
    for (language, is_static) in [(Language::C, false), (Language::C, true), (Language::Cpp, false)]
    {
        let compiler = if language == Language::C { "cc" } else { "c++" };
        let misuse = installed.compile(compiler, language, "tests/misuse.c", is_static);
        assert_eq!(run(&mut installed.command(&misuse)), "all misuse was reported\n");
    }
    let ranks = installed.compile("cc", Language::C, "tests/ranks.c", false);
    let said = run(&mut installed.command(&ranks));
    assert_eq!(said, "every disagreement was reported\n");
    let said = run(installed.command(&ranks).arg("close"));
    assert_eq!(said, "rank 1 was killed\n");
    for pair in 0..8 {
        let said = run(installed.command(&ranks).arg(pair.to_string()));
        assert_eq!(said.matches("was told").count(), 2, "{pair}: {said}");
    }
    let example = installed.compile("cc", Language::C, "examples/probeline.c", false);
    for (transport, ranks) in [("shm", "1"), ("shm", "3"), ("ucx", "2")] {
        let mut command = installed.command(&example);
        let said = run(command.arg(ranks).env("PROBELINE_TRANSPORT", transport));
        let last = format!(": all is well with {ranks} ranks\n");
        assert!(said.ends_with(&last), "{said}");
        // Spawned ranks print as well: each rank its hits.
        assert_eq!(said.matches(" hits, ").count().to_string(), ranks, "{said}");
    }
}

/// Each group with ranks of which the library starts all but one, also as C++, for calls of other threads.
#[test]
fn containers_in_c() {
    let installed = Installed::new("containers");
    let c = installed.compile("cc", Language::C, "tests/containers.c", false);
    let cpp = installed.compile("c++", Language::Cpp, "tests/containers.c", false);
    for group in ["arrays", "counters", "queues", "aggregators"] {
        let runs = [(&c, "shm", "1"), (&cpp, "shm", "2"), (&c, "shm", "3"), (&c, "ucx", "2")];
        for (program, transport, ranks) in runs {
            let mut command = installed.command(program);
            let said = run(command.args([group, ranks]).env("PROBELINE_TRANSPORT", transport));
            assert_eq!(said.matches(": all is well\n").count().to_string(), ranks, "{said}");
        }
    }
}

/// The programs of the guide, as they stand there.
#[test]
fn guide_programs() {
    let installed = Installed::new("guide");
    let page = std::fs::read_to_string(root().join("../docs/guide/c.md")).unwrap();
    let blocks = page.split("```c\n").skip(1);
    let mut programs: Vec<_> = blocks.map(|block| block.split_once("```\n").unwrap().0).collect();
    // The second block is the header that those after it include.
    std::fs::write(installed.prefix().join("start.h"), programs.remove(1)).unwrap();
    assert_eq!(programs.len(), 5);
    for (nth, program) in programs.iter().enumerate() {
        let source = installed.prefix().join(format!("guide{nth}.c"));
        std::fs::write(&source, program).unwrap();
        let program = installed.compile("cc", Language::C, source.to_str().unwrap(), false);
        assert_eq!(run(&mut installed.command(&program)), "");
    }
}

/// The shared library has no symbols that programs could confuse with their own.
#[test]
fn exports_only_prefixed_symbols() {
    let installed = Installed::new("symbols");
    let library = installed.prefix().join("lib/libprobeline.so");
    let symbols = run(std::process::Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert!(names.contains(&"probeline_job_open"), "{names:?}");
    let odd = |name: &&&str| !name.starts_with("probeline_");
    assert_eq!(names.iter().find(odd), None);
}
