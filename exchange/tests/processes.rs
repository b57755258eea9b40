//! Jobs of processes: spawned by rank 0, started by hand, and started by mpirun and mpiexec with a
//! rendezvous address. Tests cover killed processes and missing options.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command};
use std::thread;
use std::time::Instant;

use crate::common::{MPICH, OPEN_MPI, SECOND, command, job, launched, port, run};

/// The time limit of immediate actions, even on a busy machine. Actions that wait for their own
/// limit take longer.
const AT_ONCE: Duration = Duration::from_secs(40);

fn spawned(arguments: &[&str]) -> Command {
    let mut command = command(&job());
    command.args(arguments);
    command
}

/// A rank of a job that is started by hand. Dropping it kills the process.
struct Rank {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Rank {
    fn start(rank: u32, size: u32, port: u16, steps: &[&str]) -> Self {
        let (rank, size) = (rank.to_string(), size.to_string());
        let address = format!("127.0.0.1:{port}");
        let mut command = spawned(&["--rank", &rank, "--size", &size, "--rendezvous", &address]);
        let mut process = command.args(steps).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    fn read_until(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                let mut output = String::new();
                self.process.stderr.take().unwrap().read_to_string(&mut output).unwrap();
                panic!("ended before {text:?}: {output}");
            }
        }
        line
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut output = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        (self.process.wait().unwrap().code(), output)
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns whether a process is running. A zombie is not.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap().trim().chars().next();
    state.is_some_and(|state| state != 'Z')
}

fn wait_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !done() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    done()
}

#[test]
fn spawned_job_succeeds() {
    let (output, stdout, stderr) =
        run(&mut spawned(&["--ranks", "4", "join", "gather", "barrier"]));
    assert!(output.status.success(), "{stderr}");
    for rank in 0..4 {
        assert!(stdout.contains(&format!("rank {rank} of 4 sees 4 processes")), "{stdout}");
    }
    assert!(!stdout.contains("failed"), "{stdout}");
}

#[test]
fn single_rank_spawns_no_process() {
    let (output, stdout, stderr) = run(&mut spawned(&["--ranks", "1", "join", "gather"]));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("rank 0 of 1 sees 1 processes"), "{stdout}");
}

#[test]
fn reports_every_exit_status() {
    let (output, stdout, stderr) =
        run(&mut spawned(&["--ranks", "3", "join", "barrier", "1:exit=7", "2:kill"]));
    assert!(output.status.success(), "{stderr}");
    assert!(
        stdout.contains("rank 1 failed (exit status: 7); rank 2 failed (signal: 9"),
        "{stdout}"
    );
}

/// The error of the call that misses a rank has its exit status, even if no rank calls `finish`.
#[test]
fn waiting_calls_report_exit_status() {
    for (step, exit) in
        [("1:exit=7", "exit status 7"), ("1:panic", "exit status 101"), ("1:kill", "signal 9")]
    {
        let steps = ["--ranks", "3", "join", "barrier", step, "barrier"];
        let (output, stdout, stderr) = run(&mut spawned(&steps));
        assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
        let expected = format!("rank 0 barrier: owner 1 died or left ({exit})");
        assert!(stderr.contains(&expected), "{step}: {stderr}");
    }
}

/// Each copy that a second spawned job started would join it with the first part of the program.
#[test]
fn refuses_second_spawned_job() {
    let (output, stdout, stderr) = run(&mut spawned(&["--ranks", "2", "join", "barrier", "join"]));
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stderr.contains("rank 0 join: this program has joined a job already"), "{stderr}");
    assert_eq!(stdout.matches("has process").count(), 2, "{stdout}");
    // Rank 1 would wait a minute for the rank 0 of the first job.
    let steps = ["--ranks", "2", "join", "barrier", "1:join", "0:barrier"];
    let (_, stdout, stderr) = run(&mut spawned(&steps));
    assert!(stderr.contains("rank 1 join: this program has joined a job already"), "{stderr}");
    assert!(stderr.contains("owner 1 died or left (exit status 1)"), "{stdout}{stderr}");
}

/// Jobs of one rank start no copies, so they disturb no job whose ranks are copies, nor does it them.
#[test]
fn single_rank_job_beside_spawned() {
    let steps = ["--ranks", "2", "alone", "join", "alone", "barrier"];
    let (output, stdout, stderr) = run(&mut spawned(&steps));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.matches("joined as rank 0 of 1").count(), 4, "{stdout}");
    assert_eq!(stdout.matches("has process").count(), 2, "{stdout}");
}

