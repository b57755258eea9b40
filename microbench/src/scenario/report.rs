//! `report`: plots the JSON that other commands wrote, as a page or as SVG files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use probeline_programs::STANDARD;
use probeline_report::{Problem, Report, TITLE};

use crate::failure::{Failure, Result};
use crate::progress::waiting;
use crate::terminal::{self, Printer};

#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Files that commands wrote with --json, of any commands, transports and machines
    #[arg(required = true, value_name = "RUN.json")]
    runs: Vec<PathBuf>,

    /// Write the page here: one file that needs no network; `-` is the standard output
    /// [default: a new file report.html, unless --svg is given]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each plot as an SVG file into this folder, which is made if it does not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    svg: Option<PathBuf>,
}

/// The page if neither --html nor --svg is given.
const DEFAULT_PAGE: &str = "report.html";

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let html = args.page();
    let report = waiting("reading runs", true, || Report::read(&args.runs))?;
    let mut lines = Vec::new();
    let mut page = None;
    if let Some(html) = &html {
        let text = waiting("drawing the page", true, || report.html(TITLE));
        if html.as_os_str() == STANDARD {
            page = Some(text);
        } else {
            write_page(html, &text, args.html.is_none())?;
            lines.push(format!("page: {}", html.display()));
        }
    }
    if let Some(svg) = &args.svg {
        let count = waiting("drawing plots", true, || report.write_svgs(svg))?;
        lines.push(format!("plots: {count} files in {}", svg.display()));
    }
    if terminal::is_quiet() {
        lines.clear();
    }
    let printed = match page {
        Some(page) => {
            print(terminal::stderr(), &lines).and_then(|()| writeln!(terminal::stdout(), "{page}"))
        }
        None => print(terminal::stdout(), &lines),
    };
    Ok(terminal::unless_closed(printed)?)
}

impl ReportArgs {
    /// Returns the file of the page, if one is to be written.
    fn page(&self) -> Option<PathBuf> {
        self.html.clone().or_else(|| self.svg.is_none().then(|| DEFAULT_PAGE.into()))
    }
}

/// Writes the page. An existing file is overwritten, unless the page `must_be_new`: a name that the
/// user did not give may be of another file.
fn write_page(file: &Path, page: &str, must_be_new: bool) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).truncate(true).create(true).create_new(must_be_new);
    match options.open(file).and_then(|mut file| file.write_all(page.as_bytes())) {
        Err(error) if must_be_new && error.kind() == io::ErrorKind::AlreadyExists => {
            let file = file.display();
            Err(Failure::new(format!(
                "{file} exists and is kept: name the page with --html FILE, which overwrites it, or \
                 a folder for the plots with --svg DIR"
            )))
        }
        written => Ok(written.map_err(|error| Problem::Write(error).of(file))?),
    }
}

fn print(mut out: Printer<impl Write>, lines: &[String]) -> io::Result<()> {
    lines.iter().try_for_each(|line| out.line(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_alone_suppresses_page() {
        let args = |html: Option<&str>, svg: Option<&str>| ReportArgs {
            runs: Vec::new(),
            html: html.map(Into::into),
            svg: svg.map(Into::into),
        };
        assert_eq!(args(None, None).page(), Some(DEFAULT_PAGE.into()));
        assert_eq!(args(None, Some("plots")).page(), None);
        assert_eq!(args(Some("a.html"), Some("plots")).page(), Some("a.html".into()));
    }

    #[test]
    fn replaces_only_named_page() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(DEFAULT_PAGE);
        write_page(&file, "first", true).unwrap();
        let refused = write_page(&file, "second", true).unwrap_err().to_string();
        let kept = fs::read_to_string(&file).unwrap();
        write_page(&file, "third", false).unwrap();
        let named = fs::read_to_string(&file).unwrap();
        assert!(refused.contains("--html FILE") && refused.contains("--svg DIR"), "{refused}");
        assert_eq!((kept, named), ("first".into(), "third".into()));
    }
}
