//! Selects cases, runs them, and prints their outcomes as cargo's tests do.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::io::{self, Write};
use std::panic::catch_unwind;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;

use crate::case::{Case, Figure, Layer, Mode, Outcome, Procedure};
use crate::cases;
use crate::host::Host;
use crate::programs::Build;
use crate::testbed::Testbed;

/// The cases to run, and how.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Run only cases whose name contains this
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Run only cases of this layer; may be repeated
    #[arg(long = "layer", value_name = "NAME")]
    layers: Vec<Layer>,
    /// Measure, and compare the figures with their bounds; run no other tests
    #[arg(long)]
    bench: bool,
    /// Fail if a figure misses its bound
    #[arg(long, requires = "bench")]
    check: bool,
}

impl Selection {
    /// Returns the selected cases, sorted by layer, destructive ones last.
    pub(crate) fn cases(&self) -> Result<Vec<Case>> {
        let mut cases: Vec<Case> =
            cases::all().into_iter().filter(|case| self.includes(case)).collect();
        let hint = "--list shows the tests, --bench --list the benchmarks";
        if let Some(only) = &self.only {
            ensure!(
                !cases.is_empty(),
                "no case of these layers has \"{only}\" in its name; {hint}"
            );
        }
        ensure!(!cases.is_empty(), "these layers have no case; {hint}");
        cases.sort_by_key(|case| (case.layer, case.destructive));
        Ok(cases)
    }

    /// Builds the programs of the selected cases.
    pub(crate) fn build(&self) -> Result<()> {
        let mut builds: Vec<Build> = Vec::new();
        for &build in self.cases()?.iter().flat_map(|case| case.builds) {
            if !builds.contains(&build) {
                builds.push(build);
            }
        }
        builds.into_iter().try_for_each(|build| build.run(self.mode()))
    }

    fn mode(&self) -> Mode {
        if self.bench { Mode::Bench } else { Mode::Test }
    }

    fn includes(&self, case: &Case) -> bool {
        let name = case.full_name();
        self.only.as_ref().is_none_or(|only| name.contains(only))
            && case.is_part_of(self.mode())
            && (self.layers.is_empty() || self.layers.contains(&case.layer))
    }
}

/// Builds the programs of the selected cases and runs the cases; whether all passed.
pub(crate) fn run(selection: &Selection) -> Result<bool> {
    let cases = selection.cases()?;
    let host = Host::open()?;
    println!("kernel {} ({})", host.kernel().release, host.kernel().package);
    selection.build()?;
    let report = Report::new(cases.len(), cases::all().len() - cases.len());
    let mut run = Run { host, selection, report, testbed: None, boots: 0, failed_boot: None };
    for case in &cases {
        run.case(case);
    }
    run.power_off();
    Ok(run.report.finish())
}

struct Run<'a> {
    host: Host,
    selection: &'a Selection,
    report: Report,
    testbed: Option<(Layer, Testbed)>,
    boots: u32,
    /// The layer whose last boot failed, which is not tried again.
    failed_boot: Option<Layer>,
}

impl Run<'_> {
    fn case(&mut self, case: &Case) {
        if self.testbed.as_ref().is_some_and(|(layer, _)| *layer != case.layer) {
            self.power_off();
        }
        let booted = self.boot(case.layer);
        let name = case.full_name();
        self.report.begin(&name);
        let start = Instant::now();
        let outcome = booted.and_then(|()| {
            let (_, testbed) = self.testbed.as_ref().context("no machines")?;
            attempt(case, testbed, self.selection)
        });
        self.report.end(&name, start.elapsed(), &outcome);
        if outcome.is_err() {
            if let Some((_, testbed)) = &self.testbed {
                println!("    logs: {}", testbed.dir().display());
            }
            // The next case gets new machines.
            self.testbed = None;
        } else if case.destructive {
            self.power_off();
        }
    }

    fn boot(&mut self, layer: Layer) -> Result<()> {
        if self.testbed.is_some() {
            return Ok(());
        }
        if self.failed_boot == Some(layer) {
            bail!("the machines did not boot, see above");
        }
        self.boots += 1;
        let name = format!("{layer}-{}", self.boots);
        match Testbed::boot(&self.host, &name, layer) {
            Ok(testbed) => {
                let (release, seconds) = (testbed.release(), testbed.boot_time().as_secs_f32());
                println!("boot {name}: {release}, ready in {seconds:.1} s");
                self.testbed = Some((layer, testbed));
                Ok(())
            }
            Err(error) => {
                self.failed_boot = Some(layer);
                bail!("{error:#}\nlogs: {}", self.host.dir().join(&name).display())
            }
        }
    }

    /// Powers the machines off. If that fails, the report has a failed test `power_off`.
    fn power_off(&mut self) {
        let Some((layer, testbed)) = self.testbed.take() else { return };
        let dir = testbed.dir().to_owned();
        let start = Instant::now();
        let Err(error) = testbed.power_off() else { return };
        let name = format!("{layer}::power_off");
        self.report.begin(&name);
        let error = anyhow!("{error:#}\nlogs: {}", dir.display());
        self.report.end(&name, start.elapsed(), &Err(error));
    }
}

