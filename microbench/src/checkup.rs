//! What the doctor says of what a run goes over, for its report.

use doctor::{Doctor, Finding, Questions, Survey, Trial};

/// Of this machine: files are read, and nothing else.
pub(crate) fn machine() -> Vec<Finding> {
    Doctor::new("/").machine()
}

/// Of the device `name`, on which engines have been opened: each has tried its atomics.
pub(crate) fn device(name: &str) -> Vec<Finding> {
    tried(|its| its == name)
}

/// Of the device that lines about an engine of verbs name.
pub(crate) fn device_in(about: &[String]) -> Vec<Finding> {
    tried(|its| about.iter().flat_map(|line| line.split([' ', ','])).any(|word| word == its))
}

/// Of the devices that are meant. Asked only when the run is over.
fn tried(meant: impl Fn(&str) -> bool) -> Vec<Finding> {
    let questions = Questions::default();
    let survey = doctor::survey(verbs::Library::load, &questions, doctor::ANSWER);
    // Without an answer nothing is known of the device but what the run itself says.
    let Survey::Devices(devices) = survey else { return Vec::new() };
    let mut meant: Vec<_> = devices.into_iter().filter(|device| meant(&device.name)).collect();
    for facts in meant.iter_mut().filter_map(|device| device.facts.as_mut().ok()) {
        facts.trial = Trial::Passed;
    }
    let doctor = Doctor::new("/");
    meant.iter().flat_map(|device| doctor.device(device, true)).collect()
}
