//! Measures READ, WRITE, CAS and FAA on words of the next owner before a table uses them.

use core::time::Duration;

use probeline::transport::{Local, Owner, RemoteWord, Segment};
use probeline_limits::remote::WORDS;

use super::row::LatencyRow;
use super::{LatencyArgs, Limits, free_slot};
use crate::failure::Result;
use crate::latency::{Recorder, WARM_UP_SHARE};
use crate::one_sided::{Access, Chain, read};
use crate::progress::Progress;
use crate::scenario::peer;
use crate::timed::Timed;

/// Maximum rows: READs and WRITEs, a CAS and two FAAs.
pub(super) const ROWS: usize = 2 * WORDS.len() + 3;

pub(super) fn rows<T: Timed>(
    args: &LatencyArgs,
    limits: Limits,
    engine: &mut T,
    progress: &mut Progress,
) -> Result<Vec<LatencyRow>> {
    let (geometry, most) = (*engine.geometry(), engine.caps().words_per_op);
    progress.during(0, "reading every window once", || {
        (0..geometry.owners).try_for_each(|owner| touch(engine, Owner(owner)))
    })?;
    let window = 0..geometry.window_words;
    let most = u64::from(most).min(geometry.window_words);
    let lengths = || WORDS.into_iter().filter(|&words| u64::from(words) <= most);
    // Segments start at any word, as chunks of the table do.
    let reads = lengths().map(|words| (format!("READ {} B", words * 8), Access::Read { words }));
    let writes = lengths().map(|words| (format!("WRITE {} B", words * 8), Access::Write { words }));
    let atomics = [("CAS random word", Access::Swap(1)), ("FAA random word", Access::Add(1))]
        .map(|(name, access)| (name.to_owned(), access));
    let random = reads.chain(writes).chain(atomics);
    let all = random.map(|(name, access)| (name, access, window.clone()));
    let all = all.chain([("FAA one word".to_owned(), Access::Add(1), 0..1)]);

    let operations = args.ops as usize;
    let longest = Duration::from_nanos(limits.measurement_ns);
    let mut rows = Vec::new();
    for (name, access, words) in all {
        progress.expecting(rows.len() as u64, &name, longest);
        if let Access::Write { words } = access {
            engine.staged(Local { slot: free_slot(), start: 0, words })?.fill(1);
        }
        // Other words for each kind, because those of the previous kind may be in a cache.
        let seed = args.job.seed ^ (rows.len() as u64) << 32;
        let mut chain = Chain::new(access, peer(geometry.owners), words, free_slot(), seed);
        let mut recorder = Recorder::new(limits.clock_ns)?;
        let items = 0..operations + operations / WARM_UP_SHARE;
        let next = |engine: &mut T, _| chain.next(engine);
        recorder.run_warm(items, limits.measurement_ns, engine, next, T::now_ns)?;
        rows.push(LatencyRow::new(&name, recorder.latency()));
    }
    Ok(rows)
}

/// Reads an owner's whole window once, so that no measurement includes page faults.
fn touch<T: Timed>(engine: &mut T, owner: Owner) -> Result<()> {
    let geometry = *engine.geometry();
    let mut index = 0;
    while index < geometry.window_words {
        let left = u32::try_from(geometry.window_words - index).unwrap_or(u32::MAX);
        let words = geometry.slot_words.min(left);
        read(engine, Segment { start: RemoteWord { owner, index }, words }, free_slot())?;
        index += u64::from(words);
    }
    Ok(())
}
