//! Runs cases, those of one layer in one boot for as long as none spoils it.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::time::Instant;

use crate::bed::Bed;
use crate::case::{self, Case, Failure, Layer, Outcome};
use crate::cases;
use crate::error::Error;
use crate::programs::Build;
use crate::report::Report;
use crate::site::Site;
use crate::verdict::Verdict;

/// Which cases to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only those whose full name contains this.
    pub only: Option<String>,
    /// Only those of these layers, unless empty.
    pub layers: Vec<Layer>,
    /// Benchmarks, and not tests.
    pub bench: bool,
    /// Whether a benchmark fails whose verdict is missed.
    pub check: bool,
    /// Whether logs stay although all went well.
    pub keep: bool,
}

impl Selection {
    /// The cases, layer by layer.
    ///
    /// # Errors
    /// [`Error::NoCase`] if there is none.
    pub fn cases(&self) -> Result<Vec<Case>, Error> {
        let fits = |case: &Case| {
            let name = case.full_name();
            let named = self.only.as_ref().is_none_or(|only| name.contains(only));
            let asked = self.only.as_ref().is_some_and(|only| name == *only);
            named
                && case.is_bench() == self.bench
                && (asked || !case.on_demand)
                && (self.layers.is_empty() || self.layers.contains(&case.layer))
        };
        let mut cases: Vec<Case> = cases::all().into_iter().filter(fits).collect();
        if cases.is_empty() {
            return Err(Error::NoCase { only: self.only.clone() });
        }
        // Those that spoil a boot come last in it.
        cases.sort_by_key(|case| {
            (Layer::ALL.iter().position(|&layer| layer == case.layer), case.spoils)
        });
        Ok(cases)
    }
}

/// Builds what the cases need and runs them; whether all passed.
///
/// # Errors
/// No such case; what is missing on this machine, or could not be built.
pub fn run(selection: &Selection) -> Result<bool, Error> {
    let cases = selection.cases()?;
    let site = Site::open()?;
    println!("kernel {} ({})", site.kernel().release, site.kernel().package);
    build_for(&cases)?;
    let report = Report::new(cases.len(), cases::all().len() - cases.len());
    let Selection { keep, check, .. } = *selection;
    let mut run = Run { site, keep, check, report, bed: None, boots: 0, broken: None };
    for case in &cases {
        run.case(case);
    }
    run.end_bed(selection.keep);
    Ok(run.report.close())
}

/// Builds what the cases need, and runs none.
///
/// # Errors
/// No such case; what could not be built.
pub fn build(selection: &Selection) -> Result<(), Error> {
    build_for(&selection.cases()?)
}

fn build_for(cases: &[Case]) -> Result<(), Error> {
    let mut builds: Vec<Build> = Vec::new();
    for &build in cases.iter().flat_map(|case| case.builds) {
        if !builds.contains(&build) {
            builds.push(build);
        }
    }
    // Test programs last: whoever tests meanwhile waits for cargo's lock on their folder.
    builds.sort_by_key(|build| !matches!(build, Build::Release(_)));
    builds.into_iter().try_for_each(Build::make)
}

/// A run that is under way.
struct Run {
    site: Site,
    keep: bool,
    check: bool,
    report: Report,
    bed: Option<(Layer, Bed)>,
    boots: u32,
    /// The layer whose machines did not boot.
    broken: Option<Layer>,
}

impl Run {
    fn case(&mut self, case: &Case) {
        if self.bed.as_ref().is_some_and(|(layer, _)| *layer != case.layer) {
            self.end_bed(self.keep);
        }
        let booted = self.boot(case.layer);
        let name = case.full_name();
        self.report.begin(&name);
        let start = Instant::now();
        let outcome = booted.and_then(|()| match &self.bed {
            Some((_, bed)) => attempt(case, bed, self.check),
            None => Err(Failure("no machines".to_owned())),
        });
        match &outcome {
            Ok(Outcome::Passed) => self.report.passed(start.elapsed()),
            Ok(Outcome::Skipped(why)) => self.report.skipped(start.elapsed(), why),
            Err(Failure(why)) => self.report.failed(&name, start.elapsed(), why),
        }
        if outcome.is_err() {
            if let Some((_, bed)) = &self.bed {
                println!("    logs: {}", bed.dir().display());
            }
            // Whatever it left behind is nobody else's trouble.
            self.bed = None;
        } else if case.spoils {
            self.end_bed(self.keep);
        }
    }

