//! Tests of structures and of their driver, in one program that is linked once.

mod collective;
mod counters;
mod faulty_machines;
mod structure;
