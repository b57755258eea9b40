//! Two NUMA nodes: `pin` finds them and places for real.

use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::patience::PATIENCE;
use crate::programs::{Build, example, program, test_programs};

const COMMAND: Build = Build::Release(&["--package", "probeline-cli"]);
const CHECK: Build = Build::Release(&["--package", "probeline-testbed", "--example", "pin-check"]);
const PIN: &str = "probeline-pin";

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Numa, "the_command_finds_both_nodes", both_nodes).needs(&[COMMAND]),
    Case::new(Layer::Numa, "memory_lies_where_it_was_asked_for", placement).needs(&[CHECK]),
    Case::new(Layer::Numa, "the_tests_of_pin_pass", tests_of_pin).needs(&[Build::Tests(PIN)]),
];

fn both_nodes(bed: &Bed) -> Result<(), Failure> {
    let command = format!("{} topology --near rxe0 --ranks 2 --full", program("probeline")?);
    let text = bed.machine(1).output(&command, PATIENCE)?;
    ensure(text.contains("rxe0 is on node 1"), || text.clone())?;
    // Columns: rank, CPU, node, memory.
    let rows = text.lines().map(|line| line.split_whitespace().take(4).collect::<Vec<_>>());
    let placed: Vec<_> = rows.filter(|row| matches!(row[..], ["0" | "1", _, _, _])).collect();
    let expected = [["0", "1", "1", "1"], ["1", "0", "0", "0"]];
    ensure(placed == expected, || text.clone())
}

fn placement(bed: &Bed) -> Result<(), Failure> {
    let pools = "/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages";
    let command = format!(
        "for node in 0 1; do echo 16 >{pools}; done; {check}",
        check = example("pin-check")?
    );
    let text = bed.machine(1).output(&command, PATIENCE)?;
    ensure(text.ends_with("all of it holds\n"), || text.clone())
}

fn tests_of_pin(bed: &Bed) -> Result<(), Failure> {
    let programs = test_programs(PIN)?;
    ensure(programs.len() >= 2, || format!("only these: {programs:?}"))?;
    for program in programs {
        let text = bed.machine(1).output(&program, PATIENCE)?;
        let result = text.lines().find_map(|line| line.strip_prefix("test result: ok. "));
        ensure(result.is_some_and(|counts| !counts.starts_with("0 ")), || text.clone())?;
    }
    Ok(())
}
