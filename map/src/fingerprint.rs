//! The fingerprint by which owners notice that another one runs a build with another layout.

use probeline_transport::Fingerprint;

use crate::config::Config;
use crate::control::{CHECK_BITS, Control};
use crate::layout::{MAX_CANDIDATES, check, hash, store_entry};
use crate::mode::{Mode, written_by};

/// Version of what no function computes: the order of operations of each mode.
const VERSION: u64 = 2;
const KEYS: [[u8; 12]; 3] = [[0; 12], *b"twelve bytes", [0xff; 12]];
const VALUE: [u8; 20] = *b"a value of 20 bytes.";

/// Returns the fingerprint of the maps of this build: of the words and places that the hash and the
/// layout give to a few entries.
pub(crate) fn fingerprint() -> u64 {
    let config = Config { first_word: 8, mode: Mode::PartLocks, ..Config::new(1_000) };
    let layout = config.layout::<[u8; 12], [u8; 20]>(3);
    let lock = layout.part_lock(0);
    let all = Fingerprint::new(VERSION).with_all(&[
        config.words::<[u8; 12], [u8; 20]>(),
        lock.index,
        written_by(2),
        Mode::BucketLocks.counts(),
    ]);
    let all = KEYS.iter().fold(all, |all, key| {
        let hash = hash(key);
        let all =
            (0..MAX_CANDIDATES).map(|nth| layout.candidate(hash, nth)).fold(all, |all, at| {
                let (control, body) = (layout.control(at), layout.body(at));
                let check = check(hash, &VALUE, at);
                let full = Control::full(9, check);
                all.with_all(&[control.owner.0.into(), control.index, body.start.index, full.0])
                    .with_all(&[
                        Control::claimed(9, hash, 5).0,
                        Mode::Claims.dropped(full).0,
                        CHECK_BITS.into(),
                    ])
            });
        let mut words = [0; 5];
        store_entry(key, &VALUE, &mut words);
        all.with_all(&words)
    });
    all.get()
}
