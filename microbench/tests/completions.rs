//! Runs the scripts of `completions` in their shells.

use std::process::{Command, Stdio};

use crate::common::{Scratch, run};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Options that start a shell without the configuration of the user or the system.
const PLAIN: [&[&str]; 3] = [&["--norc", "--noprofile"], &["-f"], &["--no-config"]];

/// Returns the files with the script of each shell, and a file whose name can be completed.
fn scripts() -> (Scratch, [String; 3]) {
    let scratch = Scratch::new();
    let files = SHELLS.map(|shell| {
        let script = run(&["completions", shell]).printed();
        assert!(script.len() > 10_000, "{shell}: {script}");
        scratch.file(&format!("_probeline.{shell}"), &script)
    });
    (scratch, files)
}

/// Returns the output of a shell that executes these commands; checks that its standard error is
/// empty.
#[track_caller]
fn printed(shell: &str, options: &[&str], commands: &str) -> String {
    let at = SHELLS.iter().position(|name| *name == shell).unwrap();
    let output = Command::new(shell)
        .args(PLAIN[at])
        .args(options)
        .args(["-c", commands])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{shell} does not run ({error}): ci/install installs it"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{shell}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the completions of bash for the last of these words.
#[track_caller]
fn bash_offers(script: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let [.., previous, current] = &quoted[..] else { panic!("{words:?}") };
    let commands = format!(
        // compopt works only during a completion, so a function replaces it.
        "source '{script}'; compopt() {{ :; }}
         COMP_WORDS=({}); COMP_CWORD={}
         _probeline probeline {current} {previous}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    printed("bash", &[], &commands).split_whitespace().map(str::to_owned).collect()
}

/// Returns the completions of fish for this line, without descriptions.
#[track_caller]
fn fish_offers(script: &str, line: &str) -> Vec<String> {
    let offers = printed("fish", &[], &format!("source '{script}'; complete -C '{line}'"));
    offers.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn bash_completes_all_arguments() {
    let (scratch, [script, ..]) = scripts();
    let offers = |words: &[&str]| bash_offers(&script, words);
    for (words, expected) in [
        (&["probeline", ""][..], ["bench-latency", "explore", "doctor", "--quiet"]),
        (&["probeline", "explore", "--"], ["--transport", "--states", "--invariant", "--help"]),
        (&["probeline", "bench-latency", "--transport", ""], ["shm", "verbs", "ucx", "sim"]),
    ] {
        let offered = offers(words);
        assert!(expected.iter().all(|word| offered.iter().any(|of| of == word)), "{offered:?}");
    }
    assert_eq!(offers(&["probeline", "completions", "z"]), ["zsh"]);
    assert_eq!(offers(&["probeline", "-q", "explore", "--exchange", "s"]), ["spawn"]);
    let file = scratch.file("a-tuning.toml", "");
    let begun = scratch.path("a-tun");
    assert_eq!(offers(&["probeline", "explore", "--tuning", &begun]), [file]);
}

/// Hidden options are refused, or are for the ranks that a command starts itself.
#[test]
fn omits_hidden_options() {
    let (_scratch, [script, _, fish]) = scripts();
    for (command, hidden) in [("limits", "--tuning"), ("compare", "--two-nodes")] {
        let offered = bash_offers(&script, &["probeline", command, "--"]);
        assert!(offered.contains(&"--json".to_owned()), "{offered:?}");
        assert!(!offered.contains(&hidden.to_owned()), "{offered:?}");
        let offered = fish_offers(&fish, &format!("probeline {command} --"));
        assert!(offered.contains(&"--json".to_owned()), "{offered:?}");
        assert!(!offered.contains(&hidden.to_owned()), "{offered:?}");
    }
}

#[test]
fn fish_completes_all_arguments() {
    let (scratch, [.., script]) = scripts();
    let offers = |line: &str| fish_offers(&script, line);
    assert!(offers("probeline ").contains(&"bench-latency".to_owned()));
    assert!(offers("probeline bench-latency --tr").contains(&"--transport".to_owned()));
    let mut transports = offers("probeline bench-latency --transport ");
    transports.retain(|name| name != "mpi");
    transports.sort();
    assert_eq!(transports, ["shm", "sim", "ucx", "verbs"]);
    let file = scratch.file("a-tuning.toml", "");
    let begun = scratch.path("a-tun");
    assert_eq!(offers(&format!("probeline explore --tuning {begun}")), [file]);
}

/// zsh completes only on a terminal; this test checks that the script is read and registered.
#[test]
fn zsh_loads_script() {
    let (scratch, [_, script, _]) = scripts();
    printed("zsh", &["-n"], &format!("source '{script}'"));
    let text = std::fs::read_to_string(&script).unwrap();
    scratch.file("_probeline", &text);
    let folder = scratch.path("");
    let commands = format!(
        "fpath=('{folder}' $fpath); autoload -Uz compinit; compinit -D -u
         autoload +X _probeline && print -r -- $_comps[probeline]"
    );
    assert_eq!(printed("zsh", &[], &commands), "_probeline\n");
    for part in ["--tuning=[", ":FILE:_files", "--two-nodes", "_hosts", "shm\\:", "--quiet["] {
        assert!(text.contains(part), "{part}");
    }
}
