//! The command `doctor`: checks whether this machine and its RDMA devices are set up for a
//! one-sided table.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use probeline_doctor::{Doctor, Finding, Query, Survey, Verdict, survey};

use crate::cli::OutputArgs;
use crate::failure::{BROKEN, Failure, Result};
use crate::progress::waiting;
use crate::run_report::{Files, RunReport};
use crate::terminal;

const AFTER_HELP: &str = "\
Prints how many findings there are of each verdict, then each finding, broken ones first:
what was observed, the consequence for a one-sided table, how to fix or measure it, and the firmware
note.
Ends with status 0 if nothing is broken, with 3 if something is, and with 1 or 2 if the machine could
not be examined. Does not need root privileges, but skips files that only root may read. With --quiet
only the counts and the findings that need attention are printed.";

#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Examine only this RDMA device, such as mlx5_0 [default: all]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Write the findings as JSON to FILE, or to standard output if it is `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let json = args.json.clone();
    let files = Files::open(&OutputArgs { json, csv: None, full: true }, true)?;
    let doctor = Doctor::new("/");
    let options = Query { device: args.device.clone(), trial: true };
    let look = || survey(probeline::verbs::Library::load, &options, probeline_doctor::ANSWER);
    let survey = waiting("looking at RDMA devices", true, look);
    if let Some(device) = &args.device {
        known(&doctor, &survey, device)?;
    }
    let mut findings = doctor.examine(&survey);
    findings.sort_by_key(|finding| finding.verdict);
    // Created before anything is printed, because the reader of the output may close it.
    let mut report = RunReport::new("doctor");
    report.parameter("device", args.device.clone());
    report.summary = vec![probeline_doctor::summary(&findings)];
    report.doctor = findings.clone();
    files.write(&report)?;
    terminal::unless_closed(print(&findings))?;
    let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
    Ok(if broken { ExitCode::from(BROKEN) } else { ExitCode::SUCCESS })
}

fn print(findings: &[Finding]) -> io::Result<()> {
    let mut out = terminal::stdout();
    let quiet = terminal::is_quiet();
    let wanted = |verdict| !quiet || matches!(verdict, Verdict::Broken | Verdict::Warning);
    writeln!(out, "{}", probeline_doctor::summary(findings))?;
    if !quiet {
        writeln!(out)?;
    }
    for finding in findings.iter().filter(|finding| wanted(finding.verdict)) {
        finding.lines().iter().try_for_each(|line| out.line(line))?;
    }
    Ok(())
}

/// Fails if neither libibverbs nor the kernel has the device: its name is misspelt.
fn known(doctor: &Doctor, survey: &Survey, device: &str) -> Result<()> {
    let listed = survey.as_ref().is_ok_and(|devices| !devices.is_empty());
    let found = doctor.devices();
    if listed || found.iter().any(|name| name == device) {
        return Ok(());
    }
    let advice = match found.is_empty() {
        true => "this machine has none, and without --device the command says why".to_owned(),
        false => format!("choose among {}", found.join(", ")),
    };
    Err(Failure::new(format!("no RDMA device is called {device}: {advice}")))
}
