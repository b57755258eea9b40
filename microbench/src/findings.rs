//! The doctor's findings on the machine of rank 0 for the report of a job.

use probeline_doctor::{ANSWER, Doctor, Finding, Query, Trial, survey};

/// Examines this machine without its devices: only reads files.
pub(crate) fn examine_machine() -> Vec<Finding> {
    Doctor::new("/").machine()
}

/// Examines a device on which engines were opened. Each engine has tested the device's atomics.
///
/// Ranks call this after they have left the job, because a device that hangs takes up to [`ANSWER`].
pub(crate) fn examine_device(name: String) -> Vec<Finding> {
    let options = Query { device: Some(name), trial: false };
    let surveyed = survey(probeline::verbs::Library::load, &options, ANSWER);
    let mut devices = surveyed.unwrap_or_default();
    for facts in devices.iter_mut().filter_map(|device| device.facts.as_mut().ok()) {
        facts.trial = Trial::Passed;
    }
    let doctor = Doctor::new("/");
    devices.iter().flat_map(|device| doctor.device(device, true)).collect()
}

/// Returns the device of this machine that lines about an engine of libibverbs name.
pub(crate) fn device_in(lines: &[String]) -> Option<String> {
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split([' ', ','])).collect();
    Doctor::new("/").devices().into_iter().find(|name| words.contains(&&**name))
}
