//! Prints notes about operations that the kernel or a container forbids and without which a command
//! continues. A note is a line on standard error, printed once for all ranks of a job.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use probeline::transport::Exchange;

use crate::failure::Result;
use crate::terminal;

const LABEL: &str = "note";

/// A facility that is missing. A process prints each note once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missing {
    /// Memory is not bound to a NUMA node.
    Policy,
    /// Ranks run on the CPUs that the kernel chooses.
    Pinning,
    /// The machine's cores and nodes cannot be read.
    Topology,
}

/// Prints one note if any rank lacks this. The first such rank prints it. Returns whether any rank
/// lacks it. All ranks call this.
pub(crate) fn say_once(
    missing: Missing,
    why: Option<impl fmt::Display>,
    exchange: &mut dyn Exchange,
) -> Result<bool> {
    let me = exchange.me().0;
    let first = first_rank(why.is_some(), exchange)?;
    if let Some(why) = why.filter(|_| first == Some(me)) {
        static SAID: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
        let was_said = SAID[missing as usize].swap(true, Ordering::Relaxed);
        if !was_said && !terminal::is_quiet() {
            let rank = if me == 0 { String::new() } else { format!(", rank {me}") };
            // One write, because several ranks may write at once. Errors are ignored: standard error
            // may be closed.
            let _ = writeln!(terminal::stderr(), "{LABEL}{rank}: {why}");
        }
    }
    Ok(first.is_some())
}

/// Returns the first rank for which this is `true`. All ranks call this.
pub(crate) fn first_rank(mine: bool, exchange: &mut dyn Exchange) -> Result<Option<u32>> {
    let me = if mine { exchange.me().0.into() } else { u64::MAX };
    Ok(u32::try_from(exchange.min(me)?).ok())
}

pub(crate) fn is_note(line: &str) -> bool {
    line.strip_prefix(LABEL).is_some_and(|rest| rest.starts_with([':', ',']))
}
