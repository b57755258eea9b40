//! Reports of runs: one page of plots, which needs no network and no other file, and the plots as
//! SVG files.
//!
//! It reads the JSON that the commands of `probeline` write with `--json`, of any number of runs,
//! transports and machines. It omits plots for which no run has data.
#![forbid(unsafe_code)]

// Lets code that `results::row!` generates refer to this crate by name, here too.
extern crate self as probeline_report;

mod axis;
mod chapters;
mod chart;
mod draw;
mod error;
mod number;
mod origin;
mod page;
mod plot;
pub mod results;
mod run;

use std::fs;
use std::path::{Path, PathBuf};

pub use error::{Error, Problem};

use chart::Chapter;
use plot::Plot;
use results::printable;
use run::Run;

/// The default title of a page.
pub const TITLE: &str = "Probeline report";

/// Runs and their plots.
pub struct Report {
    runs: Vec<Run>,
    chapters: Vec<Chapter>,
}

impl Report {
    /// Reads the JSON of runs. A run that is given twice counts once.
    pub fn read(files: &[PathBuf]) -> Result<Self, Error> {
        let mut runs: Vec<Run> = Vec::new();
        for file in files {
            let run = Run::read(file)?;
            match runs.iter_mut().find(|other| other.is(&run)) {
                Some(same) => same.files.extend(run.files),
                None => runs.push(Run { number: runs.len() + 1, ..run }),
            }
        }
        let chapters = chapters::all(&runs);
        Ok(Self { runs, chapters })
    }

    /// Returns the page.
    pub fn html(&self, title: &str) -> String {
        let page = page::page(title, &self.runs, &self.chapters);
        printable::lines(&page).into_owned()
    }

    /// Returns the name, without an extension, and the SVG of each plot.
    pub fn svgs(&self) -> Vec<(String, String)> {
        let svg = |plot: &Plot| {
            let svg = draw::draw(plot).into_string();
            let svg = svg.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
            // XML cannot represent most control characters (XML 1.0, 2.2).
            (plot.id.clone(), printable::lines(&svg).into_owned())
        };
        self.chapters.iter().flat_map(|chapter| &chapter.plots).map(svg).collect()
    }

    /// Writes each plot into a file in `folder`, which it creates if necessary. Returns their
    /// number.
    pub fn write_svgs(&self, folder: &Path) -> Result<usize, Error> {
        let failed = |file: &Path| {
            let file = file.to_owned();
            move |error| Problem::Write(error).of(file)
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let svgs = self.svgs();
        for (name, svg) in &svgs {
            let file = folder.join(format!("{name}.svg"));
            fs::write(&file, svg).map_err(failed(&file))?;
        }
        Ok(svgs.len())
    }
}

/// Returns the distinct values in the order of their first occurrence.
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}
