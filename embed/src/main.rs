//! The table embedded without std: no allocator, a transport and a panic handler of its own.
//!
//! Fills a table through the blocking call and through the poll form, queries it, and exits with
//! 0 if every answer was right. That this links is the proof that `table` and `transport` need
//! neither std nor alloc; with the feature `prove-no-panic` it links only if the optimiser has
//! found that nothing in it can panic.
#![no_std]
#![no_main]

mod memory;

use core::ffi::c_int;
use core::panic::PanicInfo;

use memory::Memory;
use table::{Config, Finished, Intent, Operation, Outcome, Table};
use transport::Alone;

// The C library gives the program its start and `abort`; nothing of Rust's std is linked.
#[link(name = "c")]
unsafe extern "C" {
    #[cfg(not(feature = "prove-no-panic"))]
    safe fn abort() -> !;
    #[cfg(feature = "prove-no-panic")]
    safe fn probeline_can_panic() -> !;
}

#[cfg(not(feature = "prove-no-panic"))]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    abort()
}

/// Names a symbol that does not exist, so that a panic left in the program fails the link.
#[cfg(feature = "prove-no-panic")]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    probeline_can_panic()
}

// SAFETY: never called, as nothing unwinds with panic = "abort"; the prebuilt libcore names it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

const BUCKETS: u64 = 4096;
/// Fills 90 % of the table, so that probing passes chunks and wraps round.
const DATA: u64 = BUCKETS * 9 / 10;

// SAFETY: the only `main` in the program, with the signature that C calls it by.
#[unsafe(no_mangle)]
extern "C" fn main(_: c_int, _: *const *const u8) -> c_int {
    match fill_and_query() {
        Some(()) => 0,
        None => 1,
    }
}

fn fill_and_query() -> Option<()> {
    let config = Config { chunk_buckets: 8, max_chunks: 64, ..Config::new(BUCKETS) };
    let mut operations = [const { Operation::EMPTY }; 8];
    let mut table = Table::open(Memory::new(), config, &mut operations[..], &mut Alone).ok()?;
    for data in 0..DATA / 2 {
        expect(table.find_or_put(data) == Ok(Outcome::Inserted))?;
    }
    let (found, inserted) = submit_all(&mut table)?;
    expect((found, inserted) == (DATA / 2, DATA - DATA / 2))?;
    for data in 0..DATA {
        expect(table.find(data) == Ok(true))?;
    }
    expect(table.find(DATA) == Ok(false))?;
    expect(table.find_or_put(u64::MAX).is_err())?;
    expect(table.len(&mut Alone) == Ok(DATA))?;
    expect(table.retain(&mut Alone, |data| data % 3 == 0) == Ok(DATA - DATA.div_ceil(3)))?;
    expect(table.find(3) == Ok(true) && table.find(4) == Ok(false))?;
    #[cfg(feature = "canary")]
    assert!(table.find(5) != Ok(true), "a panic that the proof must notice");
    Some(())
}

/// Puts all data through the poll form, and counts what was found and what inserted.
fn submit_all(table: &mut Table<Memory, &mut [Operation]>) -> Option<(u64, u64)> {
    let (mut next, mut found, mut inserted) = (0, 0, 0);
    while found + inserted < DATA {
        while next < DATA && table.submit(next, next, Intent::FindOrPut).is_ok() {
            next += 1;
        }
        let mut finished = [Finished::default(); 4];
        let count = table.poll(&mut finished).ok()?;
        for end in finished.iter().take(count) {
            match end.result.ok()? {
                Outcome::Found => found += 1,
                Outcome::Inserted => inserted += 1,
                Outcome::Full | Outcome::Absent => return None,
            }
        }
    }
    Some((found, inserted))
}

fn expect(holds: bool) -> Option<()> {
    holds.then_some(())
}
