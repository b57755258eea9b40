//! Findings, and the checks that make them: what is read, when it is a problem, and what to do.

use core::{fmt, mem};

use serde::Serialize;

/// The folder of the notes, relative to the root of the repository.
pub const FOLDER: &str = "firmware-notes";
/// The maximum characters of a line, and what the further lines of a finding begin with.
const LINE_CHARS: usize = 100;
const INDENT: &str = "    ";

/// The result of one check of one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, the same for every subject.
    pub check: &'static str,
    /// The subject that was checked: `machine`, as this process sees it; an RDMA device; or a port,
    /// such as `mlx5_0/1`.
    pub subject: String,
    /// The assessment.
    pub verdict: Verdict,
    /// The observation, or why it was not possible.
    pub seen: String,
    /// The consequence for the table, if it needs to be explained.
    pub consequence: Option<String>,
    /// The command that fixes the problem, or that shows what this process could not observe.
    pub command: Option<String>,
    /// The path of the note with more information, relative to the root of the repository.
    pub note: Option<String>,
}

/// The assessment of an observation, in the order in which findings are read: those that need action
/// come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A table cannot be opened or would give wrong results.
    Broken,
    /// It works, but it may be slow or not as the user expects.
    Warning,
    /// It could not be observed.
    Unknown,
    /// No problem.
    Fine,
}

/// The finding of a check, or why it could not read its input: the verdict is then *unknown*.
pub(crate) type Found = Result<Finding, String>;

/// A check of a subject with the facts `C`.
pub(crate) struct Check<C> {
    name: &'static str,
    note: Option<&'static str>,
    /// The command that shows what this process could not observe.
    shown_by: Option<&'static str>,
    concerns: fn(&C) -> bool,
    run: fn(&C) -> Found,
}

impl<C> Check<C> {
    /// Creates a check. Its findings have the note `note` unless they name one of their own.
    pub(crate) const fn new(
        name: &'static str,
        note: Option<&'static str>,
        run: fn(&C) -> Found,
    ) -> Self {
        Self { name, note, shown_by: None, concerns: |_| true, run }
    }

    pub(crate) const fn shown_by(self, command: &'static str) -> Self {
        Self { shown_by: Some(command), ..self }
    }

    /// Restricts the check to some subjects.
    pub(crate) const fn only_if(self, concerns: fn(&C) -> bool) -> Self {
        Self { concerns, ..self }
    }
}

/// Runs the checks that concern a subject.
pub(crate) fn examine<C>(facts: &C, subject: &str, checks: &[Check<C>]) -> Vec<Finding> {
    let finding = |check: &Check<C>| {
        let found = (check.run)(facts).unwrap_or_else(unknown);
        let shown_by = check.shown_by.filter(|_| found.verdict == Verdict::Unknown);
        Finding {
            check: check.name,
            subject: subject.to_owned(),
            command: found.command.or_else(|| shown_by.map(str::to_owned)),
            note: found.note.or_else(|| check.note.map(in_folder)),
            ..found
        }
    };
    checks.iter().filter(|check| (check.concerns)(facts)).map(finding).collect()
}

fn in_folder(note: &str) -> String {
    format!("{FOLDER}/{note}")
}

fn finding(verdict: Verdict, seen: String) -> Finding {
    let (check, subject) = ("", String::new());
    Finding { check, subject, verdict, seen, consequence: None, command: None, note: None }
}

pub(crate) fn fine(seen: impl Into<String>) -> Finding {
    finding(Verdict::Fine, seen.into())
}

/// Creates a finding of a possible problem: what was observed, its consequence, and the command that
/// fixes it.
pub(crate) fn warning(
    seen: impl Into<String>,
    consequence: impl Into<String>,
    command: impl Into<String>,
) -> Finding {
    finding(Verdict::Warning, seen.into()).consequence(consequence).command(command)
}

/// Creates a finding of a problem that prevents correct operation: what was observed, its consequence,
/// and the command that fixes it.
pub(crate) fn broken(
    seen: impl Into<String>,
    consequence: impl Into<String>,
    command: impl Into<String>,
) -> Finding {
    Finding { verdict: Verdict::Broken, ..warning(seen, consequence, command) }
}

pub(crate) fn unknown(why: impl Into<String>) -> Finding {
    finding(Verdict::Unknown, why.into())
}

impl Finding {
    pub(crate) fn consequence(self, consequence: impl Into<String>) -> Self {
        Self { consequence: Some(consequence.into()), ..self }
    }

    /// Sets the command that fixes the problem or shows more.
    pub(crate) fn command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    /// Replaces the note of the check.
    pub(crate) fn note(self, note: &str) -> Self {
        Self { note: Some(in_folder(note)), ..self }
    }

    /// Formats the finding in one line.
    #[must_use]
    pub fn line(&self) -> String {
        self.sentences().join(". ")
    }

    /// Formats the finding in lines of at most 100 characters, unless a word is longer: the finding, then
    /// indented lines with the rest of it and the command.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for sentence in self.sentences() {
            let mut line = if lines.is_empty() { String::new() } else { INDENT.to_owned() };
            for (nth, word) in sentence.split(' ').enumerate() {
                if nth > 0 && line.chars().count() + 1 + word.chars().count() > LINE_CHARS {
                    lines.push(mem::replace(&mut line, INDENT.to_owned()));
                } else if nth > 0 {
                    line.push(' ');
                }
                line += word;
            }
            lines.push(line);
        }
        lines
    }

    /// Returns the finding, and the command if it has one; the note is at the end.
    fn sentences(&self) -> Vec<String> {
        let Self { check, subject, verdict, seen, .. } = self;
        let mut finding = format!("{:<8} {subject}, {check}: {seen}", verdict.to_string());
        if let Some(consequence) = &self.consequence {
            finding += &format!("; {consequence}");
        }
        let command = self.command.as_ref().map(|command| format!("Do: {command}"));
        let mut lines: Vec<String> = [finding].into_iter().chain(command).collect();
        if let (Some(note), Some(last)) = (&self.note, lines.last_mut()) {
            *last += &format!(" ({note})");
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
    let all = [Verdict::Fine, Verdict::Warning, Verdict::Broken, Verdict::Unknown];
    all.map(|verdict| format!("{} {verdict}", count(verdict))).join(", ")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fine => "fine",
            Self::Warning => "warning",
            Self::Broken => "broken",
            Self::Unknown => "unknown",
        })
    }
}
