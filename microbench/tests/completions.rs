//! Runs the script of `completions bash`, and completes options, their values and files.

use std::process::Command;

use crate::common::{Scratch, run};

#[test]
fn bash_completes_options_values_files() {
    let scratch = Scratch::new();
    let script = scratch.file("script", &run(&["completions", "bash"]).printed());
    let file = scratch.file("a-tuning.toml", "");
    let begun = scratch.path("a-tun");
    for (words, expected) in [
        (["bench-latency", "--trans"], "--transport"),
        (["bench-latency --transport", "si"], "sim"),
        (["explore --tuning", &begun], &file),
    ] {
        let [line, last] = words;
        let previous = line.split(' ').next_back().unwrap();
        let count = 1 + line.split(' ').count();
        // compopt works only during a completion, so a function replaces it.
        let commands = format!(
            "source '{script}'; compopt() {{ :; }}; COMP_WORDS=(probeline {line} {last}); COMP_CWORD={count}
             _probeline probeline {last} {previous}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["--norc", "-c", &commands]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{words:?}");
    }
}

#[test]
fn other_shells_have_scripts() {
    for (shell, start) in [("zsh", "#compdef probeline"), ("fish", "# Print an optspec")] {
        let script = run(&["completions", shell]).printed();
        assert!(script.starts_with(start) && script.contains("bench-latency"), "{script}");
    }
}
