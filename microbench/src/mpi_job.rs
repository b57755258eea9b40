//! Joins a job whose ranks an MPI launcher has started and MPI connects.

use core::time::Duration;

use probeline::mpi::{Members, World, library_version};
use probeline::transport::Exchange;

use crate::agreement::Agreement;
use crate::cli::JobArgs;
use crate::failure::{Failure, Result};
use crate::job::Needs;

/// Starts MPI among ranks that have the same options and inputs.
pub(crate) fn join(args: &JobArgs, needs: &Needs) -> Result<(World, Members)> {
    let limit = Duration::from_secs(args.rendezvous.collective_timeout) + needs.max_alone;
    let world = World::init(limit)?;
    let mut members = world.members()?;
    Agreement::from_job(args, needs.inputs.clone()).compare(&mut members)?;
    // Checked after the comparison of options, so that either all ranks fail or none.
    same_ranks(args.ranks, members.owners(), &library_version())?;
    Ok((world, members))
}

/// Checks that MPI has as many ranks as the options. If the launcher belongs to another MPI
/// library, each process is a job of one rank.
fn same_ranks(ranks: u32, members: u32, version: &str) -> Result<()> {
    let first = version.split([',', '\n']).next().unwrap_or_default();
    let library = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let advice = match members {
        _ if members == ranks => return Ok(()),
        _ if members > ranks => format!("give --ranks {members}"),
        _ => format!("start it with that library's own `mpirun -n {ranks}`"),
    };
    let s = if members == 1 { "" } else { "s" };
    let what = format!("MPI ({library}) has started {members} rank{s}, not {ranks}: {advice}");
    Err(Failure::new(what).everywhere())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(ranks: u32, members: u32, version: &str) -> Option<String> {
        same_ranks(ranks, members, version).err().map(|failure| failure.to_string())
    }

    #[test]
    fn refuses_mismatched_mpi_size() {
        let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, May 26, 2022";
        let mpich = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu\nMPICH Device:\tch4:ucx";
        assert_eq!(refused(2, 2, open), None);
        let alone = "MPI (Open MPI v4.1.4) has started 1 rank, not 2: start it with that library's \
                     own `mpirun -n 2`";
        assert_eq!(refused(2, 1, open).as_deref(), Some(alone));
        let more = "MPI (MPICH Version: 4.0.2) has started 4 ranks, not 2: give --ranks 4";
        assert_eq!(refused(2, 4, mpich).as_deref(), Some(more));
    }
}
