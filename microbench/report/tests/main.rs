//! Tests of files, and of pages in a browser, in one program that is linked once.

mod browser;
mod page;
mod reading;
mod runs;