/// Read its output, and not its address: a copy has the right one.
#[test]
fn names_copy_that_never_joins() {
    let steps = ["--ranks", "2", "--limit", "1", "1:sleep=60000", "join"];
    let (output, _, stderr) = run(&mut spawned(&steps));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("rank 1 did not come within 1 s. Read its output, and"), "{stderr}");
    assert!(stderr.contains("that every rank joins early"), "{stderr}");
}

#[test]
fn starts_ranks_without_launcher() {
    let (output, stdout, stderr) = run(&mut spawned(&["--auto", "3", "join", "gather"]));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("rank 2 of 3 sees 3 processes"), "{stdout}");
    let alone = ["--auto", "2", "--rendezvous", "127.0.0.1:1", "join"];
    let (_, _, stderr) = run(&mut spawned(&alone));
    assert!(stderr.contains("no launcher gives this process a rank"), "{stderr}");
}

#[test]
fn detects_child_exit_before_join() {
    let start = Instant::now();
    let (output, _, stderr) = run(&mut spawned(&["--ranks", "3", "2:exit=3", "join"]));
    assert!(!output.status.success());
    assert!(stderr.contains("rank 2 ended before it joined (exit status: 3)"), "{stderr}");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[test]
fn kills_running_children() {
    let start = Instant::now();
    let mut parent = spawned(&["--ranks", "2", "join", "0:exit=5", "wait"]).spawn().unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap());
    assert_eq!(parent.wait().unwrap().code(), Some(5));
    let mut output = String::new();
    // Reading returns when the last process with the pipe has exited.
    lines.read_to_string(&mut output).unwrap();
    assert!(start.elapsed() < AT_ONCE);
}

