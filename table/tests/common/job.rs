//! Runs owners as threads, over shared memory or on the simulator's stage.

use probeline_exchange::Thread;
use probeline_exchange::testing::{AnyEngine, on_ranks};
use probeline_sim::{Cluster, Model, Order, stage};
use probeline_table::Config;
use probeline_transport::{Exchange, Sizes};

/// The function that an owner's thread runs with its engine and its exchange.
pub(crate) trait Body<R>: Fn(AnyEngine<'static>, &mut dyn Exchange) -> R + Sync {}

impl<R, F: Fn(AnyEngine<'static>, &mut dyn Exchange) -> R + Sync> Body<R> for F {}

/// The transport of the owners.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    Shm,
    Sim { seed: u64 },
}

/// Returns the sizes of engines for tables of this configuration.
pub(crate) fn sizes(config: &Config) -> Sizes {
    let words = Sizes::new(config.first_word + config.words());
    words.with_slots(Config::slots(4), SLOT_WORDS).with_depth(6)
}

/// Words of a slot, which limit the chunks.
pub(crate) const SLOT_WORDS: u32 = 64;

impl Over {
    /// Runs `body` for every owner, and returns the results in the order of owners.
    pub(crate) fn run<R: Send>(self, owners: u32, sizes: Sizes, body: impl Body<R>) -> Vec<R> {
        match self {
            Self::Shm => on_shm(owners, sizes, |engine, mut exchange| {
                body(AnyEngine::new(engine), &mut exchange)
            }),
            Self::Sim { seed } => {
                let cluster = Cluster::new(probeline_sim::Config {
                    seed,
                    order: Order::Shuffled,
                    model: Model { jitter_mean_ns: 1_000, ..Model::simple(1_000) },
                    ..probeline_sim::Config::new(owners, sizes)
                });
                let body = |engine, mut exchange| body(AnyEngine::new(engine), &mut exchange);
                stage::run(&cluster.unwrap(), body).unwrap()
            }
        }
    }
}

/// Runs as [`Over::run`] on shared memory, with an owned engine that the body may drop.
pub(crate) fn on_shm<R: Send>(
    owners: u32,
    sizes: Sizes,
    body: impl Fn(probeline_shm::Engine, Thread) -> R + Sync,
) -> Vec<R> {
    let builder = probeline_shm::Builder::new(sizes);
    on_ranks(owners, |mut member| body(builder.open(&mut member).unwrap(), member))
}
