//! The verdicts of all cases, and the comparison with what a backend says it skips.

use super::{Case, Failure, Verdict};

/// Collects verdicts, prints them, and judges the whole.
#[derive(Debug, Default)]
pub struct Report {
    passed: u32,
    failed: Vec<String>,
    skipped: Vec<&'static str>,
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the verdicts of all owners on one case, and prints a line.
    pub fn add(&mut self, case: &Case, verdicts: &[Result<Verdict, Failure>]) {
        let name = case.name;
        let failures: Vec<String> = verdicts
            .iter()
            .enumerate()
            .filter_map(|(owner, v)| Some(format!("owner {owner}: {}", v.as_ref().err()?)))
            .collect();
        if !failures.is_empty() || verdicts.is_empty() {
            println!("FAILED  {name}: {}", failures.join("; "));
            self.failed.push(format!("{name}: {}", failures.join("; ")));
        } else if let Some(Ok(Verdict::Skipped(why))) =
            verdicts.iter().find(|v| matches!(v, Ok(Verdict::Skipped(_))))
        {
            println!("skipped {name}: {why}");
            self.skipped.push(name);
        } else {
            println!("passed  {name}");
            self.passed += 1;
        }
    }

    /// The names of the cases that failed, with what did not hold.
    #[must_use]
    pub fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Judges: nothing failed, and what was skipped is exactly `expected_skips`.
    ///
    /// # Errors
    /// What failed, or how the skips differ.
    pub fn judge(&self, expected_skips: &[&str]) -> Result<(), Failure> {
        println!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        );
        if !self.failed.is_empty() {
            return Err(Failure(self.failed.join("\n")));
        }
        if self.skipped != expected_skips {
            return Err(Failure(format!(
                "skipped {:?}, the backend's list says {expected_skips:?}",
                self.skipped
            )));
        }
        Ok(())
    }
}
