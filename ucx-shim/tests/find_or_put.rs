//! find-or-put over UCX: processes insert the same keys at the same time; each key is inserted
//! once.

use probeline_exchange::Job;
use probeline_exchange::testing::Plan;
use probeline_table::{Config, Operation, Outcome, Table};
use probeline_transport::{Exchange, Owner, Sizes, all_gather_u64};
use probeline_ucx_shim::ucx::{Atomics, Builder};

const OWNERS: u32 = 2;
const KEYS: u64 = 4_000;

fn main() {
    probeline_exchange::testing::run(&[
        ("shared", Plan::Run(|| put_by_all("shared", "posix,sysv,cma,self", Atomics::Cpu))),
        ("tcp", Plan::Run(|| put_by_all("tcp", "tcp", Atomics::Cpu))),
        ("device", Plan::Run(|| put_by_all("device", "posix,sysv,self", Atomics::Device))),
    ]);
}

fn put_by_all(test: &str, tls: &str, atomics: Atomics) {
    let mut job = probeline_exchange::testing::start(test, OWNERS);
    // The load factor exceeds one half after the last insert.
    let config = Config::new(4096);
    let builder =
        Builder::new(Sizes::new(config.words()).with_slots(Config::slots(16), 64).with_depth(32));
    let engine = builder.tls(Some(tls)).atomics(atomics).open(&mut job).unwrap();
    let storage = vec![Operation::EMPTY; 16].into_boxed_slice();
    let mut table = Table::open(engine, config, storage, &mut job).unwrap();
    job.barrier().unwrap();
    // The processes insert in opposite orders, so that they insert the same keys at the same time.
    let mut keys: Vec<u64> = (0..KEYS).map(|key| key * 0x9e37_79b9).collect();
    if job.me() != Owner(0) {
        keys.reverse();
    }
    let mut outcomes = vec![Ok(Outcome::Full); keys.len()];
    table.find_or_put_batch(&keys, &mut outcomes).unwrap();
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == Ok(wanted)).count() as u64;
    let (inserted, found) = (count(Outcome::Inserted), count(Outcome::Found));
    assert_eq!(inserted + found, KEYS, "all inserted or found");
    assert_eq!(sum(&mut job, inserted), KEYS, "each inserted once");
    let mut again = vec![Ok(false); keys.len()];
    table.find_batch(&keys, &mut again).unwrap();
    assert!(again.iter().all(|found| *found == Ok(true)), "all keys are found");
    job.barrier().unwrap();
    drop(table);
    probeline_exchange::testing::succeed(job);
}

fn sum(job: &mut Job, mine: u64) -> u64 {
    all_gather_u64(job, mine, &mut [[0; 8]; OWNERS as usize]).unwrap().sum()
}
