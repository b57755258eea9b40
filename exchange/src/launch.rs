//! Rank and size from the environment variables of the launcher that started this process.
//!
//! Sources: mpirun(1) of Open MPI ("Exported Environment Variables"), the PMIx standard for
//! `PMIX_RANK`, Hydra's process manager for `PMI_*` and `MPI_LOCAL*`, srun(1) ("Output
//! Environment Variables"). All but Slurm's were also checked under the launchers.

use core::fmt;
use std::env;

use crate::JoinError;

/// The environment variable with the rank of a process that rank 0 has spawned.
pub(crate) const RANK_VARIABLE: &str = "PROBELINE_RANK";
/// The environment variable with the number of ranks of that job.
pub(crate) const RANKS_VARIABLE: &str = "PROBELINE_RANKS";

/// The first number of Slurm's steps that `srun` did not start, such as the shell of `salloc` and
/// the batch script (`SLURM_INTERACTIVE_STEP` and above in slurm.h). Slurm numbers other steps from
/// 0.
const SLURM_FIRST_RESERVED_STEP: u32 = 0xffff_fffa;

/// The program that started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// A PMIx server, such as `srun --mpi=pmix`.
    Pmix,
    /// A PMI server, such as MPICH's `mpiexec.hydra`.
    Pmi,
    /// `srun`.
    Slurm,
    /// Rank 0 of a job that spawns its ranks.
    Probeline,
}

impl Launcher {
    /// Returns the name, and an example of a command line to which a rendezvous can be appended.
    pub(crate) fn texts(self) -> [&'static str; 2] {
        match self {
            Self::OpenMpi => ["mpirun (Open MPI)", "mpirun -x PROBELINE_SECRET ... COMMAND"],
            Self::Pmix => ["a PMIx launcher", "srun ... COMMAND"],
            Self::Pmi => ["mpiexec (PMI)", "mpiexec ... COMMAND"],
            Self::Slurm => ["srun", "srun ... COMMAND"],
            Self::Probeline => ["rank 0", "COMMAND"],
        }
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.texts()[0])
    }
}

/// The protocol of a launcher's server, through which ranks find each other.
///
/// Rank 0 publishes the addresses at which it listens. Unless all ranks were given a secret, it
/// also publishes a secret of 256 random bits. If all ranks are on one machine, it listens at a
/// free port of 127.0.0.1. Otherwise it listens at all addresses of its machine, which the other
/// ranks try in turn. Afterwards the ranks use TCP between themselves, and not the server. Ranks
/// finalize PMIx before they connect, and PMI-1 in [`Job::finish`](crate::Job::finish).
///
/// If a rank is killed or fails, the launcher terminates the other ranks. `srun` does so only with
/// `-K`. `mpiexec` does so even if a rank exits without [`Job::finish`](crate::Job::finish). A rank
/// that waits for a lost rank in a collective call gets an error in any case.
///
/// Anyone who can read the launcher's own traffic between nodes can read the secret. To prevent
/// that, give all ranks a secret in [`Options::secret`](crate::Options::secret).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Server {
    /// PMIx: Open MPI's `mpirun` and `srun --mpi=pmix`. Needs libpmix on every node.
    Pmix,
    /// PMI-1: MPICH's `mpiexec` and `srun --mpi=pmi2`.
    Pmi,
}

impl Server {
    /// Returns the server of this process's launcher, if its environment names one.
    #[must_use]
    pub fn from_launch(launch: &Launch) -> Option<Self> {
        let (server, variable) = match launch.launcher {
            Launcher::Probeline => return None,
            Launcher::Pmi => (Self::Pmi, crate::pmi::DESCRIPTOR_VARIABLE),
            _ => (Self::Pmix, crate::pmi::NAMESPACE_VARIABLE),
        };
        env::var_os(variable).map(|_| server)
    }

    /// Returns the launchers that have such a server.
    pub(crate) fn launchers(self) -> &'static str {
        match self {
            Self::Pmix => "mpirun of Open MPI or with srun --mpi=pmix",
            Self::Pmi => "mpiexec of MPICH or with srun --mpi=pmi2",
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pmix => "PMIx",
            Self::Pmi => "PMI",
        })
    }
}

/// This process's place in a launcher's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher that started this process.
    pub launcher: Launcher,
    /// The rank of this process, below `size`.
    pub rank: u32,
    /// The number of processes of the job.
    pub size: u32,
    /// The rank of this process among those of its machine, if the launcher sets it.
    pub local_rank: Option<u32>,
    /// The number of processes of its machine, if the launcher sets it.
    pub local_size: Option<u32>,
}

