//! Virtual time: the duration of one operation, and the clocks.

use std::sync::LazyLock;

use crate::common::{add, cas, cluster, engines, finish, read, segment, word, write};
use probeline_sim::{Config, Cost, Counters, Engine, Model, Roundtrips};
use probeline_transport::{Completion, Owner, Token, Transport};

static MODEL: LazyLock<Model> = LazyLock::new(|| Model {
    post_ns: 30,
    completion_ns: 45,
    idle_poll_ns: 20,
    local: Roundtrips { read: Cost { base_ns: 200, word_ps: 500 }, atomic_ns: 300 },
    remote: Roundtrips { read: Cost { base_ns: 2_000, word_ps: 1_500 }, atomic_ns: 2_600 },
    ..Model::instant()
});

fn config(model: Model) -> Config {
    Config { model, depth: 64, ..Config::default() }
}

fn took(engine: &mut Engine, call: impl FnOnce(&mut Engine)) -> u64 {
    let start_ns = engine.now_ns();
    call(engine);
    engine.now_ns() - start_ns
}

#[test]
fn blocking_call_takes_modelled_time() {
    for scatter_reads in [false, true] {
        let cluster = cluster(Config { scatter_reads, ..config(*MODEL) });
        let mut engine = cluster.engine(Owner(0)).unwrap();
        let cpu_ns = 30 + 45;
        for (owner, read_ns, write_ns, atomic_ns) in
            [(0, 200 + 8 / 2, 200 + 16 / 2, 300), (1, 2_000 + 8 * 3 / 2, 2_000 + 16 * 3 / 2, 2_600)]
        {
            let times = [
                took(&mut engine, |e| assert!(read(e, segment(owner, 0, 8)).is_ok())),
                took(&mut engine, |e| assert!(write(e, &[7; 16], word(owner, 0)).is_ok())),
                took(&mut engine, |e| assert_eq!(cas(e, word(owner, 1), 7, 8), Ok(7))),
                took(&mut engine, |e| assert_eq!(add(e, word(owner, 1), 1), Ok(8))),
            ];
            assert_eq!(times, [read_ns, write_ns, atomic_ns, atomic_ns].map(|ns| ns + cpu_ns));
        }
        let Counters { posted, reads, writes, atomics, words, by_cpu, .. } = cluster.counters();
        assert_eq!([posted, reads, writes, atomics, words, by_cpu], [8, 2, 2, 4, 52, 0]);
    }
    let cluster = cluster(config(Model { local_by_cpu: true, ..*MODEL }));
    let mut engine = cluster.engine(Owner(0)).unwrap();
    assert!(read(&mut engine, segment(0, 0, 8)).is_ok());
    let Counters { reads, words, by_cpu, .. } = cluster.counters();
    assert_eq!([reads, words, by_cpu], [0, 0, 1]);
}

#[test]
fn operations_in_flight_overlap() {
    let cluster = cluster(config(*MODEL));
    let mut engine = cluster.engine(Owner(0)).unwrap();
    for token in 0..5 {
        engine.fetch_add(Token(token), word(1, token), 1).unwrap();
    }
    assert_eq!((engine.poll(&mut []), engine.now_ns()), (Ok(0), 5 * 30));
    assert_eq!(cluster.next_delivery(), Some((Owner(0), 30 + 2_600)));
    assert_eq!(engine.next_poll_ns(), 30 + 2_600);
    let mut completions = [Completion::default(); 8];
    // Each operation was posted 30 ns after the previous one; polling a completion costs 45 ns.
    assert_eq!(engine.poll(&mut completions), Ok(1));
    assert_eq!(engine.now_ns(), 30 + 2_600 + 45);
    assert_eq!(engine.poll(&mut completions), Ok(1));
    assert_eq!(engine.now_ns(), 30 + 2_600 + 2 * 45);
    // Two completions are due, of which the buffer takes one.
    assert_eq!(engine.poll(&mut completions[..1]), Ok(1));
    assert_eq!(engine.poll(&mut completions), Ok(2));
    assert_eq!(engine.now_ns(), 30 + 2_600 + 5 * 45);
}

#[test]
fn engines_have_separate_clocks() {
    let cluster = cluster(config(*MODEL));
    let [mut first, mut second] = <[Engine; 2]>::try_from(engines(&cluster)).ok().unwrap();
    first.spend(10_000);
    assert_eq!((first.now_ns(), second.now_ns(), cluster.now_ns()), (10_000, 0, 0));
    assert_eq!(second.poll(&mut [Completion::default()]), Ok(0));
    assert_eq!((second.now_ns(), cluster.now_ns()), (20, 20));
    first.fetch_add(Token(1), word(1, 0), 1).unwrap();
    second.fetch_add(Token(2), word(0, 0), 1).unwrap();
    assert_eq!(cluster.next_delivery(), Some((Owner(1), 20 + 30 + 2_600)));
    assert_eq!(finish(&mut second), Ok(0));
    assert_eq!(cluster.next_delivery(), Some((Owner(0), 10_000 + 30 + 2_600)));
    assert_eq!(finish(&mut first), Ok(0));
    assert_eq!(cluster.next_delivery(), None);
}

/// Even if nothing costs time, a loop of idle polls arrives at later events.
#[test]
fn idle_polls_advance_time() {
    let cluster = cluster(config(Model::instant()));
    let mut engine = cluster.engine(Owner(0)).unwrap();
    (0..5).for_each(|_| assert_eq!(engine.poll(&mut [Completion::default()]), Ok(0)));
    assert_eq!(engine.now_ns(), 5);
}
