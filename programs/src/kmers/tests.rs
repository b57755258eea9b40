//! Counts of files against a plain counter, by one rank and by several, in common counters and in parts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use fastrand::Rng;
use flate2::Compression;
use flate2::write::GzEncoder;
use probeline::exchange::threads;
use probeline::pin::HugePages;
use probeline::shm::Builder;
use probeline::transport::conformance::on_threads;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::*;
use crate::kmer::write_letters;

type Counts = BTreeMap<String, u64>;

/// Writes a file that is removed with its value.
pub(crate) fn temporary(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    file
}

pub(crate) fn random_bases(count: usize, random: &mut Rng) -> String {
    core::iter::repeat_with(|| char::from(b"ACGT"[random.usize(..4)])).take(count).collect()
}

pub(crate) fn complement(sequence: &str) -> String {
    let base = |base| match base {
        'A' => 'T',
        'C' => 'G',
        'G' => 'C',
        _ => 'A',
    };
    sequence.chars().rev().map(base).collect()
}

/// Counts the k-mers of sequences one by one.
pub(crate) fn expected(sequences: &[String], k: usize, is_canonical: bool) -> Counts {
    let mut counts = Counts::new();
    for sequence in sequences {
        for kmer in sequence.to_ascii_uppercase().as_bytes().windows(k) {
            if kmer.iter().any(|base| !b"ACGT".contains(base)) {
                continue;
            }
            let own = String::from_utf8(kmer.to_vec()).unwrap();
            let kmer = if is_canonical { complement(&own).min(own) } else { own };
            *counts.entry(kmer).or_default() += 1;
        }
    }
    counts
}

pub(crate) fn options(k: u32, is_canonical: bool) -> Options {
    let memory = MemoryPolicy { node: None, huge: HugePages::Never };
    let filter_bytes = 0;
    Options { k, is_canonical, table_bytes: 64, max_table_bytes: 1 << 22, filter_bytes, memory }
}

/// Counts by this many ranks, in common counters or in parts.
fn count<K: Kmer>(path: &Path, options: &Options, ranks: u32, is_shared: bool) -> (Counts, Totals) {
    let inputs = &Inputs::open(&[path.to_owned()]).unwrap();
    let mut all = on_threads(threads(ranks), |mut job| {
        let lanes = || Builder::new(Options::sizes::<K>(ranks)).open(&mut job).unwrap();
        let engine = (!is_shared).then(lanes);
        let counted = run::<K, _>(options, inputs, engine, &mut job, |_| ()).unwrap();
        let named = counted.local().map(|(kmer, count)| {
            let mut letters = Vec::new();
            write_letters(kmer, options.k, &mut letters);
            (String::from_utf8(letters).unwrap(), count)
        });
        (named.collect::<Vec<_>>(), counted.totals.clone())
    });
    let totals = all[0].1.clone();
    let pairs: Vec<_> = all.drain(..).flat_map(|(pairs, _)| pairs).collect();
    let (len, counts) = (pairs.len(), pairs.into_iter().collect::<Counts>());
    assert_eq!(counts.len(), len, "a k-mer is in two places");
    (counts, totals)
}

fn count_any(path: &Path, options: &Options, ranks: u32, is_shared: bool) -> (Counts, Totals) {
    match options.k {
        ..=31 => count::<u64>(path, options, ranks, is_shared),
        _ => count::<u128>(path, options, ranks, is_shared),
    }
}

/// Writes sequences as FASTA with lines of this length, or as FASTQ.
fn text(sequences: &[String], width: Option<usize>, line_end: &str) -> Vec<u8> {
    let mut text = String::new();
    for (nth, sequence) in sequences.iter().enumerate() {
        match width {
            Some(width) => {
                text += &format!(">{nth} a name{line_end}");
                for line in sequence.as_bytes().chunks(width) {
                    text += &format!("{}{line_end}", String::from_utf8_lossy(line));
                }
            }
            // Qualities that look like headers and separators.
            None => {
                let qualities: String = "@+>I".chars().cycle().take(sequence.len()).collect();
                text += &format!(
                    "@{nth}{line_end}{sequence}{line_end}+{line_end}{qualities}{line_end}"
                );
            }
        }
    }
    text.into_bytes()
}

fn sequence() -> impl Strategy<Value = String> {
    let letters =
        prop::collection::vec(prop::sample::select(b"ACGTACGTACGTacgtNR".to_vec()), 0..700);
    letters.prop_map(|letters| String::from_utf8(letters).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_match_plain_counter(
        sequences in prop::collection::vec(sequence(), 1..6),
        k in prop_oneof![1..8_u32, Just(31), 32..64_u32],
        width in prop_oneof![Just(None), (1..100_usize).prop_map(Some)],
        is_windows: bool,
        is_canonical: bool,
        is_compressed: bool,
        ranks in 1..4_u32,
        is_shared: bool,
        filter_bytes in prop_oneof![Just(0), Just(64_u64), Just(1 << 14)],
    ) {
        let line_end = if is_windows { "\r\n" } else { "\n" };
        let mut content = text(&sequences, width, line_end);
        if is_compressed {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&content).unwrap();
            content = gzip.finish().unwrap();
        }
        let file = temporary(&content);
        let options = Options { filter_bytes, ..options(k, is_canonical) };
        let (counts, totals) = count_any(file.path(), &options, ranks, is_shared);
        let mut expected = expected(&sequences, k as usize, is_canonical);
        prop_assert_eq!(totals.kmers, expected.values().sum::<u64>());
        if filter_bytes > 0 {
            expected.retain(|_, count| *count > 1);
        }
        prop_assert_eq!(&counts, &expected);
        prop_assert_eq!(totals.distinct, expected.len() as u64);
        let twice = expected.values().filter(|count| **count == 2).count() as u64;
        prop_assert_eq!(totals.histogram[2], twice);
    }
}