/// Runs a case; a panic is a failure.
fn attempt(case: &Case, testbed: &Testbed, selection: &Selection) -> Result<Outcome> {
    let outcome = catch_unwind(AssertUnwindSafe(|| match case.procedure {
        Procedure::Test(test) => test(testbed).map(|()| Outcome::Passed),
        Procedure::RareEvent(test) => test(testbed),
        Procedure::Figures(measure) => judge(&measure(testbed, selection.mode())?, selection.check),
    }));
    outcome.unwrap_or_else(|_| bail!("panicked: see standard error"))
}

/// Prints the figures of a measurement, and with `check` fails if one misses its bound.
fn judge(figures: &[Figure], check: bool) -> Result<Outcome> {
    println!();
    figures.iter().for_each(|figure| println!("{figure}"));
    ensure!(!figures.is_empty(), "nothing was measured");
    let missed = figures.iter().filter(|figure| !figure.is_met()).count();
    ensure!(missed == 0 || !check, "{missed} of {} figures missed their bounds", figures.len());
    Ok(Outcome::Passed)
}

/// Prints and counts outcomes in the format of cargo's tests.
#[derive(Debug)]
struct Report {
    start: Instant,
    filtered: usize,
    passed: usize,
    ignored: usize,
    failed: Vec<String>,
}

impl Report {
    fn new(selected: usize, filtered: usize) -> Self {
        println!("\nrunning {selected} test{}", if selected == 1 { "" } else { "s" });
        Self { start: Instant::now(), filtered, passed: 0, ignored: 0, failed: Vec::new() }
    }

    fn begin(&self, name: &str) {
        print!("test {name} ... ");
        // The line should be visible while the case runs; if not, no harm is done.
        let _ = io::stdout().flush();
    }

    fn end(&mut self, name: &str, time: Duration, outcome: &Result<Outcome>) {
        let seconds = time.as_secs_f32();
        match outcome {
            Ok(Outcome::Passed) => {
                self.passed += 1;
                println!("ok ({seconds:.1} s)");
            }
            Ok(Outcome::Ignored(why)) => {
                self.ignored += 1;
                println!("ignored, {why} ({seconds:.1} s)");
            }
            Err(error) => {
                self.failed.push(name.to_owned());
                println!("FAILED ({seconds:.1} s)");
                format!("{error:#}").lines().for_each(|line| println!("    {line}"));
            }
        }
    }

    /// Prints the sums; whether all passed.
    fn finish(self) -> bool {
        let good = self.failed.is_empty();
        if !good {
            println!("\nfailures:");
            self.failed.iter().for_each(|name| println!("    {name}"));
        }
        println!(
            "\ntest result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; \
             finished in {:.2}s\n",
            if good { "ok" } else { "FAILED" },
            self.passed,
            self.failed.len(),
            self.ignored,
            self.filtered,
            self.start.elapsed().as_secs_f32()
        );
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Bound;

    #[test]
    fn refuses_unknown_case_name() {
        let none = Selection { only: Some("nosuch".to_owned()), ..Selection::default() };
        let error = none.cases().unwrap_err().to_string();
        assert!(error.contains("has \"nosuch\" in its name; --list shows"), "{error}");
    }

    #[test]
    fn missed_bound_fails_only_with_check() {
        let figure = |value| Figure { name: "ratio".into(), value, bound: Bound::AtMost(1.15) };
        let (met, missed) = (figure(1.1), figure(1.192));
        let both = [met.clone(), missed];
        assert_eq!(judge(&both, false).unwrap(), Outcome::Passed);
        let error = judge(&both, true).unwrap_err().to_string();
        assert_eq!(error, "1 of 2 figures missed their bounds");
        assert_eq!(judge(&[met], true).unwrap(), Outcome::Passed);
        assert!(judge(&[], false).is_err());
    }

    #[test]
    fn selects_all_or_measurements() {
        let selected = |bench| Selection { bench, ..Selection::default() }.cases().unwrap().len();
        let measures = |case: &&Case| matches!(case.procedure, Procedure::Figures(_));
        let all = cases::all();
        assert_eq!(selected(false), all.len());
        assert_eq!(selected(true), all.iter().filter(measures).count());
    }
}
