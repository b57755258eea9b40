//! Code that the tests with processes share: the example that they run, and its launchers.

use core::time::Duration;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

pub(crate) use probeline_exchange::testing::port;
use rustix::process::Pid;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
const SECRET: &str = "the secret of these tests";

/// Returns the path of the example `job`, which `cargo test` builds with the tests.
pub(crate) fn job() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let job = tests.ancestors().nth(2).unwrap().join("examples/job");
    assert!(job.is_file(), "no {}: build it with cargo build --examples", job.display());
    job
}

pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("PROBELINE_SECRET", SECRET);
    command
}

/// Returns the example, bounded by timeout(1).
pub(crate) fn bounded_job() -> Command {
    let mut command = command("timeout".as_ref());
    command.args(["--kill-after=5", "120"]).arg(job());
    command
}

/// Runs a command whose ranks end, and returns its exit status and its output.
pub(crate) fn run(command: &mut Command) -> (ExitStatus, String) {
    let output = command.output().unwrap();
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status, texts.concat())
}

/// The launcher of Open MPI, and its Debian package.
pub(crate) const OPEN_MPI: [&str; 2] = ["mpirun.openmpi", "openmpi-bin"];
pub(crate) const MPICH: [&str; 2] = ["mpiexec.hydra", "mpich"];

/// The maximum time of a launch in these tests, even on a busy machine. Ranks that the launcher
/// fails to terminate would wait forever.
const LAUNCH_LIMIT: Duration = Duration::from_secs(120);

/// A running launcher and its ranks. Dropping it kills the launcher, which terminates its ranks.
pub(crate) struct Launching {
    pub(crate) launcher: Child,
    directory: PathBuf,
    begun: Instant,
}

/// The result of a launch.
#[derive(Debug)]
pub(crate) struct Launched {
    /// The output of each rank that started, in any order. The last line is its exit status, unless
    /// the launcher terminated it.
    pub(crate) ranks: Vec<String>,
    /// Whether the launcher succeeded.
    pub(crate) success: bool,
    /// The output of the launcher.
    #[allow(dead_code, reason = "shown if a test fails")]
    pub(crate) stderr: String,
}

/// Starts `ranks` ranks of a command with a launcher.
pub(crate) fn launch(
    [launcher, package]: [&str; 2],
    ranks: u32,
    rank_command: &[&str],
) -> Launching {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|directory| directory.join(launcher))
        .find(|path| path.is_file());
    let path = found.unwrap_or_else(|| {
        panic!("no {launcher}: apt-get install --no-install-recommends {package}")
    });
    // mpirun processes that start at the same time need different directories.
    let directory = std::env::temp_dir().join(format!("probeline-{}", port()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = command(&path);
    command.env("TMPDIR", &directory);
    if [launcher, package] == OPEN_MPI {
        // Tests may run as root, and on fewer cores than ranks.
        command.args(["--allow-run-as-root", "--oversubscribe", "-x", "PROBELINE_SECRET"]);
    }
    // Output goes to files, because mpiexec of MPICH 4.0 sometimes loses the last output of a rank.
    let script = r#""$@" >"$0/$$.said" 2>&1; s=$?; echo "status $s" >>"$0/$$.said"; exit $s"#;
    command.args(["-n", &ranks.to_string(), "sh", "-c", script]).arg(&directory);
    let begun = Instant::now();
    Launching { launcher: command.args(rank_command).spawn().unwrap(), directory, begun }
}

impl Launching {
    /// Returns the present output of each rank.
    pub(crate) fn outputs(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().path());
        let paths = files.filter(|path| path.extension().is_some_and(|end| end == "said"));
        paths.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    /// Returns the launcher's process and, for MPICH, the helper process that starts and serves its
    /// ranks.
    pub(crate) fn servers(&self) -> Vec<Pid> {
        let launcher = Pid::from_child(&self.launcher);
        let children = format!("/proc/{0}/task/{0}/children", launcher.as_raw_pid());
        let children = std::fs::read_to_string(children).unwrap();
        let helpers = children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "hydra_pmi_proxy"
        });
        [launcher].into_iter().chain(helpers.filter_map(Pid::from_raw)).collect()
    }

    /// Waits until the launcher exits.
    pub(crate) fn end(mut self) -> Launched {
        while self.launcher.try_wait().unwrap().is_none() {
            assert!(self.begun.elapsed() < LAUNCH_LIMIT, "still running: {:?}", self.outputs());
            thread::sleep(Duration::from_millis(5));
        }
        let success = self.launcher.wait().unwrap().success();
        let mut stderr = String::new();
        self.launcher.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Launched { ranks: self.outputs(), success, stderr }
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Starts `ranks` ranks of a command with a launcher, and waits until all have exited.
pub(crate) fn launched(launcher: [&str; 2], ranks: u32, rank_command: &[&str]) -> Launched {
    let ended = launch(launcher, ranks, rank_command).end();
    assert_eq!(ended.ranks.len(), ranks as usize, "{launcher:?} did not start all: {ended:?}");
    ended
}
