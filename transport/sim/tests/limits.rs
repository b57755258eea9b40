//! The shared limits of nodes, for random models: no limit is exceeded, a tighter limit makes
//! nothing faster, and no operation is lost or executed twice.

use crate::common::{Replay, cluster, engines, local, pick, seeds, segment, word};
use probeline_sim::{
    Config, Cost, Counters, Engine, Model, Nic, Rates, Rng, Roundtrips, Slowdown, Switches,
};
use probeline_transport::{Completion, Token, Transport};

const DEPTH: u32 = 32;
const WORDS: u32 = 64;
/// Operations of each owner: enough that those posted before the queues fill do not matter.
const OPS: u32 = 400;

/// Draws a network of 2 to 4 nodes with 1 to 4 owners each, and all limits.
fn network(rng: &mut Rng) -> (u32, Model) {
    let owners_per_node = 1 + pick(rng, 4);
    let nodes = 2 + pick(rng, 3);
    let trip = |rng: &mut Rng| Cost { base_ns: 500 + rng.below(2_000), word_ps: rng.below(2_000) };
    let trips = |rng: &mut Rng| {
        // One draw more, so that each seed keeps its network.
        let (read, _) = (trip(rng), trip(rng));
        Roundtrips { read, atomic_ns: 500 + rng.below(2_000) }
    };
    let per_s = |rng: &mut Rng| 1_000_000 + rng.below(20_000_000);
    let rates = |rng: &mut Rng| Rates {
        reads_per_s: per_s(rng),
        atomics_per_s: per_s(rng),
        ..Rates::default()
    };
    let fall = |rng: &mut Rng| Slowdown { knee: 4 + pick(rng, 64), halved_by: 1 + pick(rng, 64) };
    let model = Model {
        post_ns: rng.below(100),
        completion_ns: rng.below(50),
        owners_per_node,
        local: trips(rng),
        local_by_cpu: rng.below(2) == 0,
        remote: trips(rng),
        neighbour_ns: rng.below(100),
        switches: Switches { nodes_each: pick(rng, 4), count: 2, further_ns: rng.below(500) },
        idle_owner_ns: rng.below(500),
        nic: Nic {
            initiator: rates(rng),
            target: rates(rng),
            bytes_per_s: 500_000_000 + rng.below(5_000_000_000),
            header_bytes: pick(rng, 64),
            outstanding: fall(rng),
            connections: fall(rng),
        },
        atomic_word_ns: rng.below(200),
        ..Model::instant()
    };
    (nodes * owners_per_node, model)
}

/// Posts one random operation to a random owner; its token is the number of its slot.
fn post(engine: &mut Engine, slot: u32, owners: u32, rng: &mut Rng) {
    let to = pick(rng, owners);
    let at = rng.below(u64::from(WORDS) - 16);
    let token = Token(slot.into());
    let posted = match rng.below(4) {
        0 => engine.compare_and_swap(token, word(to, at), 0, 1),
        1 => engine.fetch_add(token, word(to, at), 1),
        _ => {
            let words = 8 * (1 + pick(rng, 2));
            engine.read(token, segment(to, at, words), local(slot, 0, words))
        }
    };
    posted.unwrap();
}

/// Keeps every engine at full depth and polls them in the order of virtual time. Returns the time
/// of the last completion in nanoseconds, and the counters.
fn flood(owners: u32, model: Model, seed: u64) -> (u64, Counters) {
    let config = Config {
        owners,
        window_words: WORDS.into(),
        slots: DEPTH,
        slot_words: 16,
        depth: DEPTH,
        model,
        seed,
        ..Config::default()
    };
    let cluster = cluster(config);
    let mut engines = engines(&cluster);
    // One generator for each owner, so that its operations do not depend on the polling order.
    let mut rngs: Vec<Rng> =
        (0..owners).map(|owner| Rng::new(seed, 99 + u64::from(owner))).collect();
    let mut left = vec![OPS; engines.len()];
    let mut free: Vec<Vec<u32>> = vec![(0..DEPTH).collect(); engines.len()];
    let mut completions = [Completion::default(); 8];
    let mut completed = 0;
    loop {
        let all = engines.iter_mut().zip(&mut left).zip(&mut free).zip(&mut rngs);
        for (((engine, left), free), rng) in all {
            while *left > 0
                && let Some(slot) = free.pop()
            {
                post(engine, slot, owners, rng);
                *left -= 1;
            }
        }
        let Some((owner, due_ns)) = cluster.next_delivery() else { break };
        let engine = &mut engines[owner.0 as usize];
        assert_eq!(engine.next_poll_ns(), due_ns);
        let before_ns = engine.now_ns();
        let count = engine.poll(&mut completions).unwrap();
        completed += count as u64;
        let slots = completions[..count]
            .iter()
            .map(|completion| u32::try_from(completion.token.0).unwrap());
        free[owner.0 as usize].extend(slots);
        assert!(engine.now_ns() >= before_ns.max(due_ns), "a clock goes back");
    }
    let counters = cluster.counters();
    assert_eq!(completed, u64::from(owners * OPS));
    assert_eq!((counters.posted, counters.completed), (completed, completed));
    let kinds = counters.reads + counters.writes + counters.atomics + counters.by_cpu;
    assert_eq!(kinds, completed, "each is of one kind");
    let end_ns = engines.iter().map(Engine::now_ns).max().unwrap();
    drop(engines);
    (end_ns, counters)
}

