//! Examines the RDMA device of a job after its work.

use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;

use probeline_doctor::{Doctor, Finding, Questions, Subject, Survey, Trial};

use super::missing;

/// A device on which engines were opened. Each engine tests the device's atomics.
#[derive(Debug)]
pub(crate) struct Device(String);

impl Device {
    pub(crate) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the device of this machine that lines about an engine of libibverbs name.
    pub(crate) fn in_lines(about: &[String]) -> Option<Self> {
        let words: Vec<&str> = about.iter().flat_map(|line| line.split([' ', ','])).collect();
        let known = Doctor::new("/").devices();
        known.into_iter().find(|name| words.contains(&&**name)).map(Self)
    }

    pub(crate) fn examine(self, patience: Duration) -> Vec<Finding> {
        within(patience, self.0.clone(), move || self.tried())
    }

    fn tried(self) -> Vec<Finding> {
        let questions = Questions { device: Some(self.0), trial: false };
        let survey = probeline_doctor::survey(
            probeline::verbs::Library::load,
            &questions,
            probeline_doctor::ANSWER,
        );
        let Survey::Devices(mut devices) = survey else { return Vec::new() };
        for facts in devices.iter_mut().filter_map(|device| device.facts.as_mut().ok()) {
            facts.trial = Trial::Passed;
        }
        let doctor = Doctor::new("/");
        devices.iter().flat_map(|device| doctor.device(device, true)).collect()
    }
}

/// Returns the findings of `examine` on the device `name`, or a finding that it took longer than
/// `patience`. `examine` runs in its own thread, because a driver that hangs blocks its callers.
pub(super) fn within(
    patience: Duration,
    name: String,
    examine: impl FnOnce() -> Vec<Finding> + Send + 'static,
) -> Vec<Finding> {
    let (send, found) = channel();
    // Ignores errors: the receiver may have gone, and if the thread does not start, nothing is
    // sent.
    let _ = thread::Builder::new().spawn(move || send.send(examine()));
    found.recv_timeout(patience).unwrap_or_else(|_| vec![silent(name, patience)])
}

fn silent(name: String, patience: Duration) -> Finding {
    Finding {
        check: "device",
        subject: Subject::Device(name),
        consequence: Some("the run itself had ended".to_owned()),
        command: Some("sudo dmesg | tail -50; probeline doctor".to_owned()),
        ..missing(format!("no answer within {:.1} s after the run", patience.as_secs_f64()))
    }
}
