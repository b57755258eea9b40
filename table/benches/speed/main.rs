//! `just bench-speed`: the table on shared memory beside the limits of this machine's memory and
//! beside the sets that a program could use within one process. The output is a table of ratios
//! with their targets.
#![forbid(unsafe_code)]

pub(crate) mod bench;
pub(crate) mod keys;
mod limits;
pub(crate) mod member;
pub(crate) mod rank;
pub(crate) mod ratio;
pub(crate) mod sets;
pub(crate) mod tables;

use std::io::Write;

use bench::Args;
use clap::Parser;

type Result<T, E = Box<dyn core::error::Error + Send + Sync>> = core::result::Result<T, E>;

fn main() -> Result<()> {
    let args = Args::parse();
    for width in &args.words {
        let (about, rows) = (width.run)(&args)?;
        let (name, case, measured, baseline) = ("ratio of medians", "case", "measured", "baseline");
        let mut text =
            format!("{about}\n{name:62} {case:30} {measured} {baseline}       ratio  target\n");
        rows.iter().for_each(|row| text += &format!("{row}\n"));
        // The reader may close the pipe.
        let _ = writeln!(std::io::stdout(), "{text}");
    }
    Ok(())
}
