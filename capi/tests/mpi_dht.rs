//! Programs of MPI-DHT, and the examples, compiled by the compiler of an MPI library and started by its
//! launcher. The environment variable `MPICC` names the compiler; with the feature `mpi` it is the one of
//! the library that this was built with.

mod common;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{Installed, Language, root, run};

/// The forms in which programs include, create and free: definitions, and the values of the macros HEADER,
/// CREATE and FREE of `mpi_dht_calls.c`.
const FORMS: [(&str, &str, u8, u8); 9] = [
    ("", "<DHT/DHT.h>", 1, 2),
    ("#define DHT_STATISTICS", "<DHT_mpi/DHT.h>", 1, 2),
    ("", "<DHT_ucx/DHT.h>", 1, 3),
    ("", "<DHT_ucx/UCX_bcast_functions.h>", 3, 3),
    ("#define DHT_USE_MPI", "<LUCX/DHT.h>", 3, 3),
    ("#define DHT_USE_MPI\n#define DHT_STATISTICS", "<LUCX/DHT.h>", 3, 1),
    ("", "<LUCX/DHT.h>", 3, 1),
    ("#define LUCX_MPI_IMPL", "<LUCX/DHT.h>", 2, 1),
    ("", "<LUCX/MPI/DHT.h>", 2, 1),
];

/// Returns the compiler of the MPI library, and what was installed once for all tests.
fn compiler() -> (&'static str, &'static Installed) {
    static INSTALLED: OnceLock<(String, Installed)> = OnceLock::new();
    let (compiler, installed) = INSTALLED.get_or_init(|| {
        let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
        let installed = Installed::new(&compiler);
        (compiler, installed)
    });
    (compiler, installed)
}

/// Returns the command that runs a program with its arguments by the launcher of the library, over a
/// transport or the one that it chooses.
fn launcher(
    (compiler, installed): (&str, &Installed),
    program: &[&Path],
    (transport, ranks): (&str, &str),
) -> Command {
    let launcher = match compiler {
        "mpicc.mpich" => "mpiexec.mpich",
        "mpicc.openmpi" => "mpirun.openmpi",
        _ => "mpirun",
    };
    let mut command = installed.command(launcher.as_ref());
    // Ends each rank with its launcher, even if the launcher is killed: a rank would keep the pipes open.
    command.args(["-n", ranks, "setpriv", "--pdeathsig", "KILL"]).args(program);
    // For Open MPI: as root, and with more ranks than cores.
    for name in [
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_MCA_rmaps_base_oversubscribe",
    ] {
        command.env(name, "1");
    }
    // Two launchers of Open MPI that start at once fail if both create the folder of their sessions.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = installed.prefix().join(format!("job-{}", NEXT.fetch_add(1, Relaxed)));
    fs::create_dir_all(&folder).unwrap();
    command.env("TMPDIR", folder);
    if !transport.is_empty() {
        command.env("PROBELINE_TRANSPORT", transport);
    }
    if transport == "mpi" {
        // A component that works on one machine.
        command.env("OMPI_MCA_osc", "sm");
    }
    command
}

/// Runs a program and returns what its ranks print.
fn launch(started_by: (&str, &Installed), program: &[&Path], how: (&str, &str)) -> String {
    run(&mut launcher(started_by, program, how))
}

/// Writes a source that includes `mpi_dht_calls.c` in this form.
fn calls(installed: &Installed, name: &str, form: (&str, &str, u8, u8)) -> String {
    let (defined, header, create, frees) = form;
    let source = installed.prefix().join(format!("calls-{name}.c"));
    let text = format!(
        "#define OMPI_SKIP_MPICXX 1\n#define MPICH_SKIP_MPICXX 1\n{defined}\n\
         #define HEADER {header}\n#define CREATE {create}\n#define FREE {frees}\n\
         #include \"{}\"\n",
        root().join("tests/mpi_dht_calls.c").display()
    );
    fs::write(&source, text).unwrap();
    source.to_str().unwrap().to_owned()
}

