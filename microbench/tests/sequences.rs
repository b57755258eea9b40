//! `kmers` and `contigs`: counts are the same over each transport, and files have them; unitigs of a sequence
//! with a repeat.

use std::fs;

use crate::common::reported::{command, reported};
use crate::common::{Scratch, refuses, run};

/// Bases of a sequence that has 16-mers twice and others once.
const BASES: &str = "GATTACAGATTACAGGCCTTAAGGACGTACGTTTTTTTTTTTTTTTTTTACC";

#[test]
fn transports_and_ranks_agree() {
    let scratch = Scratch::new();
    let fasta = scratch.file("in.fa", &format!(">one\n{BASES}\n{BASES}\n>two\nacgtn{BASES}\n"));
    let [table, histogram] = ["out.txt", "histogram.txt"].map(|name| scratch.path(name));
    let counted = [("1", "shm"), ("2", "shm"), ("3", "sim")].map(|(ranks, transport)| {
        let options = ["-k", "16", "--ranks", ranks, "--transport", transport, "--min-count", "2"];
        let files = ["kmers", &fasta, "--out", &table, "--histogram", &histogram];
        let report = reported(&[&files[..], &options].concat()).json;
        assert!(!report["transport"].to_string().contains("windows"), "{report}");
        let rows = &report["rows"];
        let text = fs::read_to_string(&table).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        (lines, fs::read_to_string(&histogram).unwrap(), rows[0]["kmers"].as_u64())
    });
    assert!(counted[0] == counted[1] && counted[0] == counted[2], "{counted:?}");
    let (lines, numbers, kmers) = &counted[0];
    // 3 of TTTTTTTTTTTTTTTTT(T) in each of three copies; its reverse complement is smaller.
    assert!(lines.contains(&"AAAAAAAAAAAAAAAA\t9".to_owned()), "{lines:?}");
    let numbers: Vec<[u64; 2]> = numbers
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(count, kmers)| [count, kmers].map(|number| number.parse().unwrap()))
        .collect();
    assert_eq!(*kmers, Some(numbers.iter().map(|[count, kmers]| count * kmers).sum()));
    command("kmers", &[&fasta, "-k", "40"], 1);
    let row = &command("kmers", &[&fasta, "-k", "16", "--filter", "4KiB"], 1)[0];
    let repeated = numbers.iter().filter(|[count, _]| *count > 1).map(|[_, kmers]| kmers);
    assert_eq!(row["distinct"].as_u64(), Some(repeated.sum()), "{row}");
}

#[test]
fn names_invalid_input() {
    let scratch = Scratch::new();
    let text = &scratch.file("text", "no sequence");
    let fasta = &scratch.file("few.fa", ">one\nACGTACGTAC\n");
    let linked = &scratch.path("linked.fa");
    fs::hard_link(fasta, linked).unwrap();
    for (line, expected) in [
        (&*format!("kmers {fasta} --out {linked}"), "is also an input: give another file"),
        ("kmers no-such-file.fa", "no-such-file.fa cannot be read"),
        (&format!("kmers {fasta} --out {fasta}"), "is also an input: give another file"),
        (&format!("kmers {fasta} --json {fasta}"), "is also an input: give another file"),
        (&format!("contigs {fasta} --out {fasta}"), "is also an input: give another file"),
        (&format!("kmers {fasta} --out x --out-binary x"), "x is also another output"),
        (&format!("kmers {fasta} --min-count 2"), "--out"),
        (
            &format!("kmers {fasta} --out x --min-count 3 --max-count 1"),
            "--min-count 3 is larger than --max-count 1",
        ),
        (&format!("kmers {text}"), "neither FASTA nor FASTQ"),
        (&format!("kmers {text} -k 64"), "64 is not in 1..=63"),
        (&format!("kmers {fasta} --out /no/such/out"), "/no/such/out cannot be written"),
        ("kmers - --filter 1MiB", "read the files twice"),
        (&format!("contigs {fasta} --filter 1MiB --min-count 1"), "occur once"),
    ] {
        let said = run(&line.split(' ').collect::<Vec<_>>()).failed();
        assert!(said.contains(expected), "{said}");
    }
}

const REPEAT: &str = "GATTACAGATCCGGCCTTAAGGACGTACGA";

#[test]
fn repeat_ends_unitigs() {
    let ends = ["ACGGTCATTTGCAGC", "CTTGAGCCCTATCGG", "TTCGCAACTCGGGTA", "GGATGTTTCAGAAAT"];
    let reads = format!(">a\n{}{REPEAT}{}\n>b\n{}{REPEAT}{}\n", ends[0], ends[1], ends[2], ends[3]);
    let scratch = Scratch::new();
    let (fasta, out) = (scratch.file("in.fa", &reads), scratch.path("out.fa"));
    let options = ["-k", "11", "--min-count", "1", "--out", &out, "--sorted"];
    for ranks in ["1", "3"] {
        let more = ["--ranks", ranks];
        let report = reported(&[&["contigs", &fasta], &options[..], &more].concat());
        let row = &report.json["rows"][0];
        assert_eq!([&row["unitigs"], &row["kmers"]], [5, 20 + 4 * 15], "{row}");
        let text = fs::read_to_string(&out).unwrap();
        assert!(text.starts_with(">0\n") && text.contains("\n>4\n"), "{text}");
        let unitigs: Vec<_> = text.lines().skip(1).step_by(2).collect();
        assert!(unitigs.len() == 5 && unitigs.is_sorted(), "{text}");
        assert!(unitigs.contains(&REPEAT), "{text}");
    }
    let line = format!("contigs {fasta} -k 11 --min-count 1 --sorted --ranks 3 --out -");
    let ended = run(&line.split(' ').collect::<Vec<_>>());
    assert_eq!((ended.code, &ended.stdout), (Some(0), &fs::read_to_string(&out).unwrap()));
    assert!(ended.stderr.starts_with("contigs: 5 unitigs"), "{}", ended.stderr);
    command("contigs", &[&[&*fasta], &options[..]].concat(), 1);
    refuses(2, &[(&format!("contigs {fasta} --transport sim"), "shm, verbs, ucx")]);
}
