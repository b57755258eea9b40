//! The conformance suite.

use core::time::Duration;

use probeline_transport::Exchange;
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_ucx_shim::mpi::{Builder, Members, World};

use crate::settings::Setting;

/// Bounds each wait of the suite. Only a hang lasts as long: no case waits for its end, and two emulated
/// machines on a busy host need more than a minute for some.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// Runs the suite on all owners.
pub(crate) fn run(_: &World, members: &mut Members, setting: &Setting) {
    let mut report = Report::new(members.owners());
    for case in cases(members.owners()) {
        let own = run_case(case, members, setting);
        report.gather(case, own, members).unwrap();
    }
    report.judge(setting.skips).unwrap();
}

fn run_case(case: &Case, members: &mut Members, setting: &Setting) -> Result<Verdict, Failure> {
    let sizes = case.sizes;
    let mut engine = Builder::new(sizes)
        .word_reads_whole(setting.whole)
        .open(members)
        .map_err(|error| Failure(format!("{error} ({error:?})")))?;
    case.run(&mut Rig::new(&mut engine, members).patience(LIMIT))
}
