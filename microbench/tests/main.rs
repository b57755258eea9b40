//! End-to-end tests: each runs the command as a user does. One program, since to link 27 takes minutes.

mod commands;
mod common;
mod compare;
mod completions;
mod containers;
mod contigs;
mod doctor;
mod documents;
mod explore;
mod interrupt;
mod irregular;
mod kmers;
mod latency;
mod limits;
mod map;
mod meeting;
mod output;
mod progress;
mod refusals;
mod report;
mod roundtrips;
mod simulate;
mod surrogate;
mod text;
mod tune;
mod two_nodes;
