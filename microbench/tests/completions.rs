//! Runs the scripts of `completions` in their shells, and completes options, their values and files.

use std::process::{Command, Stdio};

use crate::common::{Scratch, run};

/// Writes the script of a shell, and runs commands in the shell without any configuration. Returns the
/// output; checks that standard error is empty.
#[track_caller]
fn printed(scratch: &Scratch, shell: &str, plain: &[&str], commands: &str) -> String {
    let script = run(&["completions", shell]).printed();
    let file = scratch.file(&format!("_probeline.{shell}"), &script);
    let output = Command::new(shell)
        .args(plain)
        .args(["-c", &commands.replace("SCRIPT", &file)])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{shell} does not run ({error}): ci/install installs it"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{shell}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shells_complete_options_values_files() {
    let scratch = Scratch::new();
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
        let bash = format!(
            "source 'SCRIPT'; compopt() {{ :; }}; COMP_WORDS=(probeline {line} {last}); COMP_CWORD={count}
             _probeline probeline {last} {previous}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let offers = printed(&scratch, "bash", &["--norc", "--noprofile"], &bash);
        assert_eq!(offers.trim(), expected, "{words:?}");
        let fish = format!("source 'SCRIPT'; complete -C 'probeline {line} {last}'");
        let offers = printed(&scratch, "fish", &["--no-config"], &fish);
        assert!(offers.lines().any(|offer| offer.split('\t').next() == Some(expected)), "{offers}");
    }
}

/// zsh completes only on a terminal; this test checks that the script is read and registered.
#[test]
fn zsh_loads_script() {
    let scratch = Scratch::new();
    scratch.file("_probeline", &run(&["completions", "zsh"]).printed());
    let commands = format!(
        "fpath=('{}' $fpath); autoload -Uz compinit; compinit -D -u
         autoload +X _probeline && print -r -- $_comps[probeline]",
        scratch.path("")
    );
    assert_eq!(printed(&scratch, "zsh", &["-f"], &commands), "_probeline\n");
}
