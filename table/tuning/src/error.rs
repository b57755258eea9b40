//! Why there is no tuning.

use core::error::Error;
use core::fmt;
use std::io;
use std::path::PathBuf;

/// A text is no tuning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line that shows it, from 1.
    pub line: usize,
    /// What is wrong there, and what would be right.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl Error for ParseError {}

/// A tuning cannot be had from a file.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// What it says is no tuning.
    Parse(PathBuf, ParseError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(
                f,
                "{} cannot be read: {error}; give a file that probeline tune has written",
                path.display()
            ),
            Self::Parse(path, error) => write!(f, "{}, {error}", path.display()),
        }
    }
}

impl Error for LoadError {}
