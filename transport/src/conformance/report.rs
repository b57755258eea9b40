//! The verdicts of all cases, and their comparison with the skips that a backend declares.

use core::fmt;

use super::{Case, Failure, Verdict, all_cases, cases};
use crate::{Exchange, ExchangeError, Owner};

/// Collects and prints the verdicts of a job's owners on all cases that the job can run.
#[derive(Debug)]
pub struct Report {
    owners: u32,
    /// Whether another process prints instead.
    quiet: bool,
    passed: Vec<&'static str>,
    failed: Vec<(&'static str, String)>,
    skipped: Vec<&'static str>,
}

impl Report {
    /// Creates an empty report on a job of this many owners.
    #[must_use]
    pub fn new(owners: u32) -> Self {
        Self { owners, quiet: false, passed: Vec::new(), failed: Vec::new(), skipped: Vec::new() }
    }

    /// Adds the verdicts of all owners on one case, and prints a line.
    pub fn add(&mut self, case: &Case, verdicts: &[Result<Verdict, Failure>]) {
        let name = case.name;
        let failures: Vec<String> = verdicts
            .iter()
            .enumerate()
            .filter_map(|(owner, v)| Some(format!("owner {owner}: {}", v.as_ref().err()?)))
            .collect();
        if !failures.is_empty() || verdicts.is_empty() {
            let failures = failures.join("; ");
            self.print(format_args!("FAILED  {name}: {failures}"));
            self.failed.push((name, failures));
        } else if let Some(Ok(Verdict::Skipped(why))) =
            verdicts.iter().find(|v| matches!(v, Ok(Verdict::Skipped(_))))
        {
            self.print(format_args!("skipped {name}: {why}"));
            self.skipped.push(name);
        } else {
            self.print(format_args!("passed  {name}"));
            self.passed.push(name);
        }
    }

    /// Gathers the verdicts of processes, each of which passes its own, and adds them.
    ///
    /// Owner 0 prints the verdicts. Each process prints its own failure; the reports of the other
    /// processes state only that it failed.
    ///
    /// # Errors
    /// The exchange's error.
    pub fn gather(
        &mut self,
        case: &Case,
        own: Result<Verdict, Failure>,
        exchange: &mut dyn Exchange,
    ) -> Result<(), ExchangeError> {
        let me = exchange.me();
        self.quiet = me != Owner(0);
        if let (Err(failure), true) = (&own, self.quiet) {
            eprintln!("{}: {me}: {failure}", case.name);
        }
        let mut passed = vec![0; exchange.owners() as usize];
        exchange.all_gather(&[u8::from(own.is_ok())], &mut passed)?;
        let verdict = |(owner, passed): (u32, u8)| match passed {
            _ if Owner(owner) == me => own.clone(),
            // Capabilities, and so skips, are the same for all owners.
            1 => own.clone().or(Ok(Verdict::Passed)),
            _ => Err(Failure("failed; its own output says why".into())),
        };
        let verdicts: Vec<_> = (0..).zip(passed).map(verdict).collect();
        self.add(case, &verdicts);
        Ok(())
    }

    /// Checks that all cases of the job ran, that none failed, and that those of `expected_skips`
    /// and no others were skipped.
    ///
    /// # Errors
    /// The failures, the cases that did not run, or the difference in skips.
    pub fn judge(&self, expected_skips: &[&str]) -> Result<(), Failure> {
        let [passed, failed, skipped] = [self.passed.len(), self.failed.len(), self.skipped.len()];
        let owners = self.owners;
        self.print(format_args!(
            "{owners} owners: {passed} passed, {failed} failed, {skipped} skipped"
        ));
        let failures: Vec<_> =
            self.failed.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        if !failures.is_empty() {
            return Err(Failure(failures.join("\n")));
        }
        let has_run = |name| self.passed.contains(&name) || self.skipped.contains(&name);
        let missing: Vec<_> =
            cases(self.owners).map(|case| case.name).filter(|name| !has_run(*name)).collect();
        if !missing.is_empty() {
            return Err(Failure(format!("did not run: {missing:?}")));
        }
        let unknown = |name: &&&str| all_cases().all(|case| case.name != **name);
        if let Some(name) = expected_skips.iter().find(unknown) {
            return Err(Failure(format!("the list of skips names {name}, which is not a case")));
        }
        let expected: Vec<_> = cases(self.owners)
            .map(|case| case.name)
            .filter(|name| expected_skips.contains(name))
            .collect();
        if self.skipped != expected {
            let skipped = &self.skipped;
            return Err(Failure(format!("skipped {skipped:?}, expected {expected:?}")));
        }
        Ok(())
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        if !self.quiet {
            println!("{line}");
        }
    }
}
