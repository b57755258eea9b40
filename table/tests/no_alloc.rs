//! After opening, nothing allocates: blocking calls, the poll form, and the collective calls.

mod common;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::hint::black_box;
use std::alloc::System;

use common::job::{Sizes, on_shm};
use common::storage;
use table::{Config, Finished, Intent, SubmitError, Table};
use transport::Exchange;

/// The system's allocator, counting the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to `System` unchanged, which upholds the contract. The counter is a
// thread-local without destructor or lazy initialisation, so counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller upholds `System`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds `System`'s contract, which is the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of this thread in a call, which may not be moved out of it.
fn allocations(call: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    black_box(call)();
    ALLOCATIONS.get() - before
}

const OPERATIONS: u32 = 8;
const CONFIG: Config =
    Config { first_word: 0, buckets_per_owner: 1_024, chunk_buckets: 16, max_chunks: 8 };
/// More than there are buckets, so that some find no room.
const KEYS: u64 = 2_500;

#[test]
fn nothing_allocates_after_opening() {
    // Fewer than all operations can post, so that they queue.
    let sizes = Sizes { operations: OPERATIONS, depth: 5, ..Sizes::of(2, &CONFIG) };
    let counts = on_shm(sizes, |engine, mut exchange| {
        let mut table = Table::open(engine, CONFIG, storage(OPERATIONS), &mut exchange).unwrap();
        let blocking = allocations(|| {
            for data in 0..KEYS / 2 {
                table.find_or_put(data).unwrap();
                table.find(data + KEYS / 4).unwrap();
            }
        });
        let poll_form = allocations(|| {
            let mut out = [Finished::default(); 3];
            let mut ended = 0;
            for tag in 0..KEYS {
                while table.submit(tag, tag, Intent::FindOrPut) == Err(SubmitError::Busy) {
                    ended += table.poll(&mut out).unwrap();
                }
            }
            while ended < usize::try_from(KEYS).unwrap() {
                ended += table.poll(&mut out).unwrap();
            }
        });
        let full = table.stats().full.operations;
        let refused = allocations(|| {
            assert!(table.find_or_put(u64::MAX).is_err());
            assert!(table.submit(0, u64::MAX, Intent::Find).is_err());
        });
        let collective = allocations(|| {
            let exchange: &mut dyn Exchange = &mut exchange;
            table.agree(exchange).unwrap();
            assert!(table.len(exchange).unwrap() > 2_000);
            assert!(table.load_factor(exchange).unwrap() > 0.9);
            table.retain(exchange, |data| data % 3 > 0).unwrap();
            table.clear(exchange).unwrap();
        });
        assert!(full > 0);
        [blocking, poll_form, refused, collective]
    });
    assert_eq!(counts, [[0; 4]; 2], "blocking, poll form, refused, collective");
    assert_eq!(allocations(|| drop(black_box(vec![1; 8]))), 1, "the counter counts");
}
