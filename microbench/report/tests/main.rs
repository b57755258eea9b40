//! Tests of files and of pages, in one program that is linked once.

mod page;
mod reading;
mod runs;