/// Returns the file to which a program of MPI-DHT saves its table.
fn entries(program: &Path) -> PathBuf {
    program.with_extension("entries")
}

fn is_well(said: &str, ranks: &str) {
    assert!(said.ends_with(&format!("all is well with {ranks} processes\n")), "{said}");
}

#[test]
fn calls_of_every_version() {
    let started_by @ (compiler, installed) = compiler();
    let compiler_of_cpp = compiler.replace("mpicc", "mpicxx");
    let mut last = None;
    for (nth, form) in FORMS.into_iter().enumerate() {
        let source = &calls(installed, &nth.to_string(), form);
        for language in [Language::C, Language::Cpp] {
            let compiler = if language == Language::C { compiler } else { &compiler_of_cpp };
            let program = installed.compile(compiler, language, source, false);
            is_well(&launch(started_by, &[&program, &entries(&program)], ("", "2")), "2");
            last = Some(program);
        }
    }
    let program = last.unwrap();
    let posted = if cfg!(feature = "mpi") { ("mpi", "3") } else { ("ucx", "3") };
    for (transport, ranks) in [("", "1"), ("", "4"), posted] {
        is_well(&launch(started_by, &[&program, &entries(&program)], (transport, ranks)), ranks);
    }
}

/// The processes meet by a bootstrap function, and by a communicator.
#[test]
fn names_differing_calls() {
    let started_by @ (compiler, installed) = compiler();
    for (name, form) in [("bootstrap", FORMS[3]), ("comm", FORMS[8])] {
        let source = calls(installed, name, form);
        let program = installed.compile(compiler, Language::C, &source, false);
        let said = launch(started_by, &[&program, Path::new("differ")], ("", "2"));
        assert!(said.ends_with("all were told\n"), "{said}");
    }
}

/// Programs of MPI-DHT know only NULL, so the reason is printed.
#[test]
fn prints_reason_of_failed_create() {
    let started_by @ (compiler, installed) = compiler();
    let source = calls(installed, "why", FORMS[8]);
    let program = installed.compile(compiler, Language::C, &source, false);
    let unknown = ("nowhere", "PROBELINE_TRANSPORT=nowhere is not a transport: give shm, verbs, ");
    let not_built = ("mpi", "this library was built without the transport mpi: build it with ");
    let not_built = (!cfg!(feature = "mpi")).then_some(not_built);
    for (transport, reason) in [unknown].into_iter().chain(not_built) {
        let output = launcher(started_by, &[&program], (transport, "2")).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{errors}");
        assert!(errors.contains(&format!("DHT_create: {reason}")), "{errors}");
    }
}

#[test]
fn examples_under_launcher() {
    let started_by @ (compiler, installed) = compiler();
    let has_mpi = cfg!(feature = "mpi");
    let transports: &[_] = if has_mpi { &[("mpi", "3"), ("shm", "3")] } else { &[("shm", "3")] };
    let dht = installed.compile(compiler, Language::C, "examples/mpi_dht.c", false);
    let example = installed.compile(compiler, Language::C, "examples/probeline.c", false);
    for (transport, many) in transports {
        for ranks in [many, "1"] {
            let said = launch(started_by, &[&dht, &entries(&dht)], (transport, ranks));
            is_well(&said, ranks);
            assert_eq!(said.matches("sum").count(), 2, "{said}");
        }
        let said = launch(started_by, &[&example], (transport, "2"));
        assert!(said.contains(": all is well with 2 ranks\n"), "{said}");
    }
    if has_mpi {
        // The static library with a compiler that knows nothing of MPI: pkg-config names its libraries.
        let linked = installed.compile("cc", Language::C, "examples/probeline.c", true);
        let said = launch(started_by, &[&linked], ("mpi", "2"));
        assert!(said.contains(": all is well with 2 ranks\n"), "{said}");
    }
}
