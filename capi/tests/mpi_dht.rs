//! A program written for MPI-DHT, and the example over MPI RMA, compiled by the compiler of the MPI library and started by its
//! launcher. The environment variable `MPICC` names the compiler, as when the library was built.

mod common;

use std::env;
use std::path::Path;

use common::{Installed, Language, run};

/// The compiler of the MPI library, and what was installed for it.
fn compiler() -> (String, Installed) {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let installed = Installed::new(&compiler);
    (compiler, installed)
}

/// Runs a program with its arguments by the launcher of the library, and returns what its ranks print.
fn launch(
    (compiler, installed): (&str, &Installed),
    program: &[&Path],
    (transport, ranks): (&str, &str),
) -> String {
    let launcher = match compiler {
        "mpicc.mpich" => "mpiexec.mpich",
        "mpicc.openmpi" => "mpirun.openmpi",
        _ => "mpirun",
    };
    let mut command = installed.command(launcher.as_ref());
    command.args(["-n", ranks]).args(program).env("PROBELINE_TRANSPORT", transport);
    // For Open MPI: as root, with more ranks than cores, and by a component that works here.
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_osc", "sm"),
    ] {
        command.env(name, value);
    }
    run(&mut command)
}

#[test]
fn programs_under_a_launcher() {
    let (compiler, installed) = compiler();
    let started_by = (compiler.as_str(), &installed);
    let dht = installed.compile(&compiler, Language::C, "examples/mpi_dht.c", false);
    let file = installed.prefix().join("entries");
    for (transport, ranks) in [("mpi", "2"), ("shm", "3"), ("mpi", "1")] {
        let said = launch(started_by, &[&dht, &file], (transport, ranks));
        assert!(said.ends_with(&format!("all is well with {ranks} processes\n")), "{said}");
        assert_eq!(said.matches("sum").count(), 2, "{said}");
    }
    // The static library with a compiler that knows nothing of MPI: pkg-config names its libraries.
    let linked = installed.compile("cc", Language::C, "examples/probeline.c", true);
    let said = launch(started_by, &[&linked], ("mpi", "2"));
    assert!(said.contains(": all is well with 2 ranks\n"), "{said}");
    let example = installed.compile(&compiler, Language::C, "examples/probeline.c", false);
    for transport in ["mpi", "shm"] {
        let said = launch(started_by, &[&example], (transport, "2"));
        assert!(said.contains(": all is well with 2 ranks\n"), "{said}");
    }
}
