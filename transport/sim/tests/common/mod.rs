//! Helpers of the tests: clusters and blocking calls.

pub(crate) use probeline_exchange::testing::{Replay, seeds};
use probeline_sim::{Cluster, Config, Engine, Rng};
pub(crate) use probeline_transport::conformance::{local, segment, word};
use probeline_transport::{
    Completion, Fault, OpError, Owner, RemoteWord, Segment, Token, Transport,
};

pub(crate) fn cluster(config: Config) -> Cluster {
    Cluster::new(config).unwrap()
}

pub(crate) fn engines(cluster: &Cluster) -> Vec<Engine> {
    (0..cluster.config().owners).map(|owner| cluster.engine(Owner(owner)).unwrap()).collect()
}

/// Returns a random number below `bound`.
pub(crate) fn pick(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(bound.into())).unwrap()
}

/// Polls one completion; fails after a million empty polls.
pub(crate) fn next(engine: &mut Engine) -> Result<Completion, Fault> {
    let mut one = [Completion::default()];
    for _ in 0..1_000_000 {
        if engine.poll(&mut one)? == 1 {
            return Ok(one[0]);
        }
    }
    panic!("no completion, {} in flight", engine.in_flight());
}

/// Polls the one operation in flight.
pub(crate) fn finish(engine: &mut Engine) -> Result<u64, OpError> {
    assert_eq!(engine.in_flight(), 1);
    next(engine).unwrap().result
}

pub(crate) fn read(engine: &mut Engine, from: Segment) -> Result<Vec<u64>, OpError> {
    let into = local(0, 0, from.words);
    engine.read(Token(0), from, into).unwrap();
    finish(engine)?;
    Ok(engine.landed(into).unwrap().to_vec())
}

pub(crate) fn write(engine: &mut Engine, words: &[u64], to: RemoteWord) -> Result<u64, OpError> {
    let from = local(0, 0, u32::try_from(words.len()).unwrap());
    engine.staged(from).unwrap().copy_from_slice(words);
    engine.write(Token(0), from, Segment { start: to, words: from.words }).unwrap();
    finish(engine)
}

pub(crate) fn cas(engine: &mut Engine, at: RemoteWord, old: u64, new: u64) -> Result<u64, OpError> {
    engine.compare_and_swap(Token(0), at, old, new).unwrap();
    finish(engine)
}

pub(crate) fn add(engine: &mut Engine, at: RemoteWord, addend: u64) -> Result<u64, OpError> {
    engine.fetch_add(Token(0), at, addend).unwrap();
    finish(engine)
}
