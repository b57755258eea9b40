//! Tests of the limits of a configuration, of the messages of refusals, and that a refusal changes
//! nothing.

use std::sync::LazyLock;

use probeline_sim::{Cluster, Engine};
use probeline_table::{
    Config, ConfigError, Intent, MAX_KEY, Operation, OperationError, Outcome, Stats, Table, Tag,
};
use probeline_transport::{Owner, Transport};

use crate::common::storage;

/// Windows of 18 lines and 3 words, and 7 slots of 48 words.
static SIM: LazyLock<probeline_sim::Config> = LazyLock::new(|| probeline_sim::Config {
    window_words: 147,
    slots: 7,
    slot_words: 48,
    depth: 2,
    ..probeline_sim::Config::default()
});
const CONFIG: Config =
    Config { first_word: 8, chunk_buckets: 48, max_chunks: 1, ..Config::paper(136) };

type SimTable = Table<Engine, Vec<Operation>>;

fn new(
    sim: probeline_sim::Config,
    config: Config,
    operations: u32,
) -> Result<SimTable, ConfigError> {
    let engine = Cluster::new(sim).unwrap().engine(Owner(0)).unwrap();
    Table::new(engine, config, storage(operations))
}

/// Checks that `allowed` opens, and that each of `refused` fails with `error` and a message with
/// all of `words`.
fn limits<V: Copy>(
    make: impl Fn(V) -> Result<SimTable, ConfigError>,
    allowed: &[V],
    refused: &[(V, ConfigError)],
    words: &[&str],
) {
    for &value in allowed {
        assert!(make(value).is_ok(), "{:?}", make(value).err());
    }
    for &(value, error) in refused {
        assert_eq!(make(value).err(), Some(error));
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn first_word_begins_line() {
    let refused = |found| (found, ConfigError::Multiple { what: "first_word", found, of: 8 });
    limits(
        |first_word| new(*SIM, Config { first_word, ..CONFIG }, 1),
        &[0, 8],
        &[refused(1), refused(7), refused(9), refused(u64::MAX)],
        &["first_word is", "multiple of 8"],
    );
}

#[test]
fn buckets_fit_windows() {
    let make =
        |buckets_per_owner| new(*SIM, Config { buckets_per_owner, chunk_buckets: 8, ..CONFIG }, 1);
    let what = "buckets_per_owner";
    let odd = |found| (found, ConfigError::Multiple { what, found, of: 8 });
    let many = |found| (found, ConfigError::Room { what, found, max: 136, words: 1 });
    let none = [(0, ConfigError::Range { what, found: 0, min: 1, max: u64::MAX })];
    limits(make, &[8, 16, 128, 136], &none, &["buckets_per_owner is 0", "at least 1"]);
    limits(make, &[], &[odd(4), odd(132)], &["buckets_per_owner is", "a multiple of 8, such as"]);
    let too_many = [many(144), many(u64::MAX - 7)];
    limits(make, &[], &too_many, &["room for 136", "config.sizes(operations)"]);
    for (found, nearest) in [(4, "8"), (132, "128 or 136"), (1_001, "1000 or 1008")] {
        let (_, error) = odd(found);
        assert!(error.to_string().ends_with(&format!("such as {nearest}")), "{error}");
    }
    let nowhere = |first_word| Config { first_word, buckets_per_owner: 8, ..CONFIG };
    for first_word in [144, 152, u64::MAX - 7] {
        let none = ConfigError::Room { what, found: 8, max: 0, words: 1 };
        assert_eq!(new(*SIM, nowhere(first_word), 1).err(), Some(none), "{first_word}");
    }
}

#[test]
fn chunk_fits_part_and_slot() {
    let refused = |max| {
        let what = "chunk_buckets (C), with these parts, slots and READs,";
        move |found: u32| (found, ConfigError::Range { what, found: found.into(), min: 8, max })
    };
    let odd = |found: u32| {
        let (what, of) = ("chunk_buckets (C)", 8);
        (found, ConfigError::Multiple { what, found: found.into(), of })
    };
    let make = |chunk_buckets| new(*SIM, Config { chunk_buckets, ..CONFIG }, 1);
    limits(make, &[8, 16, 40, 48], &[56, 136].map(refused(48)), &["chunk_buckets (C)", "8 to 48"]);
    limits(make, &[], &[0, 144].map(refused(136)), &["chunk_buckets (C)", "8 to 136"]);
    let odd = [1, 7, 12, u32::MAX].map(odd);
    limits(make, &[], &odd, &["chunk_buckets (C) is", "a multiple of 8"]);
    limits(
        |chunk_buckets| new(*SIM, Config { chunk_buckets, buckets_per_owner: 24, ..CONFIG }, 1),
        &[8, 16, 24],
        &[0, 32].map(refused(24)),
        &["8 to 24"],
    );
}

#[test]
fn limits_chunks_to_65536() {
    let range = |found| ConfigError::Range { what: "max_chunks (M)", found, min: 1, max: 65_536 };
    let refused = |found: u32| (found, range(found.into()));
    limits(
        |max_chunks| new(*SIM, Config { max_chunks, ..CONFIG }, 1),
        &[1, 2, 65_535, 65_536],
        &[refused(0), refused(65_537), refused(u32::MAX)],
        &["max_chunks (M) is", "1 to 65536"],
    );
}

#[test]
fn operations_have_two_slots_each() {
    let most = SIM.slots / 2;
    let refused = |found| (found, ConfigError::Operations { found: found as usize, max: most });
    limits(
        |operations| new(*SIM, CONFIG, operations),
        &[1, 2, 3],
        &[refused(4), refused(100)],
        &["storage for", "slots for 3;", "config.sizes("],
    );
    let none = [refused(0)];
    limits(|operations| new(*SIM, CONFIG, operations), &[], &none, &["storage for at least 1"]);
}

#[test]
fn transport_holds_two_chunk_reads() {
    limits(
        |depth| new(probeline_sim::Config { depth, ..*SIM }, CONFIG, 1),
        &[2, 3],
        &[(1, ConfigError::Depth { found: 1, min: 2 })],
        &["depth is 1", "at least 2", "config.sizes"],
    );
}

#[test]
fn defaults_match_paper() {
    let config = Config::new(1_000);
    assert_eq!((config.first_word, config.chunk_buckets, config.max_chunks), (0, 32, 32));
    assert_eq!((config.words(), Config::slots(5)), (1_000, 10));
    let table = new(*SIM, CONFIG, 1).unwrap();
    assert_eq!(*table.config(), CONFIG);
    let layout = table.layout();
    assert_eq!((layout.owners(), layout.buckets_per_owner(), layout.first_word()), (2, 136, 8));
}

#[test]
fn refuses_key_beyond_63_bits() {
    let mut table = new(*SIM, CONFIG, 1).unwrap();
    let refused = OperationError::Key { bits: 64, max: 63 };
    assert!(refused.to_string().contains("at most 63"), "{refused}");
    for key in [1 << 63, u64::MAX] {
        assert_eq!(table.find_or_put(key), Err(refused));
        assert_eq!(table.find(key), Err(refused));
        assert_eq!(table.submit(Tag(1), key, Intent::FindOrPut), Err(refused));
    }
    assert_eq!((table.transport().in_flight(), *table.stats()), (0, Stats::default()));
    assert_eq!(table.local().count(), 0);
    // The only storage is still free.
    for key in [0, MAX_KEY] {
        assert_eq!(table.find(key), Ok(false));
        assert_eq!(table.find_or_put(key), Ok(Outcome::Inserted));
        assert_eq!(table.find_or_put(key), Ok(Outcome::Found));
        assert_eq!(table.find(key), Ok(true));
    }
}
