//! Runs owners as threads, over shared memory or on the simulator's stage.

use probeline_exchange::Thread;
use probeline_exchange::testing::{AnyEngine, on_ranks};
use probeline_sim::{Cluster, stage};
use probeline_table::Config;
use probeline_transport::Exchange;

/// The function that an owner's thread runs with its engine and its exchange.
pub(crate) trait Body<R>: Fn(AnyEngine<'static>, &mut dyn Exchange) -> R + Sync {}

impl<R, F: Fn(AnyEngine<'static>, &mut dyn Exchange) -> R + Sync> Body<R> for F {}

/// The transport of the owners.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    Shm,
    Sim { seed: u64 },
}

/// The number of owners, and the sizes of their engines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) owners: u32,
    pub(crate) window_words: u64,
    pub(crate) operations: u32,
    pub(crate) depth: u32,
}

impl Sizes {
    /// Returns the sizes for tables of this configuration.
    pub(crate) fn of(owners: u32, config: &Config) -> Self {
        Self { owners, window_words: config.first_word + config.words(), operations: 4, depth: 6 }
    }

    /// Words of a slot, which limit the chunks.
    pub(crate) const SLOT_WORDS: u32 = 64;

    pub(crate) fn sim(&self, seed: u64) -> probeline_sim::Config {
        probeline_sim::Config {
            owners: self.owners,
            window_words: self.window_words,
            slots: Config::slots(self.operations),
            slot_words: Self::SLOT_WORDS,
            depth: self.depth,
            seed,
            order: probeline_sim::Order::Shuffled,
            model: probeline_sim::Model {
                jitter_mean_ns: 1_000,
                ..probeline_sim::Model::simple(1_000)
            },
            ..probeline_sim::Config::default()
        }
    }
}

impl Over {
    /// Runs `body` for every owner, and returns the results in the order of owners.
    pub(crate) fn run<R: Send>(self, sizes: Sizes, body: impl Body<R>) -> Vec<R> {
        match self {
            Self::Shm => {
                on_shm(sizes, |engine, mut exchange| body(AnyEngine::new(engine), &mut exchange))
            }
            Self::Sim { seed } => {
                let cluster = Cluster::new(sizes.sim(seed)).unwrap();
                let body = |engine, mut exchange| body(AnyEngine::new(engine), &mut exchange);
                stage::run(&cluster, body).unwrap()
            }
        }
    }
}

/// Runs as [`Over::run`] on shared memory, with an owned engine that the body may drop.
pub(crate) fn on_shm<R: Send>(
    sizes: Sizes,
    body: impl Fn(probeline_shm::Engine, Thread) -> R + Sync,
) -> Vec<R> {
    let builder = probeline_shm::Builder::new(probeline_transport::Sizes {
        window_words: sizes.window_words,
        slots: Config::slots(sizes.operations),
        slot_words: Sizes::SLOT_WORDS,
        depth: sizes.depth,
    });
    on_ranks(sizes.owners, |mut member| body(builder.open(&mut member).unwrap(), member))
}
