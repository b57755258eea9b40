//! Unitigs against those of a plain search in a set of strings.

use std::collections::BTreeSet;

use fastrand::Rng;
use probeline::exchange::{Thread, threads};
use probeline::shm::{Builder, Engine};
use probeline::transport::conformance::on_threads;
use proptest::prelude::*;

use super::*;
use crate::kmers::tests::{self, complement, expected, random_bases, temporary};

fn canonical(sequence: &str) -> String {
    complement(sequence).min(sequence.to_owned())
}

/// The k-mers of a graph.
struct Plain(BTreeSet<String>);

impl Plain {
    fn new(sequences: &[String], k: usize, min_count: u64) -> Self {
        let counts = expected(sequences, k, true).into_iter();
        Self(counts.filter(|(_, count)| *count >= min_count).map(|(kmer, _)| kmer).collect())
    }

    fn following(&self, kmer: &str) -> Vec<String> {
        let next = "ACGT".chars().map(|base| format!("{}{base}", &kmer[1..]));
        next.filter(|next| self.0.contains(&canonical(next))).collect()
    }

    fn extend(&self, kmer: &str) -> Option<String> {
        let following = self.following(kmer);
        let [next] = &following[..] else { return None };
        let is_simple = self.following(&complement(next)).len() == 1;
        (is_simple && canonical(next) != canonical(kmer)).then(|| next.clone())
    }

    /// Walks from a k-mer to the end of its path, or around its cycle. Marks the k-mers.
    fn walk(&self, start: &str, marked: &mut BTreeSet<String>) -> String {
        let (mut at, mut unitig) = (start.to_owned(), start.to_owned());
        marked.insert(canonical(start));
        while let Some(next) = self.extend(&at).filter(|next| next != start) {
            unitig.push_str(&next[next.len() - 1..]);
            marked.insert(canonical(&next));
            at = next;
        }
        unitig
    }

    fn unitigs(&self) -> BTreeSet<String> {
        let (mut marked, mut unitigs) = (BTreeSet::new(), BTreeSet::new());
        for kmer in self.0.iter().flat_map(|kmer| [kmer.clone(), complement(kmer)]) {
            if self.extend(&complement(&kmer)).is_none() {
                unitigs.insert(canonical(&self.walk(&kmer, &mut marked)));
            }
        }
        // The rest are cycles, of which the smallest k-mers come first.
        for kmer in &self.0 {
            if !marked.contains(kmer) {
                unitigs.insert(self.walk(kmer, &mut marked));
            }
        }
        unitigs
    }
}

fn options(k: u32, min_count: u64) -> Options {
    let filter_bytes = if min_count > 1 { 1 << 12 } else { 0 };
    Options { kmers: kmers::Options { filter_bytes, ..tests::options(k, true) }, min_count }
}

fn open(sizes: Sizes, exchange: &mut dyn Exchange) -> Result<Engine, Error> {
    Ok(Builder::new(sizes).open(exchange)?)
}

fn rank<K: Kmer>(
    mut job: Thread,
    options: &Options,
    inputs: &Inputs,
    is_shared: bool,
) -> (Vec<String>, Totals) {
    let sizes = kmers::Options::sizes::<K>(job.owners());
    let engine = if is_shared { None } else { Some(open(sizes, &mut job).unwrap()) };
    let found = run::<K, _, _, Error>(options, inputs, engine, open, &mut job, |_| ()).unwrap();
    let text = |unitig: &[u8]| String::from_utf8(unitig.to_vec()).unwrap();
    (found.local().map(text).collect(), found.totals)
}

fn unitigs<K: Kmer>(
    sequences: &[String],
    options: &Options,
    ranks: u32,
    is_shared: bool,
) -> (Vec<String>, Totals) {
    let records = sequences.iter().map(|sequence| format!(">\n{sequence}\n"));
    let file = temporary(records.collect::<String>().as_bytes());
    let inputs = &Inputs::open(&[file.path().to_owned()]).unwrap();
    let all = on_threads(threads(ranks), |job| rank::<K>(job, options, inputs, is_shared));
    let totals = all[0].1.clone();
    let mut unitigs: Vec<_> = all.into_iter().flat_map(|(unitigs, _)| unitigs).collect();
    unitigs.sort();
    (unitigs, totals)
}

/// Sequences of a few pieces, some of them reversed: with repeats, cycles and hairpins.
fn sequences() -> impl Strategy<Value = Vec<String>> {
    let piece = prop::collection::vec(prop::sample::select(b"ACGT".to_vec()), 1..90);
    let pieces = prop::collection::vec(piece, 1..5);
    let choice = prop::collection::vec((0..5_usize, any::<bool>()), 1..7);
    (pieces, prop::collection::vec(choice, 1..5)).prop_map(|(pieces, choices)| {
        let piece = |&(nth, is_reversed): &(usize, bool)| {
            let piece = String::from_utf8(pieces[nth % pieces.len()].clone()).unwrap();
            if is_reversed { complement(&piece) } else { piece }
        };
        choices.iter().map(|choice| choice.iter().map(piece).collect()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn unitigs_match_plain_search(
        sequences in sequences(),
        half in prop_oneof![1..6_u32, 15..18_u32, Just(31)],
        min_count in 1..3_u64,
        ranks in 1..4_u32,
        is_shared: bool,
    ) {
        let k = 2 * half + 1;
        let options = options(k, min_count);
        let (found, totals) = match k {
            ..=31 => unitigs::<u64>(&sequences, &options, ranks, is_shared),
            _ => unitigs::<u128>(&sequences, &options, ranks, is_shared),
        };
        let plain = Plain::new(&sequences, k as usize, min_count);
        let expected: Vec<String> = plain.unitigs().into_iter().collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(totals.kmers, plain.0.len() as u64);
        prop_assert_eq!(totals.unitigs, expected.len() as u64);
        prop_assert_eq!(totals.bases, expected.iter().map(|unitig| unitig.len() as u64).sum::<u64>());
        let longest = expected.iter().map(|unitig| unitig.len() as u64).max();
        prop_assert_eq!(totals.max_unitig_bases, longest.unwrap_or(0));
    }
}

#[test]
fn statistics_match_lengths() {
    // Of 100, 60, 40 and 20 bases, the first two have more than half.
    let mut random = Rng::with_seed(3);
    let mut bases = |count| random_bases(count, &mut random);
    let circle = bases(50);
    let mut sequences = [100, 60, 40, 20].map(&mut bases).to_vec();
    sequences.push(format!("{circle}{}", &circle[..18]));
    let (found, totals) = unitigs::<u64>(&sequences, &options(19, 1), 2, true);
    assert_eq!(found.len(), 5);
    assert_eq!(
        totals,
        Totals {
            kmers: 82 + 42 + 22 + 2 + 50,
            unitigs: 5,
            cycles: 1,
            bases: 288,
            max_unitig_bases: 100,
            n50: 68
        }
    );
}

#[test]
fn refuses_even_k() {
    assert!(options(4, 1).check::<u64>().unwrap_err().to_string().contains("give an odd k"));
}
