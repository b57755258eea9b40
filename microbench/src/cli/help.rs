//! Help of a command: `-h` shows its own options and two examples, `--help` also the options that
//! most commands share.

use clap::{Arg, Command};

use super::heading;

/// Options that only `--help` shows, beside those of transports, latency and two nodes.
const LONG_ONLY_OPTIONS: [&str; 7] =
    ["csv", "full", "truncate_us", "throughput_chunk_buckets", "handler_ns", "flop_ps", "byte_ps"];

/// The examples of the commands, two for each, without the name of the program.
const EXAMPLES: [&str; 40] = [
    "bench-latency",
    "bench-latency --two-nodes --json run.json",
    "bench-throughput --ranks 4 --workload mixed",
    "bench-throughput --paper --transport sim",
    "bench-map --workload read,write",
    "bench-map --key-distribution zipf --json run.json",
    "bench-queue",
    "bench-queue --transport sim --sim-profile das5-fdr --ranks 8",
    "roundtrips",
    "roundtrips -C 8,32 --json run.json",
    "limits",
    "limits --transport ucx",
    "compare",
    "compare --transports shm,osc-ucx --rounds 3",
    "explore kanban:5",
    "explore net.pnml --find-deadlock",
    "contigs reads.fa -k 31 --out unitigs.fa",
    "contigs reads.fq.gz -k 55 --min-count 3",
    "kmers reads.fa -k 21 --histogram counts.txt",
    "kmers a.fq.gz b.fq.gz -k 31 --out counts.txt",
    "isx",
    "isx --ranks 4 --carrier queues",
    "bale histogram",
    "bale triangles --kron 1:3x4x5 --aggregated",
    "dsm lu",
    "dsm ocean --ranks 4",
    "surrogate",
    "surrogate --ranks 4 --json run.json",
    "simulate --paper-figures",
    "simulate --machines 2,16,48 --ranks-per-machine 8 --json run.json",
    "tune",
    "tune --two-nodes --load-factor 0.8",
    "report run.json",
    "report one.json two.json --svg plots",
    "topology",
    "topology --ranks 4",
    "doctor",
    "doctor --device mlx5_0",
    "completions bash > ~/.local/share/bash-completion/completions/probeline",
    "completions fish > ~/.config/fish/completions/probeline.fish",
];

/// Line of `-h` about the options that it leaves out.
const MORE: &str = "\n\n--help adds options of placement, launchers, networks and the simulator";

/// Returns the command with examples, and with a short `-h`.
pub(crate) fn with_short_help(mut program: Command) -> Command {
    for examples in EXAMPLES.as_chunks::<2>().0 {
        let line = |example: &str| format!("\n  probeline {example}");
        let text = format!("Examples:{}", examples.map(line).concat());
        let name = examples[0].split(' ').next().unwrap_or_default();
        program = program.mut_subcommand(name, |command| {
            let command = command.mut_args(shown_by_long_help).after_long_help(text.clone());
            let leaves_out = command.get_arguments().any(Arg::is_hide_short_help_set);
            command.after_help(if leaves_out { text + MORE } else { text })
        });
    }
    program
}

/// Hides an option that most commands share from `-h`.
fn shown_by_long_help(option: Arg) -> Arg {
    let of_transports = heading::OF_TRANSPORTS.map(|(name, _)| name);
    let headings = [&of_transports[..], &[heading::LATENCY, heading::NODES]].concat();
    let is_shared = option.get_help_heading().is_some_and(|name| headings.contains(&name))
        && option.get_id() != "two_nodes";
    let is_rare = LONG_ONLY_OPTIONS.contains(&option.get_id().as_str());
    if is_shared || is_rare { option.hide_short_help(true) } else { option }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    /// Own options of a command in `-h`, at most; `-h` and `-q` come on top.
    const MAX_SHORT_OPTIONS: usize = 15;

    #[test]
    fn short_help_limits_options() {
        for command in definition().get_subcommands_mut() {
            let shown = |option: &&Arg| !option.is_hide_short_help_set() && !option.is_hide_set();
            let options = command.get_opts().filter(shown).count();
            assert!(options <= MAX_SHORT_OPTIONS, "{}: {options}", command.get_name());
            let help = command.render_help().to_string();
            assert!(help.contains("Examples:\n  probeline "), "{help}");
        }
    }

    #[test]
    fn examples_parse() {
        for example in EXAMPLES {
            let words = example.split(" > ").next().unwrap().split_whitespace();
            let parsed = definition().try_get_matches_from(["probeline"].into_iter().chain(words));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}
