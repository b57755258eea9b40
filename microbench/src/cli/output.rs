//! Options of files for results.

use std::path::PathBuf;

use clap::Args;

/// Files for the results.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results")]
pub(crate) struct OutputArgs {
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the rows of the results as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Write the report as a page of Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Print every row, column, fact and note, as in the Markdown file
    #[arg(long)]
    pub(crate) full: bool,
}
