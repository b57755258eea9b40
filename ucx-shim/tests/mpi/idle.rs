//! Measures which operations need the owner's CPU. An owner stays out of MPI until another owner's
//! operation has completed, or until a time limit. Then it enters MPI so that the operation
//! completes.

use core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;
use std::{env, process, thread};

use probeline_transport::{
    Exchange, Local, Owner, RemoteWord, Segment, Sizes, Slot, Token, Transport,
};
use probeline_ucx_shim::NeedsOwner;
use probeline_ucx_shim::mpi::{Builder, Engine, Members, World};

use crate::settings::Setting;
use crate::table::finish;

/// The maximum time for which the owner stays out of MPI.
const NAP: Duration = Duration::from_secs(1);
/// The time for which an owner waits for the other one to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of attempts for an operation that should not wait: in an attempt in which its rank
/// gets no CPU for the whole nap, the operation counts as one that waited.
const TRIES: u32 = 5;

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

/// Prints a row of a table: which operations waited for an owner that was not in MPI. Compares the
/// row with what the engine found when it was opened.
pub(crate) fn table_row(_: &World, members: &mut Members, setting: &Setting) {
    let builder = Builder::new(Sizes::new(64)).acc_single_intrinsic(setting.single);
    let mut engine = builder.open(members).unwrap();
    let info = engine.info().clone();
    let NeedsOwner { reads, atomics } = info.needs_owner;
    assert_eq!(engine.caps().needs_owner_progress, reads || atomics);
    let expected = [reads, reads, atomics, atomics];
    // Both ranks make the same calls, because the facts and `waits` are the same on both.
    let mut waited = expected;
    for (waited, (_, post)) in waited.iter_mut().zip(OPERATIONS) {
        let tries = if *waited { 1 } else { TRIES };
        *waited = (0..tries).all(|_| waits(&mut engine, members, post));
    }
    if members.me() == Owner(0) {
        let row = OPERATIONS.iter().zip(waited);
        let row: Vec<_> = row.map(|((name, _), waited)| format!("{name} {waited}")).collect();
        println!("{:<16} waited for the owner: {}; {info}", setting.name, row.join(", "));
    }
    assert_eq!(waited, expected, "the engine has found: {info}");
}

/// Returns whether the operation waits for its owner; all members return the same answer.
fn waits(engine: &mut Engine, members: &mut Members, post: Post) -> bool {
    // Both ranks run on this machine and use the same file names.
    let number = broadcast(members, Owner(0), process::id());
    let event = |what: &str| env::temp_dir().join(format!("probeline-idle-{number}-{what}"));
    let (out, ended) = (event("out"), event("ended"));
    let mut waited = false;
    if members.me() == Owner(1) {
        File::create(&out).unwrap();
        waited = !happens(&ended, NAP);
    } else {
        assert!(happens(&out, PATIENCE), "the owner never left MPI");
        post(engine);
        finish(engine);
        File::create(&ended).unwrap();
    }
    let waited = broadcast(members, Owner(1), waited.into()) != 0;
    if members.me() == Owner(0) {
        for event in [out, ended] {
            fs::remove_file(event).unwrap();
        }
    }
    members.barrier().unwrap();
    waited
}

/// Returns whether the file is created within this time.
fn happens(event: &Path, within: Duration) -> bool {
    let begin = Instant::now();
    while !event.exists() {
        if begin.elapsed() > within {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Sends the value of `owner` to all members.
fn broadcast(members: &mut Members, owner: Owner, mine: u32) -> u32 {
    let mut all = vec![0; 4 * members.owners() as usize];
    members.all_gather(&mine.to_le_bytes(), &mut all).unwrap();
    let (words, _) = all.as_chunks();
    u32::from_le_bytes(words[owner.0 as usize])
}