#[test]
fn reads_files_of_kmers() {
    let mut random = Rng::with_seed(5);
    let kmers: Vec<String> = (0..200).map(|_| random_bases(9, &mut random)).collect();
    let content: String = kmers.iter().map(|kmer| format!("{kmer}\tFT\n")).collect();
    let file = temporary(content.as_bytes());
    for ranks in [1, 3] {
        let (counts, _) = count_any(file.path(), &options(9, true), ranks, true);
        assert_eq!(counts, expected(&kmers, 9, true));
    }
}

fn failure(content: &[u8], k: u32) -> String {
    let file = temporary(content);
    let counted = Inputs::open(&[file.path().to_owned()]).and_then(|inputs| {
        let alone = &mut probeline::transport::Alone;
        run::<u64, probeline::shm::Engine>(&options(k, true), &inputs, None, alone, |_| ())
    });
    counted.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn refuses_damaged_files() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&text(&["ACGTACGTAGC".repeat(300)], Some(60), "\n")).unwrap();
    let gzip = gzip.finish().unwrap();
    for (content, expected) in [
        (&b""[..], "is empty"),
        (b"1 ACGT", "neither FASTA nor FASTQ"),
        (b"ACG FT\nAC", "has a line of a k-mer with k = 2, and k is 3"),
        (b"BZh9abc", "bzcat"),
        (b"\xef\xbb\xbf>a\nACGT", "byte order mark: convert it with tail -c +4"),
        (&gzip[..gzip.len() / 2], "cannot be read"),
        (b"@a\nACGT\n+\nIII\n", "damaged"),
        (b"@a\nACGT\nIIII\n", "damaged"),
        (b"@a\nACGT\n+\n", "damaged"),
        (b"@a\nACGT\nACGT\n+\nIIII\nIIII\n", "seqtk seq"),
        (&[&gzip, &b"\0\0more"[..]].concat(), "cannot be read"),
    ] {
        let error = failure(content, 3);
        assert!(error.contains(expected), "{expected:?}: {error:?}");
    }
    assert!(failure(b">a\nACGT\n", 32).contains("must be 1 to 31"));
    assert_eq!(failure(b">a\n>b\n\n>c\nAC", 3), "");
    assert_eq!(failure(&[&gzip, &[0; 700][..], &gzip, &[0]].concat(), 3), "");
}

#[test]
fn refuses_more_kmers_than_memory() {
    let sequence = random_bases(5000, &mut Rng::with_seed(7));
    let file = temporary(&text(&[sequence], Some(60), "\n"));
    let inputs = Inputs::open(&[file.path().to_owned()]).unwrap();
    let options = Options { max_table_bytes: 1024, ..options(15, true) };
    let alone = &mut probeline::transport::Alone;
    let counted = run::<u64, probeline::shm::Engine>(&options, &inputs, None, alone, |_| ());
    assert!(matches!(counted, Err(Error::Full { held: 64.., bytes: 768, max: 1024 })));
}

#[test]
fn files_contain_all_kmers() {
    let sequences = ["ACGTTGCA".repeat(40), "GATTACA".repeat(9)];
    let file = temporary(&text(&sequences, Some(50), "\n"));
    let (to_text, to_binary) = (temporary(b""), temporary(b"old"));
    let inputs = &Inputs::open(&[file.path().to_owned()]).unwrap();
    let (text_path, binary_path): (&Path, &Path) = (to_text.path(), to_binary.path());
    on_threads(threads(2), |mut job| {
        let options = options(5, true);
        let counted =
            run::<u64, probeline::shm::Engine>(&options, inputs, None, &mut job, |_| ()).unwrap();
        write_text(&counted, &(2..=u64::MAX), text_path, &mut job).unwrap();
        write_binary(&counted, &(1..=9), binary_path, &mut job).unwrap();
    });
    let expected = expected(&sequences, 5, true);
    let lines = fs::read_to_string(text_path).unwrap();
    let read: Counts = lines
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(kmer, count)| (kmer.to_owned(), count.parse().unwrap()))
        .collect();
    let several = |(_, count): &(&String, &u64)| **count >= 2;
    assert!(read.iter().eq(expected.iter().filter(several)));

    let bytes = fs::read(binary_path).unwrap();
    let (header, entries) = bytes.split_at(40);
    assert_eq!(header[..8], BINARY_MAGIC);
    let few = expected.values().filter(|count| **count <= 9).count();
    let numbers: Vec<u64> =
        header[8..].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!(numbers, [5, 1, 1, few as u64]);
    let (entries, rest) = entries.as_chunks::<3>();
    assert!(rest.is_empty());
    let read: Counts = entries
        .iter()
        .map(|[low, high, count]| {
            let mut letters = Vec::new();
            write_letters(u64::from(u16::from_le_bytes([*low, *high])), 5, &mut letters);
            (String::from_utf8(letters).unwrap(), (*count).into())
        })
        .collect();
    assert!(read.iter().eq(expected.iter().filter(|(_, count)| **count <= 9)));
}
