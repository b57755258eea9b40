//! `pin` on a machine with two NUMA nodes.

use anyhow::{Result, ensure};

use super::PROBELINE;
use crate::HANG_TIMEOUT;
use crate::case::{Case, Layer};
use crate::programs::{Build, program, test_programs};
use crate::testbed::Testbed;

const PIN: &str = "probeline-pin";

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Numa, "topology_shows_both_nodes", topology).needs(PROBELINE),
    Case::test(Layer::Numa, "tests_of_pin_pass", tests_of_pin).needs(&[Build::Tests(PIN)]),
];

fn topology(testbed: &Testbed) -> Result<()> {
    let command = format!("{} topology --near rxe0 --ranks 2 --full", program("probeline")?);
    let text = testbed.machine(1).output(&command, HANG_TIMEOUT)?;
    ensure!(text.contains("rxe0 is on node 1"), "{text}");
    // Columns: rank, CPU, node, memory.
    let rows = text.lines().map(|line| line.split_whitespace().take(4).collect::<Vec<_>>());
    let ranks: Vec<_> = rows.filter(|row| matches!(row[..], ["0" | "1", _, _, _])).collect();
    ensure!(ranks == [["0", "1", "1", "1"], ["1", "0", "0", "0"]], "{text}");
    Ok(())
}

/// Runs the tests of `pin` with huge pages on both nodes, enough for those that bind memory to each.
fn tests_of_pin(testbed: &Testbed) -> Result<()> {
    let pools = "/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages";
    let reserve = format!("for node in 0 1; do echo 48 >{pools}; cat {pools}; done");
    let reserved = testbed.machine(1).output(&reserve, HANG_TIMEOUT)?;
    ensure!(reserved == "48\n48\n", "{reserved}");
    let programs = test_programs(PIN)?;
    ensure!(programs.len() >= 2, "cargo built only {programs:?}");
    for program in programs {
        let text = testbed.machine(1).output(&program, HANG_TIMEOUT)?;
        let result = text.lines().find_map(|line| line.strip_prefix("test result: ok. "));
        ensure!(result.is_some_and(|counts| !counts.starts_with("0 ")), "{text}");
    }
    Ok(())
}
