//! `report`: a page of plots, and SVG files, from the JSON that other commands wrote.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use ::report::{Error, Report, TITLE};
use clap::Args;

use crate::failure::Result;
use crate::report::SCHEMA;

#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Files that commands wrote with --json, of any commands, transports and machines
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,

    /// Write the page here: one file that needs no network
    #[arg(long, value_name = "FILE", required_unless_present = "svg")]
    html: Option<PathBuf>,

    /// Write each plot as an SVG file into this folder, which is made if it is not there
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// What the page is called
    #[arg(long, value_name = "TITLE", default_value = TITLE)]
    title: String,
}

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let report = Report::read(&args.runs, SCHEMA)?;
    let mut lines = Vec::new();
    if let Some(html) = &args.html {
        write_page(html, &report.html(&args.title)?)?;
        lines.push(format!("page: {}", html.display()));
    }
    if let Some(svg) = &args.svg {
        let count = report.write_svgs(svg)?;
        lines.push(format!("plots: {count} files in {}", svg.display()));
    }
    lines.extend(report.left_out().map(|text| format!("left out: {text}")));
    match print(&lines) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

fn write_page(file: &Path, page: &str) -> core::result::Result<(), Error> {
    fs::write(file, page).map_err(|source| Error::Write { file: file.to_owned(), source })
}

fn print(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}
