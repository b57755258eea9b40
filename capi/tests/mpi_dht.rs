//! A program written for MPI-DHT, compiled by the compiler of the MPI library and started by its
//! launcher. The environment variable `MPICC` names the compiler, as when the library was built.

mod common;

use std::env;

use common::{Installed, Language, run};

#[test]
fn a_program_of_mpi_dht() {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let installed = Installed::new(&compiler);
    // With the include path of MPI-DHT.
    let program = installed.compile(&compiler, Language::C, "examples/mpi_dht.c", false);
    let launcher = match compiler.as_str() {
        "mpicc.mpich" => "mpiexec.mpich",
        "mpicc.openmpi" => "mpirun.openmpi",
        _ => "mpirun",
    };
    for (transport, ranks) in [("mpi", "2"), ("shm", "3"), ("mpi", "1")] {
        let mut command = installed.command(launcher.as_ref());
        let file = installed.prefix().join("entries");
        command.args(["-n", ranks]).arg(&program).arg(file).env("PROBELINE_TRANSPORT", transport);
        // For Open MPI: as root, with more ranks than cores, and by a component that works here.
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("OMPI_MCA_osc", "sm"),
        ] {
            command.env(name, value);
        }
        let said = run(&mut command);
        assert!(said.ends_with(&format!("all is well with {ranks} processes\n")), "{said}");
        assert_eq!(said.matches("sum").count(), 2, "{said}");
    }
}
