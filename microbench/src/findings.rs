//! The doctor's findings on the machine of rank 0 for the report of a job.

use probeline_doctor::{ANSWER, Doctor, Finding, Query, Trial, survey};

/// Examines this machine without its devices: only reads files.
pub(crate) fn examine_machine() -> Vec<Finding> {
    Doctor::new("/").machine()
}

/// Examines the device of this machine, if any, that these lines about an engine of libibverbs name.
/// The engine has tested the device's atomics.
///
/// Ranks call this after they have left the job, because a device that hangs takes up to [`ANSWER`].
pub(crate) fn examine_device_in(lines: &[String]) -> Vec<Finding> {
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split([' ', ','])).collect();
    let device = Doctor::new("/").devices().into_iter().find(|name| words.contains(&&**name));
    if device.is_none() {
        return Vec::new();
    }
    let options = Query { device, trial: false };
    let surveyed = survey(probeline::verbs::Library::load, &options, ANSWER);
    let mut devices = surveyed.unwrap_or_default();
    for facts in devices.iter_mut().filter_map(|device| device.facts.as_mut().ok()) {
        facts.trial = Trial::Passed;
    }
    let doctor = Doctor::new("/");
    devices.iter().flat_map(|device| doctor.device(device, true)).collect()
}
