//! Tests that need many open files, or lower this process's limit of open files.
//!
//! The custom harness runs them one after another. It counts a test as ignored if the hard limit is
//! lower than the number of files that the test needs.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "most tests run elsewhere")]
#![forbid(unsafe_code)]

mod coordinator;
mod difference;
mod error;
mod handshake;
mod job;
mod launch;
mod limits;
mod link;
mod machine;
mod member;
mod pending;
mod refusal;
mod rendezvous;
mod secret;
mod server;
mod socket;
mod spawn;
mod spec;
mod tcp;
mod tests;
mod threads;

use std::panic::catch_unwind;
use std::{env, process};

use coordinator::tests as descriptors;
use difference::Difference;
use job::{Job, Options, join};
use launch::Launch;
use limits::{Limits, MAX_ALL_TO_ALL_BYTES, MAX_PARAMETERS_BYTES, MAX_RESULT_BYTES};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use secret::Secret;
use tests::{flood, large};
use threads::{THREADS_LIMIT, threads};

/// The maximum number of files that a test opens in addition to those that it names.
const SPARE_FILES: usize = 64;

/// Name, open files, and function of a test.
type Test = (&'static str, usize, fn());

macro_rules! tests {
    ($($files:expr => $module:ident::{$($test:ident),* $(,)?})*) => {
        &[$($((stringify!($test), $files, $module::$test)),*),*]
    };
}

const TESTS: &[Test] = tests! {
    0 => descriptors::{
        at_the_limit_no_connection_is_evicted_for_an_empty_queue,
        at_the_limit_a_connection_is_evicted_for_a_waiting_one,
        a_shortage_ends_when_no_connection_waits,
    }
    flood::FILES => flood::{
        ranks_join_among_idle_strangers,
        ranks_join_among_strangers_with_a_partial_first_message,
        ranks_join_among_strangers_with_a_whole_first_message,
        ranks_join_among_strangers_with_a_replayed_first_message,
    }
    large::FILES => large::{the_largest_job_exchanges_its_connection_information}
};

/// Runs the tests whose names contain the program's first argument, or all tests without an
/// argument, and counts them like the standard test harness.
fn main() {
    let wanted = env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| wanted.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let [mut passed, mut failed, mut ignored] = [0; 3];
    for (name, files, test) in TESTS.iter().filter(|(name, ..)| wanted(name)) {
        let (end, count) = match allow_files(files + SPARE_FILES) {
            Err(why) => (format!("ignored, {why}"), &mut ignored),
            Ok(()) if catch_unwind(test).is_ok() => ("ok".to_owned(), &mut passed),
            Ok(()) => ("FAILED".to_owned(), &mut failed),
        };
        *count += 1;
        println!("test {name} ... {end}");
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored");
    process::exit(failed);
}

/// Raises the soft limit of open files to `needed` if it is lower.
///
/// # Errors
/// The reason why the limit cannot be raised.
fn allow_files(needed: usize) -> Result<(), String> {
    let needed = needed as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= needed) {
        return Ok(());
    }
    if let Some(limit) = maximum.filter(|limit| *limit < needed) {
        return Err(format!("it needs {needed} open files, and the hard limit is {limit}"));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|errno| format!("the limit of open files cannot be raised: {errno}"))
}
