//! Two processes share a table over shared memory: the whole order of opening, use and closing.
//!
//! cargo run --release -p probeline --example two_processes
//!
//! Rank 0 starts rank 1. Under mpirun or srun the ranks are there already, and this program takes
//! part in their job.

use core::error::Error;
use core::time::Duration;

use probeline::exchange::{Options, join};
use probeline::shm;
use probeline::table::{Config, Ended, Finished, Intent, Operation, Table, Tag};
use probeline::transport::Exchange;

/// Keys; each rank inserts all of them, so each is new on one rank and found on the other.
const KEYS: u64 = 100_000;
/// Operations in flight of each rank.
const OPERATIONS: u32 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    // 1. Join the job.
    let mut job = join(Options::auto(2))?;
    let (rank, ranks) = (job.rank(), job.ranks());

    // 2. Open an engine that has the sizes the table needs, then the table. Both calls are
    //    collective: every rank makes them, in this order, with the same sizes.
    let config = Config::for_keys(KEYS, ranks);
    let sizes = config.sizes(OPERATIONS);
    let engine = shm::Builder::new(sizes).open(&mut job)?;
    let mut table = Table::open(engine, config, [Operation::EMPTY; OPERATIONS as usize], &mut job)?;

    // 3. Work, in a poll loop of the program's own: start operations while there is storage, poll,
    //    use the results. No rank waits for another here.
    let mut keys = 0..KEYS;
    let mut next = keys.next();
    let mut inserted = 0_u64;
    let mut finished = [Finished::default(); OPERATIONS as usize];
    while next.is_some() || table.in_flight() > 0 {
        while let Some(key) = next
            && table.has_room()
        {
            table.submit(Tag(key), key, Intent::FindOrPut)?;
            next = keys.next();
        }
        for operation in table.poll_into(&mut finished)? {
            match operation.result? {
                Ended::Inserted => inserted += 1,
                Ended::Found => {}
                outcome => return Err(format!("key {:?}: {outcome:?}", operation.tag).into()),
            }
        }
    }
    println!("rank {rank} of {ranks}: inserted {inserted} of {KEYS} keys");

    // 4. Meet before anything is counted, cleared or closed: `len` is collective and has barriers of
    //    its own.
    assert_eq!(table.len(&mut job)?, KEYS);

    // 5. Close in this order: a barrier, so that no rank uses the others' windows any more; then the
    //    table with its engine; then the job. A rank that drops its engine earlier ends the engines
    //    of the others with `Fault::OwnerLost`.
    job.barrier()?;
    drop(table);
    job.finish(Duration::from_secs(10))?;
    Ok(())
}
