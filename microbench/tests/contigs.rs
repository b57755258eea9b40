//! `contigs`: unitigs of a sequence with a repeat, by ranks of both kinds of memory.

use std::collections::BTreeSet;
use std::fs;

use crate::common::reported::{command, reported};
use crate::common::run;

const REPEAT: &str = "GATTACAGATCCGGCCTTAAGGACGTACGA";

#[test]
fn repeat_ends_unitigs() {
    let ends = ["ACGGTCATTTGCAGC", "CTTGAGCCCTATCGG", "TTCGCAACTCGGGTA", "GGATGTTTCAGAAAT"];
    let path = |name| {
        std::env::temp_dir().join(format!("probeline-contigs-{}-{name}", std::process::id()))
    };
    let (fasta, out) = (path("in.fa"), path("out.fa"));
    let reads = format!(">a\n{}{REPEAT}{}\n>b\n{}{REPEAT}{}\n", ends[0], ends[1], ends[2], ends[3]);
    fs::write(&fasta, reads).unwrap();
    let (fasta_name, out_name) = (fasta.to_str().unwrap(), out.to_str().unwrap());
    let options = ["contigs", fasta_name, "-k", "11", "--min-count", "1", "--out", out_name];
    let mut found = BTreeSet::new();
    for ranks in ["1", "3"] {
        let report = reported(&[&options[..], &["--ranks", ranks]].concat());
        let row = &report.json["rows"][0];
        assert_eq!(row["unitigs"].as_u64(), Some(5), "{row}");
        assert_eq!(row["kmers"].as_u64(), Some(20 + 4 * 15), "{row}");
        let text = fs::read_to_string(&out).unwrap();
        let unitigs: Vec<_> = text.lines().filter(|line| !line.starts_with('>')).collect();
        assert_eq!(unitigs.len(), 5, "{text}");
        found.insert(unitigs.into_iter().map(str::to_owned).collect::<BTreeSet<_>>());
    }
    assert_eq!(found.len(), 1);
    assert!(found.iter().flatten().any(|unitig| unitig == REPEAT), "{found:?}");
    reported(&[&options[..], &["--ranks", "3", "--sorted"]].concat());
    let text = fs::read_to_string(&out).unwrap();
    let unitigs: Vec<_> = text.lines().skip(1).step_by(2).map(str::to_owned).collect();
    assert!(
        unitigs.is_sorted() && unitigs.iter().cloned().eq(found.first().unwrap().clone()),
        "{text}"
    );
    assert!(text.starts_with(">0\n") && text.contains("\n>4\n"), "{text}");

    // The same k-mers, as a file of the course CS267 has them.
    let reads = fs::read_to_string(&fasta).unwrap();
    let windows = reads.lines().filter(|line| !line.starts_with('>')).flat_map(|read| {
        (0..read.len() - 10).map(move |at| format!("{} AC\n", &read[at..at + 11]))
    });
    fs::write(&fasta, windows.collect::<String>()).unwrap();
    let row = &reported(&options).json["rows"][0];
    assert_eq!(row["unitigs"].as_u64(), Some(5), "{row}");
    command("contigs", &options[1..], 1);
    let refused = run(&["contigs", fasta_name, "--transport", "sim"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("shm, verbs, ucx"), "{refused:?}");
    [fasta, out].iter().for_each(|path| fs::remove_file(path).unwrap());
}
