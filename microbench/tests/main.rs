//! End-to-end tests: each runs the command as a user does. One program, since to link 27 takes minutes.

mod commands;
mod common;
mod compare;
mod completions;
mod containers;
mod doctor;
mod documents;
mod explore;
mod interrupt;
mod irregular;
mod latency;
mod map;
mod output;
mod progress;
mod refusals;
mod rendezvous;
mod report;
mod sequences;
mod simulate;
mod surrogate;
mod tune;
mod two_nodes;
