//! Tests of jobs of processes, in one program that is linked once.

mod common;
mod processes;
mod served;
