//! One rank of a job, started in any of the supported ways. It executes the steps in its
//! arguments.
//!
//! ```text
//! job --ranks 3 join gather barrier                                   starts ranks 1 and 2 itself
//! job --auto 3 join gather barrier                                    the same without a launcher
//! mpirun -n 3 job --rendezvous 127.0.0.1:7000 join gather barrier     rank and size from mpirun
//! job --rank 0 --size 2 --rendezvous 127.0.0.1:7000 join barrier      rank and size by hand
//! mpirun -n 3 job join gather barrier                                 rendezvous from mpirun too
//! ```
//! A command with a rendezvous needs `PROBELINE_SECRET`. The steps are:
//!
//! - `join` and `leave`;
//! - `alone`: joins and leaves a job of one rank, beside the other one;
//! - `barrier`;
//! - `gather`: an all-gather of process IDs;
//! - `wait` (forever), `sleep=MILLISECONDS`, and `until=FILE` (until the file exists);
//! - `threads`: prints the number of threads of this process;
//! - `kill` (this process), `panic` and `exit=STATUS`.
//!
//! Only rank 2 executes the step `2:barrier`.

use core::error::Error;
use core::time::Duration;
use std::env;
use std::fs;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Instant;

use probeline_exchange::{Job, Launch, Limits, Options, Rendezvous, Server, Start, join};
use probeline_transport::Exchange;
use rustix::process::{Signal, getpid, kill_process};

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (options, steps) = read_arguments()?;
    let launch = Launch::from_env().ok().flatten();
    let rank = match (&options.start, launch) {
        (Start::Manual { rank, .. }, _) => *rank,
        (_, Some(launch)) => launch.rank,
        _ => 0,
    };
    let mut job = None;
    for step in steps {
        let step = match step.split_once(':') {
            Some((other, _)) if other != rank.to_string() => continue,
            Some((_, step)) => step,
            None => &step,
        };
        execute(step, &options, &mut job)
            .map_err(|error| format!("rank {rank} {step}: {error}"))?;
        println!("rank {rank} {step}: good");
    }
    if let Some(Err(failed)) = job.map(|job| job.finish(Duration::from_secs(10))) {
        println!("{failed}");
    }
    Ok(())
}

fn execute(step: &str, options: &Options, job: &mut Option<Job>) -> Result<(), Box<dyn Error>> {
    match (step, job) {
        ("join", job) => {
            let joined = join(options.clone())?;
            println!("rank {} has process {}", joined.me().0, process::id());
            *job = Some(joined);
        }
        ("alone", _) => {
            let start = Start::Auto { ranks: 1, rendezvous: None };
            let alone = join(Options { start, ..Options::default() })?;
            println!("joined as rank {} of {}", alone.rank(), alone.ranks());
            alone.finish(Duration::ZERO)?;
        }
        ("wait", _) => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        ("threads", _) => threads(),
        ("panic", _) => panic!("asked for"),
        ("kill", _) => kill_process(getpid(), Signal::KILL)?,
        ("leave", job) => drop(job.take().map(|job| job.finish(Duration::ZERO))),
        ("barrier", Some(job)) => job.barrier()?,
        ("gather", Some(job)) => gather(job)?,
        (_, _) => match step.split_once('=') {
            Some(("exit", status)) => process::exit(status.parse()?),
            Some(("sleep", ms)) => thread::sleep(Duration::from_millis(ms.parse()?)),
            Some(("until", file)) => {
                while !Path::new(file).exists() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            _ => return Err("unknown step, or a step that needs join before it".into()),
        },
    }
    Ok(())
}

/// Prints the number of threads. Waits up to one second for other threads to exit.
fn threads() {
    let count = || fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let until = Instant::now() + Duration::from_secs(1);
    while count() > 1 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    println!("has {} threads", count());
}

/// Gathers process IDs, and prints the number of different ones.
fn gather(job: &mut Job) -> Result<(), Box<dyn Error>> {
    let mut all = vec![0; 4 * job.owners() as usize];
    job.all_gather(&process::id().to_le_bytes(), &mut all)?;
    let mut ids: Vec<_> = all.chunks_exact(4).collect();
    ids.sort_unstable();
    ids.dedup();
    println!("rank {} of {} sees {} processes", job.me().0, job.owners(), ids.len());
    Ok(())
}

fn read_arguments() -> Result<(Options, Vec<String>), Box<dyn Error>> {
    let mut arguments = env::args().skip(1).peekable();
    let (mut ranks, mut auto, mut rank, mut size) = (None, None, None, None);
    let (mut rendezvous, mut limits, mut server) = (None, Limits::default(), None);
    while let Some(option) = arguments.next_if(|argument| argument.starts_with("--")) {
        let value = arguments.next().ok_or("an option has no value")?;
        match option.as_str() {
            "--ranks" => ranks = Some(value.parse()?),
            "--auto" => auto = Some(value.parse()?),
            "--rank" => rank = Some(value.parse()?),
            "--size" => size = Some(value.parse()?),
            "--rendezvous" => rendezvous = Some(Rendezvous { address: value, allow_remote: false }),
            "--limit" => limits.rendezvous = Duration::from_secs(value.parse()?),
            "--exchange" => server = Some(if value == "pmix" { Server::Pmix } else { Server::Pmi }),
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    let start = match (ranks, rank.zip(size), rendezvous) {
        _ if let Some(server) = server => Start::Served(server),
        (_, _, rendezvous) if let Some(ranks) = auto => Start::Auto { ranks, rendezvous },
        (Some(ranks), _, _) => Start::Spawn { ranks, arguments: None },
        (None, Some((rank, ranks)), Some(rendezvous)) => Start::Manual { rank, ranks, rendezvous },
        (None, _, rendezvous) => Start::Launched { rendezvous },
    };
    Ok((Options { start, limits, ..Options::default() }, arguments.collect()))
}
