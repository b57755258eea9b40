//! Who needs an owner's CPU, seen from outside: one owner sleeps while another one's operations
//! are timed.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use transport::{Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport};
use ucx_shim::mpi::{Builder, Engine, Members, World};

use crate::settings::Setting;
use crate::table::finish;

/// How long the owner sleeps each time, outside MPI.
const NAP: Duration = Duration::from_millis(600);
/// By then it sleeps: so much after all have met.
const ASLEEP_AFTER: Duration = Duration::from_millis(100);
/// What took longer has waited for it.
const WAITED: Duration = Duration::from_millis(300);

const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 3 };
const SLOT: Local = Local { slot: Slot(0), start: 0, words: 1 };
/// Posts one operation.
type Post = fn(&mut Engine);

const OPERATIONS: [(&str, Post); 4] = [
    ("READ", |engine| engine.read(Token(0), Segment { start: AT, words: 1 }, SLOT).unwrap()),
    ("WRITE", |engine| engine.write(Token(0), SLOT, Segment { start: AT, words: 1 }).unwrap()),
    ("CAS", |engine| engine.compare_and_swap(Token(0), AT, 0, 1).unwrap()),
    ("FAA", |engine| engine.fetch_add(Token(0), AT, 1).unwrap()),
];

/// Prints a row of a table: how long each operation took while its owner slept; and compares with
/// what the engine found when it was opened.
pub(crate) fn table_row(_: &World, members: &mut Members, setting: &Setting) {
    let builder = Builder::new(64).acc_single_intrinsic(setting.single);
    let mut engine = builder.open(members).unwrap();
    let mut row = format!("{:<16}", setting.name);
    let mut waited = [false; 4];
    for ((name, post), waited) in OPERATIONS.iter().zip(&mut waited) {
        members.barrier().unwrap();
        if members.me() == Owner(1) {
            thread::sleep(NAP);
        } else {
            thread::sleep(ASLEEP_AFTER);
            let start = Instant::now();
            post(&mut engine);
            finish(&mut engine);
            let took = start.elapsed();
            *waited = took > WAITED;
            row += &format!(" {name} {:>9.3} ms", took.as_secs_f64() * 1e3);
        }
        members.barrier().unwrap();
    }
    if members.me() == Owner(0) {
        println!("asleep for {NAP:?}: {row}");
        let idle = engine.facts().idle;
        let (reads, atomics) = (idle.reads_wait, idle.atomics_wait);
        assert_eq!(waited, [reads, reads, atomics, atomics], "{idle}");
        assert_eq!(engine.caps().needs_owner_progress, idle.waits());
    }
    members.barrier().unwrap();
}
