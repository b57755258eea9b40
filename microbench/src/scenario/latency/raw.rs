//! Measures READ, WRITE, CAS and FAA on words of the next owner before a table uses them.

use core::time::Duration;

use probeline::transport::{Owner, RemoteWord, Segment, Slot, SlotRange};
use probeline_programs::Timed;

use super::recorder::{Recorder, WARM_UP_SHARE};
use super::row::LatencyRow;
use super::{LatencyArgs, free_slot};
use crate::failure::Result;
use crate::meter::{Meter, Operation, Plan, WORDS};
use crate::one_sided::read;
use crate::progress::Progress;
use crate::scenario::limits::operation_name;
use crate::scenario::peer;

/// Maximum rows: READs and WRITEs, a CAS and two FAAs.
pub(super) const ROWS: usize = 2 * WORDS.len() + 3;

pub(super) fn rows<T: Timed>(
    args: &LatencyArgs,
    clock_ns: u64,
    engine: &mut T,
    progress: &mut Progress,
) -> Result<Vec<LatencyRow>> {
    let (geometry, max) = (*engine.geometry(), engine.caps().words_per_op);
    progress.during(0, "reading every window once", || {
        (0..geometry.owners).try_for_each(|owner| touch(engine, Owner(owner)))
    })?;
    let max = u64::from(max).min(geometry.window_words);
    let lengths = || WORDS.into_iter().filter(|&words| u64::from(words) <= max);
    // Segments start at any word, as chunks of the table do.
    let reads = lengths().map(|words| Operation::Read { words });
    let writes = lengths().map(|words| Operation::Write { words });
    let random = reads.chain(writes).chain([Operation::Swap, Operation::Add]);
    let all = random.map(|operation| (operation, false)).chain([(Operation::Add, true)]);

    let (operations, owner) = (args.ops as usize, peer(geometry.owners));
    let longest = Duration::from_nanos(args.measurement_ns());
    let mut rows = Vec::new();
    for (operation, one_word) in all {
        let name = operation_name(operation, one_word);
        progress.expecting(rows.len() as u64, &name, longest);
        if let Operation::Write { words } = operation {
            engine.staged(SlotRange { slot: Slot(0), start: 0, words })?.fill(1);
        }
        // Other words for each kind, because those of the previous kind may be in a cache.
        let seed = args.job.seed ^ (rows.len() as u64) << 32;
        let words = 0..if one_word { 1 } else { geometry.window_words };
        let plan = Plan { owner, words, time: Duration::ZERO, operations: 0 };
        let mut meter = Meter::new(&mut *engine, plan, seed)?;
        let items = 0..operations + operations / WARM_UP_SHARE;
        let once = |meter: &mut Meter<'_, T>, _| meter.once(operation);
        let (limit_ns, now) = (args.measurement_ns(), Meter::now_ns);
        let recorder = Recorder::run_warm(clock_ns, items, limit_ns, &mut meter, once, now)?;
        rows.push(recorder.row(&name));
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