impl Launch {
    /// Reads the environment; `None` if no launcher started this process.
    ///
    /// If the variables of several launchers are set, the first one in this list is used: rank 0 of
    /// this job, Open MPI, PMI, PMIx, Slurm. So a launcher that another one started takes
    /// precedence. Slurm's variables are used only in a step of `srun`, not in a shell of `salloc`
    /// or a batch script.
    ///
    /// # Errors
    /// [`JoinError`] if the variables are inconsistent.
    pub fn from_env() -> Result<Option<Self>, JoinError> {
        Self::from_lookup(variable)
    }

    /// Reads the environment as [`from_env`](Self::from_env) does, if the launcher started several processes.
    ///
    /// # Errors
    /// [`JoinError`] if the variables are inconsistent.
    pub fn from_env_if_several() -> Result<Option<Self>, JoinError> {
        Ok(Self::from_env()?.filter(|launch| launch.size > 1))
    }

    fn from_lookup(
        lookup: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, JoinError> {
        let launchers = [
            Launcher::Probeline,
            Launcher::OpenMpi,
            Launcher::Pmi,
            Launcher::Pmix,
            Launcher::Slurm,
        ];
        let mut launchers = launchers.into_iter();
        launchers.find_map(|launcher| launcher.launch(&lookup).transpose()).transpose()
    }

    /// Returns the place given by this launcher, even if variables of others are set.
    pub(crate) fn by(launcher: Launcher) -> Result<Option<Self>, JoinError> {
        launcher.launch(&variable)
    }
}

fn variable(name: &'static str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into())
}

/// A lookup of environment variables.
type Lookup<'a> = &'a dyn Fn(&'static str) -> Option<String>;

impl Launcher {
    /// Returns the place in a job of this launcher, if one of the variables of rank and size is
    /// set.
    fn launch(self, lookup: Lookup<'_>) -> Result<Option<Launch>, JoinError> {
        let refused = |found| Err(JoinError::Variables { found });
        let number = |variable| match lookup(variable) {
            None => Ok(None),
            Some(value) => match value.parse::<u32>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => refused(format!("{variable}={value:?}, which is not a number")),
            },
        };
        let (rank_variable, size_variable, local_rank, local_size) = self.variables(lookup);
        let may_have_started = match self {
            Self::Slurm => {
                let step = number("SLURM_STEP_ID")?;
                step.is_some_and(|step| step < SLURM_FIRST_RESERVED_STEP)
            }
            _ => true,
        };
        // Slurm sets the size also in shells.
        let needs_rank = matches!(self, Self::Pmix | Self::Slurm);
        if !may_have_started || needs_rank && lookup(rank_variable).is_none() {
            return Ok(None);
        }
        let (rank, size) = match (number(rank_variable)?, number(size_variable)?) {
            (None, None) => return Ok(None),
            (Some(rank), Some(size)) => (rank, size),
            (rank, _) => {
                let [set, unset] = match rank {
                    Some(_) => [rank_variable, size_variable],
                    None => [size_variable, rank_variable],
                };
                return Err(JoinError::missing(set, unset));
            }
        };
        if rank >= size {
            return Err(JoinError::Variables {
                found: format!("{rank_variable}={rank} and {size_variable}={size}"),
            });
        }
        let local_rank = number(local_rank)?;
        let local_size = local_size.map_or(Ok(None), number)?;
        Ok(Some(Launch { launcher: self, rank, size, local_rank, local_size }))
    }

    /// Returns the variables of rank and size, and of rank and size on this machine.
    fn variables(
        self,
        lookup: Lookup<'_>,
    ) -> (&'static str, &'static str, &'static str, Option<&'static str>) {
        // `SLURM_NTASKS` may be the size of the whole job.
        const SLURM_STEP_SIZE: &str = "SLURM_STEP_NUM_TASKS";
        let slurm_size = lookup(SLURM_STEP_SIZE).map_or("SLURM_NTASKS", |_| SLURM_STEP_SIZE);
        match self {
            // All ranks of such a job are on this machine.
            Self::Probeline => (RANK_VARIABLE, RANKS_VARIABLE, RANK_VARIABLE, Some(RANKS_VARIABLE)),
            Self::OpenMpi => (
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
            ),
            Self::Pmi => ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", Some("MPI_LOCALNRANKS")),
            // PMIx has no variable for the size; `srun --mpi=pmix` sets Slurm's.
            Self::Pmix => ("PMIX_RANK", slurm_size, "SLURM_LOCALID", None),
            Self::Slurm => ("SLURM_PROCID", slurm_size, "SLURM_LOCALID", None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(variables: &str) -> Result<Option<Launch>, String> {
        Launch::from_lookup(|name| {
            let mut pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
        })
        .map_err(|error| error.to_string())
    }

    fn found(
        launcher: Launcher,
        [rank, size]: [u32; 2],
        [local_rank, local_size]: [Option<u32>; 2],
    ) -> Result<Option<Launch>, String> {
        Ok(Some(Launch { launcher, rank, size, local_rank, local_size }))
    }

    const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 \
        OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=3";
    const MPICH: &str = "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2";
    const SLURM: &str = "SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0 \
        SLURM_STEP_NUM_TASKS=6";

    #[test]
    fn reads_variables_of_each_launcher() {
        assert_eq!(launch(""), Ok(None));
        assert_eq!(launch(OPEN_MPI), found(Launcher::OpenMpi, [3, 4], [Some(1), Some(2)]));
        assert_eq!(launch(MPICH), found(Launcher::Pmi, [1, 2], [Some(1), Some(2)]));
        assert_eq!(launch(SLURM), found(Launcher::Slurm, [5, 6], [Some(1), None]));
        assert_eq!(
            launch("SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_STEP_ID=3"),
            found(Launcher::Slurm, [5, 8], [None, None])
        );
        assert_eq!(
            launch("PMIX_RANK=2 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=3"),
            found(Launcher::Pmix, [2, 3], [None, None])
        );
        assert_eq!(
            launch("PROBELINE_RANK=1 PROBELINE_RANKS=3"),
            found(Launcher::Probeline, [1, 3], [Some(1), Some(3)])
        );
    }

    #[test]
    fn prefers_innermost_launcher() {
        let mut all =
            vec![SLURM, "PMIX_RANK=2", MPICH, OPEN_MPI, "PROBELINE_RANK=0 PROBELINE_RANKS=1"];
        for expected in
            [Launcher::Probeline, Launcher::OpenMpi, Launcher::Pmi, Launcher::Pmix, Launcher::Slurm]
        {
            assert_eq!(launch(&all.join(" ")).unwrap().unwrap().launcher, expected);
            all.pop();
        }
    }

    #[test]
    fn ignores_slurm_allocation() {
        for shell in [
            "SLURM_JOB_ID=7 SLURM_NTASKS=8",
            "SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_LOCALID=0",
            "SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_STEP_ID=0",
            "SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_STEP_ID=4294967290",
            "SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_STEP_ID=4294967291",
        ] {
            assert_eq!(launch(shell), Ok(None), "{shell}");
        }
    }

    #[test]
    fn names_inconsistent_variables() {
        for (variables, found) in [
            ("PMI_RANK=0", "PMI_RANK and no PMI_SIZE"),
            ("PMI_SIZE=2", "PMI_SIZE and no PMI_RANK"),
            ("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_RANK and no OMPI_COMM_WORLD_SIZE"),
            ("OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE and no OMPI_COMM_WORLD_RANK"),
            ("PROBELINE_RANK=0", "PROBELINE_RANK and no PROBELINE_RANKS"),
            ("PMIX_RANK=0", "PMIX_RANK and no SLURM_NTASKS"),
            ("SLURM_PROCID=0 SLURM_STEP_ID=0", "SLURM_PROCID and no SLURM_NTASKS"),
            ("PMI_RANK=2 PMI_SIZE=2", "PMI_RANK=2 and PMI_SIZE=2"),
            ("PMI_RANK=0 PMI_SIZE=0", "PMI_RANK=0 and PMI_SIZE=0"),
        ] {
            let error = launch(variables).unwrap_err();
            assert_eq!(error, JoinError::Variables { found: found.to_owned() }.to_string());
        }
        for (variable, others) in [
            ("PMI_RANK", "PMI_SIZE=2"),
            ("PMI_SIZE", "PMI_RANK=0"),
            ("MPI_LOCALRANKID", "PMI_RANK=0 PMI_SIZE=2"),
            ("SLURM_STEP_ID", "SLURM_PROCID=0"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1"),
        ] {
            for value in ["", "x", "-1", "1.0", "4294967296"] {
                let error = launch(&format!("{others} {variable}={value}")).unwrap_err();
                let found = format!("{variable}={value:?}, which is not a number: ");
                assert!(error.contains(&found), "{error}");
            }
        }
    }
}
