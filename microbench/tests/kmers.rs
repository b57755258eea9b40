//! `kmers`: counts are the same over each transport, and files have them.

use std::fs;
use std::path::PathBuf;

use crate::common::reported::{command, reported};
use crate::common::run;

/// Bases of a sequence that has 16-mers twice and others once.
const BASES: &str = "GATTACAGATTACAGGCCTTAAGGACGTACGTTTTTTTTTTTTTTTTTTACC";

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("probeline-kmers-{}-{name}", std::process::id()))
}

#[test]
fn transports_and_ranks_agree() {
    let paths = ["in.fa", "out.txt", "histogram.txt"].map(temporary);
    let [fasta, table, histogram] = paths.each_ref().map(|path| path.to_str().unwrap());
    fs::write(fasta, format!(">one\n{BASES}\n{BASES}\n>two\nacgtn{BASES}\n")).unwrap();
    let mut first: Option<(Vec<String>, String)> = None;
    for (ranks, transport) in [("1", "shm"), ("2", "shm"), ("3", "sim")] {
        let options = ["-k", "16", "--ranks", ranks, "--transport", transport, "--min-count", "2"];
        let files = [fasta, "--out", table, "--histogram", histogram];
        let rows = reported(&[&["kmers"], &files[..], &options].concat()).json["rows"].clone();
        let mut lines: Vec<_> =
            fs::read_to_string(table).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        let histogram = fs::read_to_string(histogram).unwrap();
        let of_line = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect();
        let kmers: u64 =
            histogram.lines().map(of_line).map(|line: Vec<u64>| line[0] * line[1]).sum();
        assert_eq!(rows[0]["kmers"].as_u64(), Some(kmers), "{}", rows[0]);
        let expected = first.get_or_insert((lines.clone(), histogram.clone()));
        assert_eq!((&lines, &histogram), (&expected.0, &expected.1), "{ranks} {transport}");
    }
    let (lines, numbers) = first.unwrap();
    // 3 of TTTTTTTTTTTTTTTTT(T) in each of three copies; its reverse complement is smaller.
    assert!(lines.contains(&"AAAAAAAAAAAAAAAA\t9".to_owned()), "{lines:?}");
    command("kmers", &[fasta, "-k", "40"], 1);
    let row = &command("kmers", &[fasta, "-k", "16", "--filter", "4KiB"], 1)[0];
    let repeated = numbers.lines().filter(|line| !line.starts_with("1 "));
    let repeated = repeated.map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(row["distinct"].as_u64(), Some(repeated.sum()), "{row}");
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
}

#[test]
fn names_invalid_input() {
    let path = temporary("text");
    fs::write(&path, "no sequence").unwrap();
    let path = path.to_str().unwrap();
    let fasta = temporary("few.fa");
    fs::write(&fasta, ">one\nACGTACGTAC\n").unwrap();
    let fasta = fasta.to_str().unwrap();
    for (arguments, expected) in [
        (vec!["kmers", "no-such-file.fa"], "no-such-file.fa cannot be read"),
        (vec!["kmers", fasta, "--out", fasta], "is also an input: give another file"),
        (vec!["kmers", fasta, "--json", fasta], "is also an input: give another file"),
        (vec!["contigs", fasta, "--out", fasta], "is also an input: give another file"),
        (vec!["kmers", fasta, "--out", "x", "--out-binary", "x"], "x is also another output"),
        (vec!["kmers", fasta, "--min-count", "2"], "--out"),
        (
            vec!["kmers", fasta, "--out", "x", "--min-count", "3", "--max-count", "1"],
            "--min-count 3 is larger than --max-count 1",
        ),
        (vec!["kmers", path], "neither FASTA nor FASTQ"),
        (vec!["kmers", path, "-k", "64"], "64 is not in 1..=63"),
        (
            vec!["kmers", fasta, "--out", "/no/such/folder/out"],
            "/no/such/folder/out cannot be written",
        ),
        (vec!["kmers", "-", "--filter", "1MiB"], "read the files twice"),
        (vec!["contigs", fasta, "--filter", "1MiB", "--min-count", "1"], "occur once"),
    ] {
        let output = run(&arguments);
        let said = output.stderr;
        assert!(output.code != Some(0) && said.contains(expected), "{said}");
    }
    [path, fasta].iter().for_each(|path| fs::remove_file(path).unwrap());
}
