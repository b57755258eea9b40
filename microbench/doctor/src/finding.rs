//! Findings: what was checked, the result, and the recommended action.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::Note;

/// The result of one check of one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, the same for every subject.
    pub check: &'static str,
    /// The subject that was checked.
    pub subject: Subject,
    /// The assessment.
    pub verdict: Verdict,
    /// What was observed, or why it could not be observed.
    pub seen: String,
    /// The consequence for the table, if it needs to be explained.
    pub consequence: Option<String>,
    /// The command that fixes the problem, or that shows what this process could not observe.
    pub command: Option<String>,
    /// The note with more information.
    pub note: Option<Note>,
}

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The machine, as this process sees it.
    Machine,
    /// An RDMA device.
    Device(String),
    /// A port of an RDMA device, counted from 1.
    Port(String, u8),
}

/// The assessment of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Verdict {
    /// No problem.
    #[serde(rename = "fine")]
    Fine,
    /// It works, but it may be slow or not as the user expects.
    #[serde(rename = "look at this")]
    LookAtThis,
    /// A table cannot be opened or would give wrong results.
    #[serde(rename = "broken")]
    Broken,
    /// It could not be observed.
    #[serde(rename = "not seen")]
    NotSeen,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 4] = [Self::Fine, Self::LookAtThis, Self::Broken, Self::NotSeen];

    /// Returns the sort key of findings: those that need action come first.
    #[must_use]
    pub fn urgency(self) -> u8 {
        match self {
            Self::Broken => 0,
            Self::LookAtThis => 1,
            Self::NotSeen => 2,
            Self::Fine => 3,
        }
    }
}

/// A check of one subject, which makes its findings.
#[derive(Clone, Copy)]
pub(crate) struct Check<'s> {
    name: &'static str,
    subject: &'s Subject,
    note: Option<Note>,
    /// The consequence, and the command that shows more, of findings that something could not be
    /// observed.
    unseen: [Option<&'static str>; 2],
}

impl Check<'static> {
    pub(crate) const fn of_machine(name: &'static str, note: Option<Note>) -> Self {
        Self { name, subject: &Subject::Machine, note, unseen: [None; 2] }
    }
}

impl<'s> Check<'s> {
    pub(crate) const fn new(name: &'static str, subject: &'s Subject, note: Note) -> Self {
        Self { name, subject, note: Some(note), unseen: [None; 2] }
    }

    pub(crate) const fn without_note(self) -> Self {
        Self { note: None, ..self }
    }

    /// Sets the command that shows what this process could not observe.
    pub(crate) const fn shown_by(self, command: &'static str) -> Self {
        Self { unseen: [self.unseen[0], Some(command)], ..self }
    }

    /// Sets the consequence of findings that something could not be observed.
    pub(crate) const fn matters(self, consequence: &'static str) -> Self {
        Self { unseen: [Some(consequence), self.unseen[1]], ..self }
    }

    fn finding(&self, verdict: Verdict, seen: String) -> Finding {
        let (check, subject, note) = (self.name, self.subject.clone(), self.note);
        Finding { check, subject, verdict, seen, consequence: None, command: None, note }
    }

    pub(crate) fn fine(&self, seen: impl Into<String>) -> Finding {
        self.finding(Verdict::Fine, seen.into())
    }

    /// Creates a finding of a possible problem: what was observed, its consequence, and the
    /// command that fixes it.
    pub(crate) fn look(
        &self,
        seen: impl Into<String>,
        consequence: impl Into<String>,
        command: impl Into<String>,
    ) -> Finding {
        let finding = self.finding(Verdict::LookAtThis, seen.into());
        finding.consequence(consequence).command(command)
    }

    /// Creates a finding of a problem that prevents correct operation: what was observed, its
    /// consequence, and the command that fixes it.
    pub(crate) fn broken(
        &self,
        seen: impl Into<String>,
        consequence: impl Into<String>,
        command: impl Into<String>,
    ) -> Finding {
        let finding = self.finding(Verdict::Broken, seen.into());
        finding.consequence(consequence).command(command)
    }

    pub(crate) fn not_seen(&self, why: impl fmt::Display) -> Finding {
        let [consequence, command] = self.unseen.map(|text| text.map(str::to_owned));
        Finding { consequence, command, ..self.finding(Verdict::NotSeen, why.to_string()) }
    }
}

impl Finding {
    pub(crate) fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }

    /// Sets the command that fixes the problem or shows more.
    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Replaces the note of the check.
    pub(crate) fn note(mut self, note: Note) -> Self {
        self.note = Some(note);
        self
    }

    /// Formats the finding in one line. `notes` is prepended to the name of its note.
    #[must_use]
    pub fn line(&self, notes: &str) -> String {
        self.lines(notes).join(". ")
    }

    /// Formats the finding in one line, or in two if it has a command. `notes` is prepended to the
    /// name of its note.
    #[must_use]
    pub fn lines(&self, notes: &str) -> Vec<String> {
        let Self { check, subject, verdict, seen, .. } = self;
        let mut finding = format!("{:<13} {subject}, {check}: {seen}", verdict.to_string());
        if let Some(consequence) = &self.consequence {
            finding += &format!("; {consequence}");
        }
        let command = self.command.as_ref().map(|command| format!("Do: {command}"));
        let mut lines: Vec<String> = [finding].into_iter().chain(command).collect();
        if let (Some(note), Some(last)) = (self.note, lines.last_mut()) {
            *last += &format!(" ({}/{})", notes.trim_end_matches('/'), note.file());
        }
        // Files and libraries may return control characters, which must not break the line.
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        lines.iter().map(|line| line.chars().map(visible).collect()).collect()
    }
}

/// States the number of findings of each verdict.
#[must_use]
pub fn summary(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| format!("{} {verdict}", count(verdict)));
    counts.join(", ")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fine => "fine",
            Self::LookAtThis => "look at this",
            Self::Broken => "broken",
            Self::NotSeen => "not seen",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Device(name) => f.write_str(name),
            Self::Port(name, port) => write!(f, "{name}/{port}"),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_fits_in_one_line() {
        let port = Subject::Port("mlx5_0".to_owned(), 1);
        let finding = Check::new("mtu", &port, Note::MTU).look("1024\nB", "slow", "ip link");
        let line = finding.line("notes/");
        assert_eq!(line, "look at this  mlx5_0/1, mtu: 1024 B; slow. Do: ip link (notes/mtu.md)");
        let lines = finding.lines("notes/");
        assert_eq!(
            lines,
            ["look at this  mlx5_0/1, mtu: 1024 B; slow", "Do: ip link (notes/mtu.md)"]
        );
        let line = Check::of_machine("mtu", None).fine("yes").line("notes");
        assert_eq!(line, "fine          machine, mtu: yes");
    }

    #[test]
    fn json_has_the_same_content() {
        let device = Subject::Device("a".to_owned());
        let finding =
            Check::new("gid", &device, Note::GIDS).broken("none", "no peer", "ip address");
        let json = serde_json::to_value(finding).unwrap();
        let expected = serde_json::json!({
            "check": "gid", "subject": "a", "verdict": "broken", "seen": "none",
            "consequence": "no peer", "command": "ip address", "note": "firmware-notes/gids.md",
        });
        assert_eq!(json, expected);
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.to_string());
        }
    }
}
