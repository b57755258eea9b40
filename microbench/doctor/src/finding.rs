//! What was found out, and what to do about it.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::Note;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, the same for every subject.
    pub check: &'static str,
    /// Of what.
    pub subject: Subject,
    /// What to think of it.
    pub verdict: Verdict,
    /// What was seen, or why nothing was.
    pub seen: String,
    /// What it means for a one-sided table, where there is more to say.
    pub consequence: Option<String>,
    /// What mends it, or shows what was not seen.
    pub command: Option<String>,
    /// Where more is said.
    pub note: Option<Note>,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The machine, as this process sees it.
    Machine,
    /// An RDMA device.
    Device(String),
    /// A port of one, from 1 on.
    Port(String, u8),
}

/// What to think of what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Verdict {
    /// As it should be.
    #[serde(rename = "fine")]
    Fine,
    /// It works, and may be slow, or other than one thinks.
    #[serde(rename = "look at this")]
    LookAtThis,
    /// A table cannot be opened like this, or would be wrong.
    #[serde(rename = "broken")]
    Broken,
    /// It could not be found out.
    #[serde(rename = "not seen")]
    NotSeen,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fine, Self::LookAtThis, Self::Broken, Self::NotSeen];
}

impl Finding {
    fn new(
        verdict: Verdict,
        check: &'static str,
        subject: &Subject,
        seen: impl Into<String>,
    ) -> Self {
        let (subject, seen) = (subject.clone(), seen.into());
        Self { check, subject, verdict, seen, consequence: None, command: None, note: None }
    }

    pub(crate) fn fine(check: &'static str, subject: &Subject, seen: impl Into<String>) -> Self {
        Self::new(Verdict::Fine, check, subject, seen)
    }

    pub(crate) fn look(check: &'static str, subject: &Subject, seen: impl Into<String>) -> Self {
        Self::new(Verdict::LookAtThis, check, subject, seen)
    }

    pub(crate) fn broken(check: &'static str, subject: &Subject, seen: impl Into<String>) -> Self {
        Self::new(Verdict::Broken, check, subject, seen)
    }

    pub(crate) fn not_seen(check: &'static str, subject: &Subject, why: impl fmt::Display) -> Self {
        Self::new(Verdict::NotSeen, check, subject, why.to_string())
    }

    /// What it means for a table.
    pub(crate) fn means(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }

    /// What mends or shows it.
    pub(crate) fn mend(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Completes a finding that is not fine.
    pub(crate) fn unless_fine(self, complete: impl FnOnce(Self) -> Self) -> Self {
        if self.verdict == Verdict::Fine { self } else { complete(self) }
    }

    /// Where more is said.
    pub(crate) fn note(mut self, note: Note) -> Self {
        self.note = Some(note);
        self
    }

    /// The finding in one line; `notes` stands in front of its note's name.
    #[must_use]
    pub fn line(&self, notes: &str) -> String {
        self.lines(notes).join(". ")
    }

    /// The finding in one line, or in two where there is something to do; `notes` stands in front
    /// of its note's name.
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
        // A file or a library may say anything; a line stays a line.
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        lines.iter().map(|line| line.chars().map(visible).collect()).collect()
    }
}

/// How many findings of each verdict there are, in words.
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
    fn a_line_says_everything_in_one_line() {
        let port = Subject::Port("mlx5_0".to_owned(), 1);
        let finding = Finding::look("mtu", &port, "1024\nB").means("slow").mend("ip link");
        let finding = finding.note(Note::MTU);
        let line = finding.line("notes/");
        assert_eq!(line, "look at this  mlx5_0/1, mtu: 1024 B; slow. Do: ip link (notes/mtu.md)");
        let lines = finding.lines("notes/");
        assert_eq!(
            lines,
            ["look at this  mlx5_0/1, mtu: 1024 B; slow", "Do: ip link (notes/mtu.md)"]
        );
        let line = Finding::fine("mtu", &Subject::Machine, "yes").line("notes");
        assert_eq!(line, "fine          machine, mtu: yes");
    }

    #[test]
    fn programs_get_the_same() {
        let finding = Finding::broken("gid", &Subject::Device("a".to_owned()), "none");
        let json = serde_json::to_value(finding.note(Note::GIDS)).unwrap();
        let expected = serde_json::json!({
            "check": "gid", "subject": "a", "verdict": "broken", "seen": "none",
            "consequence": null, "command": null, "note": "firmware-notes/gids.md",
        });
        assert_eq!(json, expected);
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.to_string());
        }
    }
}
