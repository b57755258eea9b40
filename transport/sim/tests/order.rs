//! The possible orders of completions, of effects, and of the samples of one READ.

use std::collections::HashSet;

use crate::common::{cluster, engines, local, next, segment, word};
use probeline_sim::{Config, Model, Order};
use probeline_transport::{Owner, Token, Transport};

/// Returns the orders in which four operations posted together complete, and those in which they
/// take effect.
fn orders(config: Config) -> (HashSet<Vec<u64>>, HashSet<Vec<u64>>) {
    let (mut completed, mut applied) = (HashSet::new(), HashSet::new());
    for seed in 0..1_000 {
        let cluster = cluster(Config { seed, ..config });
        let mut engine = cluster.engine(Owner(0)).unwrap();
        for token in 0..4 {
            engine.fetch_add(Token(token), word(1, 0), 1).unwrap();
        }
        let completions: Vec<_> = (0..4).map(|_| next(&mut engine).unwrap()).collect();
        completed.insert(completions.iter().map(|completion| completion.token.0).collect());
        let mut by_effect = completions;
        by_effect.sort_by_key(|completion| completion.result.unwrap());
        applied.insert(by_effect.iter().map(|completion| completion.token.0).collect());
    }
    (completed, applied)
}

#[test]
fn shuffling_or_jitter_gives_every_order() {
    let model = Model { jitter_mean_ns: 9_000, ..Model::simple(1_000) };
    let shuffled = Config { order: Order::Shuffled, ..Config::default() };
    for config in [shuffled, Config { model, ..Config::default() }] {
        let (completed, applied) = orders(config);
        assert_eq!((completed.len(), applied.len()), (24, 24));
    }
}

#[test]
fn without_randomness_keeps_posting_order() {
    for model in [Model::instant(), Model::simple(1_000)] {
        let (completed, applied) = orders(Config { model, ..Config::default() });
        let posting = HashSet::from([vec![0, 1, 2, 3]]);
        assert_eq!((&completed, &applied), (&posting, &posting));
    }
}

/// Returns the values that a READ of two words can return during a WRITE of both. Without
/// scattering it returns both old or both new.
fn observed_words(config: Config) -> HashSet<Vec<u64>> {
    let mut observed_words = HashSet::new();
    for seed in 0..300 {
        let cluster = cluster(Config { seed, model: Model::simple(1_000), ..config });
        let mut engines = engines(&cluster);
        let [reader, writer] = &mut engines[..] else { panic!("two engines") };
        writer.spend(3 * seed);
        reader.read(Token(0), segment(1, 0, 2), local(0, 0, 2)).unwrap();
        writer.staged(local(0, 0, 2)).unwrap().fill(1);
        writer.write(Token(0), local(0, 0, 2), segment(1, 0, 2)).unwrap();
        next(writer).unwrap().result.unwrap();
        next(reader).unwrap().result.unwrap();
        observed_words.insert(reader.landed(local(0, 0, 2)).unwrap().to_vec());
    }
    observed_words
}

#[test]
fn scattered_read_samples_words_separately() {
    let seen = observed_words(Config { scatter_reads: true, ..Config::default() });
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn unscattered_read_samples_words_together() {
    let whole = [vec![0, 0], vec![1, 1]];
    let shuffled = Config { order: Order::Shuffled, ..Config::default() };
    for config in [Config::default(), shuffled] {
        assert_eq!(observed_words(config), HashSet::from(whole.clone()));
    }
}