    fn boot(&mut self, layer: Layer) -> Result<(), Failure> {
        if self.bed.is_some() {
            return Ok(());
        }
        if self.broken == Some(layer) {
            return Err(Failure("its machines did not boot: see above".to_owned()));
        }
        self.boots += 1;
        let name = format!("{}-{}", layer.name(), self.boots);
        let booted = Bed::boot(&self.site, &name, layer.plan());
        let bed = booted.map_err(|error| {
            self.broken = Some(layer);
            let Failure(why) = Failure::from(error);
            Failure(format!("{why}\nlogs: {}", self.site.dir().join(&name).display()))
        })?;
        let (release, seconds) = (bed.release(), bed.boot_time().as_secs_f32());
        println!("boot {name}: {release}, ready in {seconds:.1} s");
        self.bed = Some((layer, bed));
        Ok(())
    }

    /// Ends the machines; a bad end is a failure of its own.
    fn end_bed(&mut self, keep: bool) {
        let Some((layer, bed)) = self.bed.take() else { return };
        let dir = bed.dir().to_owned();
        let start = Instant::now();
        let Err(error) = bed.end(keep) else { return };
        let name = format!("{}::power_off", layer.name());
        self.report.begin(&name);
        let Failure(why) = Failure::from(error);
        let why = format!("{why}\nlogs: {}", dir.display());
        self.report.failed(&name, start.elapsed(), &why);
    }
}

/// Runs a case, whose panic is its failure.
fn attempt(case: &Case, bed: &Bed, check: bool) -> Result<Outcome, Failure> {
    let outcome = catch_unwind(AssertUnwindSafe(|| match case.run {
        case::Run::Test(test) => test(bed).map(|()| Outcome::Passed),
        case::Run::Chance(test) => test(bed),
        case::Run::Bench(bench) => judge(&bench(bed)?, check),
    }));
    outcome.unwrap_or_else(|panic| Err(Failure(format!("panicked: {}", message(&*panic)))))
}

/// Prints the verdicts of a benchmark, which fails if one is missed and `check` is set.
fn judge(verdicts: &[Verdict], check: bool) -> Result<Outcome, Failure> {
    println!();
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    let missed = verdicts.iter().filter(|verdict| !verdict.is_met()).count();
    match missed {
        _ if verdicts.is_empty() => Err(Failure("nothing was measured".to_owned())),
        0 => Ok(Outcome::Passed),
        _ if !check => Ok(Outcome::Passed),
        _ => Err(Failure(format!("{missed} of {} verdicts missed", verdicts.len()))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Bound;

    #[test]
    fn a_name_that_no_case_has_is_told() {
        let none = Selection { only: Some("nosuch".to_owned()), ..Selection::default() };
        let said = none.cases().unwrap_err().to_string();
        assert!(said.contains("has \"nosuch\" in its name; --list shows"), "{said}");
    }

    #[test]
    fn a_missed_verdict_fails_a_benchmark_only_where_verdicts_are_checked() {
        let verdict = |value| Verdict { what: "ratio".into(), value, bound: Bound::AtMost(1.15) };
        let (met, missed) = (verdict(1.1), verdict(1.192));
        let all = [met.clone(), missed];
        assert_eq!(judge(&all, false), Ok(Outcome::Passed));
        assert_eq!(judge(&all, true), Err(Failure("1 of 2 verdicts missed".to_owned())));
        assert_eq!(judge(&[met], true), Ok(Outcome::Passed));
        assert!(judge(&[], false).is_err());
    }

    #[test]
    fn tests_and_benchmarks_are_asked_for_apart() {
        let selected = |bench| Selection { bench, ..Selection::default() }.cases().unwrap();
        assert!(selected(false).iter().all(|case| !case.is_bench()));
        assert!(selected(true).iter().all(Case::is_bench));
    }

    #[test]
    fn who_asks_for_nothing_gets_all_tests_but_those_on_demand() {
        let usual = cases::all().iter().filter(|case| !case.on_demand && !case.is_bench()).count();
        assert_eq!(Selection::default().cases().unwrap().len(), usual);
        let on_demand = cases::all().into_iter().find(|case| case.on_demand).unwrap();
        let named = Selection { only: Some(on_demand.full_name()), ..Selection::default() };
        assert_eq!(named.cases().unwrap().len(), 1);
    }
}
