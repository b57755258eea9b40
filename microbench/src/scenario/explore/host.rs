//! Services of the command for an exploration: engines, signals, progress, the cost of READs.

use probeline::table::Config;
use probeline::transport::{Exchange, Sizes};
use probeline_programs::explore::{self, Engine, MoveContent, Moved};
use probeline_programs::{Error, Timed};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::job::JobEngine;
use crate::progress::Progress;
use crate::size::Size;
use crate::table::TableArgs;
use crate::units::{rate_of, thousands};

impl Engine for JobEngine<'_> {
    fn current(&mut self) -> &mut dyn Timed {
        self.current.timed()
    }

    fn grow(
        &mut self,
        sizes: Sizes,
        exchange: &mut dyn Exchange,
        move_content: &mut MoveContent<'_>,
    ) -> Result<Moved, Error> {
        let mut next = (self.open)(sizes, exchange).map_err(error)?;
        let moved = move_content(self.current.timed(), next.timed(), exchange)?;
        if moved.is_ok() {
            self.current = next;
        }
        Ok(moved)
    }
}

/// Returns a failure of the command, as the exploration returns it.
fn error(failure: Failure) -> Error {
    Error::Engine { message: failure.to_string(), is_loss: failure.is_loss() }
}

/// Returns the failure that an exploration has returned.
pub(super) fn failure(error: Error) -> Failure {
    let is_loss = error.is_loss();
    Failure::from(error).with_loss(is_loss)
}

/// One rank of the command.
pub(super) struct Host<'a> {
    pub(super) table: &'a TableArgs,
    pub(super) progress: Progress,
}

impl explore::Host for Host<'_> {
    fn stop(&self) -> u64 {
        Interrupt::number(Interrupt::received())
    }

    fn show(&mut self, progress: explore::Progress) {
        let doing = match progress {
            explore::Progress::Level { level, states, open, elapsed } => {
                let per_s = rate_of("states", states as f64 / elapsed.as_secs_f64());
                let (states, open) = (thousands(states), thousands(open));
                format!("level {level}: {states} states, {open} to expand, {per_s}")
            }
            explore::Progress::Grow { bytes, states } => {
                format!("the table grows to {}: {} states to move", Size(bytes), thousands(states))
            }
        };
        self.progress.set(0, &doing);
    }

    fn configure(
        &mut self,
        mut engine: &mut dyn Timed,
        config: Config,
        exchange: &mut dyn Exchange,
    ) -> Result<Config, Error> {
        self.table.adapted(&mut engine, config, exchange).map_err(error)
    }
}