/// Returns the least time of `count` operations at a rate of `per_s`, in nanoseconds.
fn min_ns(count: u64, per_s: u64) -> u64 {
    count.saturating_mul(1_000_000_000) / per_s.max(1)
}

#[test]
fn exceeds_no_rate() {
    for seed in seeds(60) {
        let _replay = Replay(seed);
        let (owners, model) = network(&mut Rng::new(seed, 1));
        let nodes = u64::from(owners / model.owners_per_node);
        let (end_ns, counters) = flood(owners, model, seed);
        let nic = model.nic;
        for (what, count, per_s) in [
            ("READs sent", counters.reads, nic.initiator.reads_per_s),
            ("READs answered", counters.reads, nic.target.reads_per_s),
            ("atomics sent", counters.atomics, nic.initiator.atomics_per_s),
            ("atomics answered", counters.atomics, nic.target.atomics_per_s),
            ("bytes of READs", counters.words * 8, nic.bytes_per_s),
        ] {
            let min_ns = min_ns(count / nodes, per_s);
            assert!(end_ns >= min_ns, "{what}: {count} in {end_ns} ns, {min_ns} at least");
        }
    }
}

#[test]
fn tighter_limit_makes_nothing_faster() {
    let half = |rates: Rates| Rates {
        reads_per_s: rates.reads_per_s / 2,
        writes_per_s: rates.writes_per_s / 2,
        atomics_per_s: rates.atomics_per_s / 2,
    };
    type Tighten<'a> = (&'static str, &'a dyn Fn(&mut Model));
    let all: [Tighten<'_>; 8] = [
        ("initiator", &|m| m.nic.initiator = half(m.nic.initiator)),
        ("target", &|m| m.nic.target = half(m.nic.target)),
        ("bandwidth", &|m| m.nic.bytes_per_s /= 2),
        ("header", &|m| m.nic.header_bytes = 2 * m.nic.header_bytes + 8),
        ("outstanding", &|m| m.nic.outstanding.knee /= 2),
        ("connections", &|m| m.nic.connections.knee /= 2),
        ("word", &|m| m.atomic_word_ns = 2 * m.atomic_word_ns + 10),
        ("neighbour", &|m| m.neighbour_ns = 2 * m.neighbour_ns + 10),
    ];
    let mut sums = [[0; 2]; 8];
    for seed in seeds(25) {
        let _replay = Replay(seed);
        let (owners, model) = network(&mut Rng::new(seed, 1));
        let (before_ns, _) = flood(owners, model, seed);
        for ((what, tighten), sum) in all.iter().zip(&mut sums) {
            let mut tighter = model;
            tighten(&mut tighter);
            let (after_ns, _) = flood(owners, tighter, seed);
            // The limit also changes which operations queue behind each other, by chance. The sum
            // over seeds averages this out.
            assert!(after_ns * 10 >= before_ns * 9, "{what}: {before_ns} ns, then {after_ns} ns");
            sum[0] += before_ns;
            sum[1] += after_ns;
        }
    }
    for ((what, _), [before_ns, after_ns]) in all.iter().zip(sums) {
        assert!(after_ns * 200 >= before_ns * 199, "{what}: {before_ns} ns, then {after_ns} ns");
    }
}

/// A node whose NIC has very wide limits has the times of a node without limits.
#[test]
fn nonbinding_limit_changes_nothing() {
    for seed in seeds(20) {
        let _replay = Replay(seed);
        let (owners, model) = network(&mut Rng::new(seed, 1));
        let none = Model { nic: Nic::default(), ..model };
        let most = Rates { reads_per_s: u64::MAX, atomics_per_s: u64::MAX, ..Rates::default() };
        let never = Slowdown { knee: u32::MAX, halved_by: 1 };
        let nic = Nic { initiator: most, target: most, outstanding: never, ..Nic::default() };
        let wide = Model { nic, ..model };
        // A turn takes at least a picosecond, which rounds to a nanosecond of waiting.
        let (none_ns, none) = flood(owners, none, seed);
        let (wide_ns, wide) = flood(owners, wide, seed);
        assert!(wide_ns.abs_diff(none_ns) * 100 <= none_ns, "{none_ns} ns and {wide_ns} ns");
        assert_eq!((none.posted, none.by_cpu), (wide.posted, wide.by_cpu));
    }
}
