//! `contigs`: unitigs of a sequence with a repeat, by ranks of both kinds of memory.

use std::fs;

use crate::common::reported::{command, reported};
use crate::common::{Scratch, refuses, run};

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
