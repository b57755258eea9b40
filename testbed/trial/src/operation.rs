//! One operation of a table, to its end.

use probeline_table::{Finished, Intent, Operation, Outcome, SubmitError, Table};
use probeline_verbs::Engine;

use crate::failure::{Result, ensure};
use crate::patience::Patience;

/// Runs one operation; nothing else of the table's may be under way.
pub(crate) fn one<S: AsMut<[Operation]>>(
    table: &mut Table<Engine, S>,
    datum: u64,
    intent: Intent,
) -> Result<Outcome> {
    let (mut end, mut patience) = ([Finished::default()], Patience::new("end of an operation"));
    // Busy where all storage waits for READs ahead of need to land.
    while let Err(refused) = table.submit(datum, datum, intent) {
        ensure(refused == SubmitError::Busy, || refused.to_string())?;
        table.poll(&mut [])?;
        patience.turn()?;
    }
    while table.poll(&mut end)? == 0 {
        patience.turn()?;
    }
    let [end] = end;
    ensure(end.tag == datum, || format!("{} ended for {datum}", end.tag))?;
    Ok(end.result?)
}