#[test]
fn children_die_with_parent() {
    let mut parent = spawned(&["--ranks", "3", "join", "barrier", "wait"]).spawn().unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let mut children = Vec::new();
    while children.len() < 2 {
        let line = lines.next().unwrap().unwrap();
        match line.split_once(" has process ") {
            Some((rank, pid)) if rank != "rank 0" => children.push(pid.to_owned()),
            _ => {}
        }
    }
    assert!(children.iter().all(|pid| runs(pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let gone = wait_until(AT_ONCE, || !children.iter().any(|pid| runs(pid)));
    assert!(gone, "{children:?}");
}

#[test]
fn orphan_does_not_join() {
    let (output, _, stderr) = run(spawned(&["join"])
        .env("PROBELINE_RANK", "1")
        .env("PROBELINE_RANKS", "2")
        .env("PROBELINE_RENDEZVOUS", "127.0.0.1:1")
        .env("PROBELINE_PARENT", "1"));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("the process that started this one has ended"), "{stderr}");
}

/// Kills rank `who` while all other ranks wait in a call.
fn killed(who: usize, call: &str) {
    let port = port();
    let steps = ["join", "barrier", call];
    let mut waiting: Vec<_> = (0..4)
        .map(|rank| {
            let own = if rank == who { &["join", "barrier", "wait"] } else { &steps };
            Rank::start(u32::try_from(rank).unwrap(), 4, port, own)
        })
        .collect();
    for rank in &mut waiting {
        rank.read_until("barrier: good");
    }
    thread::sleep(SECOND / 10);
    let mut dying = waiting.remove(who);
    dying.process.kill().unwrap();
    let death = Instant::now();
    for rank in waiting {
        let (status, output) = rank.end();
        assert_eq!(status, Some(1));
        assert!(output.contains(&format!("{call}: owner {who} died or left")), "{output}");
        assert!(death.elapsed() < AT_ONCE, "{:?}, {output}", death.elapsed());
    }
}

#[test]
fn all_ranks_report_killed_process() {
    killed(2, "barrier");
    killed(1, "gather");
    killed(0, "barrier");
}

/// Rank 2 is in the barrier when it is killed. Rank 1 does not call the barrier.
#[test]
fn reports_kill_inside_call() {
    let port = port();
    let steps =
        |rank| if rank == 1 { ["join", "barrier", "wait"] } else { ["join", "barrier", "barrier"] };
    let mut ranks: Vec<_> = (0..3).map(|rank| Rank::start(rank, 3, port, &steps(rank))).collect();
    for rank in &mut ranks {
        rank.read_until("barrier: good");
    }
    thread::sleep(SECOND / 5);
    ranks.pop().unwrap().process.kill().unwrap();
    let death = Instant::now();
    let (status, output) = ranks.swap_remove(0).end();
    assert_eq!(status, Some(1));
    assert!(output.contains("barrier: owner 2 died or left"), "{output}");
    assert!(death.elapsed() < AT_ONCE, "{:?}", death.elapsed());
}

/// Connections of strangers use all descriptors of rank 0; the ranks meet nevertheless.
#[test]
fn meets_without_free_descriptors() {
    let port = port();
    let address = format!("127.0.0.1:{port}");
    let job = job();
    let mut limited = command("sh".as_ref());
    limited.args(["-c", r#"ulimit -n 40; exec "$0" "$@""#, job.to_str().unwrap()]);
    limited.args(["--rank", "0", "--size", "2", "--rendezvous", &address, "join", "barrier"]);
    let mut process = limited.spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap());
    let zero = Rank { process, lines };
    let strangers: Vec<_> = (0..100).map(|_| connect(&address)).collect();
    let one = Rank::start(1, 2, port, &["join", "barrier"]);
    for rank in [zero, one] {
        let (status, output) = rank.end();
        assert_eq!(status, Some(0), "{output}");
    }
    drop(strangers);
}

/// Connects to rank 0, and tries again until it listens.
fn connect(address: &str) -> TcpStream {
    let until = Instant::now() + AT_ONCE;
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn missing_secret_names_variable() {
    let (output, _, stderr) = run(spawned(&["--rank", "0", "--size", "2", "--rendezvous"])
        .args(["127.0.0.1:1", "join"])
        .env_remove("PROBELINE_SECRET"));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("set PROBELINE_SECRET"), "{stderr}");
}

#[test]
fn no_rank_without_launcher() {
    let (output, _, stderr) = run(&mut spawned(&["--rendezvous", "127.0.0.1:1", "join"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("start it with mpirun or srun"), "{stderr}");
}

fn launcher_gives_every_rank_its_place(launcher: [&str; 2]) {
    for ranks in [2, 3] {
        let address = format!("127.0.0.1:{}", port());
        let job = job();
        let job = job.to_str().unwrap();
        let command = [job, "--auto", "7", "--rendezvous", &address, "join", "gather", "barrier"];
        let output = launched(launcher, ranks, &command).ranks;
        assert!(output.iter().all(|output| output.ends_with("status 0\n")), "{output:?}");
        for rank in 0..ranks {
            let line = format!("rank {rank} of {ranks} sees {ranks} processes");
            assert!(output.iter().any(|output| output.contains(&line)), "{output:?}");
        }
    }
}

/// Checks the errors of ranks that cannot use the server of their launcher.
fn launched_without_a_rendezvous_says_what_to_give(launcher: [&str; 2], example: &str) {
    let job = job();
    let hidden = ["env", "-u", "PMIX_NAMESPACE", "-u", "PMI_FD", job.to_str().unwrap(), "join"];
    for output in launched(launcher, 2, &hidden).ranks {
        assert!(output.contains("serves neither PMIx nor PMI"), "{output}");
        assert!(output.contains("give all ranks --rendezvous HOST:PORT"), "{output}");
        assert!(output.contains(example) && output.ends_with("status 1\n"), "{output}");
    }
    for output in launched(launcher, 2, &[job.to_str().unwrap(), "--ranks", "2", "join"]).ranks {
        assert!(output.contains("each was asked to start a job of its own"), "{output}");
    }
}

#[test]
fn open_mpi_ranks_join() {
    launcher_gives_every_rank_its_place(OPEN_MPI);
}

#[test]
fn open_mpi_names_missing_options() {
    launched_without_a_rendezvous_says_what_to_give(OPEN_MPI, "mpirun -x PROBELINE_SECRET");
}

#[test]
fn mpich_ranks_join() {
    launcher_gives_every_rank_its_place(MPICH);
}

#[test]
fn mpich_names_missing_options() {
    launched_without_a_rendezvous_says_what_to_give(MPICH, "mpiexec ... COMMAND");
}
