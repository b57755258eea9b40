//! A column with what it has given so far.

use probeline_limits::remote::Operation;
use serde_json::{Value, json};

use super::column::ColumnName;
use super::order::Ability;
use super::plan::{OwnerDoes, Place, Step, steps};
use super::sample::{Sample, Waited};

/// A column of the report, measured or not.
pub(super) struct Standing {
    pub(super) name: ColumnName,
    /// It was asked for by name, and not because it may be here.
    pub(super) asked: bool,
    pub(super) ability: Option<Ability>,
    /// How its transport was set up, in words.
    pub(super) about: Vec<String>,
    /// Why it has not measured everything.
    pub(super) reason: Option<String>,
    /// Of each step, by rounds.
    samples: Vec<Vec<Sample>>,
}

impl Standing {
    pub(super) fn new(name: ColumnName, asked: bool) -> Self {
        let samples = vec![Vec::new(); steps().len()];
        Self { name, asked, ability: None, about: Vec::new(), reason: None, samples }
    }

    pub(super) fn is_up(&self) -> bool {
        self.ability.is_some() && self.reason.is_none()
    }

    /// Whether it has measured over a device of verbs.
    pub(super) fn is_over_verbs(&self) -> bool {
        self.name == ColumnName::Verbs && self.is_up()
    }

    /// Whether it was asked for and has not measured everything.
    pub(super) fn has_failed(&self) -> bool {
        self.reason.is_some() && (self.asked || self.ability.is_some())
    }

    /// Whether it has measured anything.
    pub(super) fn has_measured(&self) -> bool {
        self.samples.iter().any(|samples| !samples.is_empty())
    }

    /// Forgets what was measured, which was something else.
    pub(super) fn discard(&mut self, reason: String) {
        *self = Self { reason: Some(reason), ..Self::new(self.name, self.asked) };
    }

    pub(super) fn add(&mut self, step: usize, sample: Sample) {
        self.samples[step].push(sample);
    }

    /// What a step gave in each round, the first ones if it failed then.
    pub(super) fn samples(&self, step: usize) -> &[Sample] {
        self.samples.get(step).map_or(&[], Vec::as_slice)
    }

    /// Whether operations waited for an owner that slept; `None` if that was not measured.
    fn waited(&self, operation: Operation) -> Option<Waited> {
        let step = Step::Latency { operation, place: Place::Random, owner: OwnerDoes::Sleep };
        let at = steps().iter().position(|other| *other == step)?;
        let samples = self.samples(at);
        (!samples.is_empty()).then(|| Waited::in_most(samples))
    }

    /// What it is and who does its atomics, in a line.
    pub(super) fn line(&self) -> String {
        let name = self.name.name();
        if let Some(reason) = &self.reason {
            let how = if self.has_failed() { "failed" } else { "not here" };
            return format!("{name}: {how}: {reason}");
        }
        let by = |waited: Option<Waited>, what: &str| match waited {
            Some(Waited::All) => format!("{what} waited for an owner that slept"),
            Some(Waited::Some) => format!("some {what} waited for an owner that slept"),
            Some(Waited::No) => format!("{what} did not wait for an owner that slept"),
            None => format!("{what} were not measured while the owner slept"),
        };
        let reads = by(self.waited(Operation::Read { words: 8 }), "READs");
        let swaps = by(self.waited(Operation::Swap), "CAS");
        let about = self.about.join("; ");
        format!("{name}: {about}; {reads}, {swaps}")
    }

    /// What the column's times include, if it was measured.
    pub(super) fn includes(&self) -> Option<String> {
        let (name, includes) = (self.name.name(), self.name.includes());
        self.has_measured().then(|| format!("{name} includes: {includes}"))
    }

    /// The same for programs.
    pub(super) fn value(&self) -> Value {
        let all = |operation| Some(self.waited(operation)? == Waited::All);
        let state = match &self.reason {
            None => "measured",
            Some(_) if self.has_failed() => "failed",
            Some(_) => "absent",
        };
        json!({
            "column": self.name.name(),
            "state": state,
            "reason": self.reason,
            "transport": self.about,
            "includes": self.name.includes(),
            "engine": self.ability,
            "reads_wait_for_a_sleeping_owner": all(Operation::Read { words: 8 }),
            "atomics_wait_for_a_sleeping_owner": all(Operation::Swap),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_waited_when_the_owner_slept() {
        let mut column = Standing::new(ColumnName::OscUcx, true);
        column.about = vec!["mpi, 2 ranks".to_owned()];
        let unmeasured = "osc-ucx: mpi, 2 ranks; READs were not measured while the owner slept, CAS \
                          were not measured while the owner slept";
        assert_eq!(column.line(), unmeasured);

        let sleep = |step: &Step, of: Operation| {
            matches!(step, Step::Latency { operation, place: Place::Random, owner: OwnerDoes::Sleep }
                if *operation == of)
        };
        let at = |of| steps().iter().position(|step| sleep(step, of)).unwrap();
        let waited = Sample { waited_for_owner: true, ..Sample::default() };
        let some = Sample { some_waited_for_owner: true, ..Sample::default() };
        column.add(at(Operation::Read { words: 8 }), Sample::default());
        column.add(at(Operation::Swap), waited);
        let measured = "osc-ucx: mpi, 2 ranks; READs did not wait for an owner that slept, CAS \
                        waited for an owner that slept";
        assert_eq!(column.line(), measured);
        assert_eq!(column.value()["reads_wait_for_a_sleeping_owner"], false);
        assert_eq!(column.value()["atomics_wait_for_a_sleeping_owner"], true);

        column.add(at(Operation::Read { words: 8 }), some);
        assert!(column.line().contains("; some READs waited for an owner that slept, "));
    }
}
