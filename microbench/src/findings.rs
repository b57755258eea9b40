//! Gathers the doctor's findings on the machines of a job for its report.

mod device;

use core::time::Duration;

use probeline::exchange::host_name;
use probeline::transport::Exchange;
use probeline_doctor::{Doctor, Finding, Subject, Verdict};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

pub(crate) use self::device::Device;
use crate::failure::{Failure, Result};
use crate::pinning;
use probeline_results::{gather, gather_values};

/// Maximum bytes of the findings of all ranks together, which each rank receives: a quarter of what
/// one collective call carries. With more than 2048 ranks, each still uses the minimum of
/// [`MACHINE_BYTES`].
const MOST_BYTES: usize = 1 << 20;
/// Bytes of the findings of one machine. The maximum has room for dozens of findings, the minimum
/// for the host name and one finding.
const MACHINE_BYTES: core::ops::RangeInclusive<usize> = 512..=16 << 10;

/// The examination of a device may take a quarter of the limit of a collective call, so that a
/// device that hangs does not lose the results. It may take at least the time that a healthy device
/// needs, and at most half of the limit.
const LIMIT_PART: u32 = 4;
const MIN_PATIENCE: Duration = Duration::from_secs(2);
const MAX_LIMIT_PART: u32 = 2;

const NAMELESS: &str = "this rank is counted as a separate machine";

/// Findings by machine, starting with this one.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    here: Vec<Finding>,
    ranks: Vec<u32>,
    elsewhere: Vec<OfMachine<Box<RawValue>>>,
    lost: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OfMachine<F> {
    host: Option<String>,
    /// The ranks of the job on this machine; filled in by rank 0.
    #[serde(default)]
    ranks: Vec<u32>,
    findings: Vec<F>,
}

impl Findings {
    pub(crate) fn here(findings: Vec<Finding>) -> Self {
        Self { here: findings, ..Self::default() }
    }

    /// Examines this machine without its devices: only reads files.
    pub(crate) fn of_files() -> Self {
        Self::here(Doctor::new("/").machine())
    }

    pub(crate) fn extend(&mut self, job: Self) {
        self.here.extend(job.here);
        self.ranks.extend(job.ranks);
        self.elsewhere.extend(job.elsewhere);
        self.lost = self.lost.take().or(job.lost);
    }

    pub(crate) fn machines(&self) -> usize {
        1 + self.elsewhere.len()
    }

    /// Returns whether a rank was lost after the work. The other ranks must then not wait for all
    /// ranks again.
    pub(crate) fn lost_a_rank(&self) -> bool {
        self.lost.is_some()
    }
}

impl Serialize for Findings {
    fn serialize<S: Serializer>(&self, serializer: S) -> core::result::Result<S::Ok, S::Error> {
        let mut machines = serializer.serialize_seq(Some(1 + self.elsewhere.len()))?;
        let (ranks, findings) = (self.ranks.clone(), self.here.iter().collect());
        machines.serialize_element(&OfMachine { host: host_name(), ranks, findings })?;
        for machine in &self.elsewhere {
            machines.serialize_element(machine)?;
        }
        machines.end()
    }
}

/// The machines of a job, and the findings on this rank's machine before the transport is opened.
#[derive(Debug)]
pub(crate) struct Machines {
    /// The machine number of each rank, if the machine can be identified.
    of_ranks: Vec<Option<u64>>,
    found: Vec<Finding>,
    patience: Duration,
}

impl Machines {
    /// Gathers which ranks share a machine. The first rank of each machine examines it. All ranks
    /// call this. `limit` is that of collective calls.
    pub(crate) fn examine(exchange: &mut dyn Exchange, limit: Duration) -> Result<Self> {
        Self::of(pinning::machine(), exchange, limit, || Doctor::new("/").machine())
    }

    fn of(
        machine: Result<u64>,
        exchange: &mut dyn Exchange,
        limit: Duration,
        found: impl FnOnce() -> Vec<Finding>,
    ) -> Result<Self> {
        let named = machine.as_ref().map_or([0, 0], |machine| [1, *machine]);
        let of_ranks = gather(exchange, named)?.into_iter();
        let of_ranks = of_ranks.map(|[named, machine]| (named != 0).then_some(machine)).collect();
        let mut machines = Self { of_ranks, found: Vec::new(), patience: patience(limit) };
        // Rank 0 examined its machine before the job.
        if exchange.me().0 != 0 && machines.examines(exchange) {
            machines.found = found();
        }
        machines.found.extend(machine.err().map(|why| missing(format!("{why}; {NAMELESS}"))));
        Ok(machines)
    }

    /// Returns whether this rank examines its machine: whether it is the first rank there.
    fn examines(&self, exchange: &dyn Exchange) -> bool {
        let me = exchange.me().0;
        self.ranks().iter().any(|ranks| ranks.first() == Some(&me))
    }

    /// Returns the ranks of each machine, ordered by their first rank. A rank whose machine cannot
    /// be identified counts as one on a separate machine.
    fn ranks(&self) -> Vec<Vec<u32>> {
        let mut all: Vec<(Option<u64>, Vec<u32>)> = Vec::new();
        for (rank, machine) in (0..).zip(&self.of_ranks) {
            match all.iter_mut().find(|(other, _)| machine.is_some() && other == machine) {
                Some((_, ranks)) => ranks.push(rank),
                None => all.push((*machine, vec![rank])),
            }
        }
        all.into_iter().map(|(_, ranks)| ranks).collect()
    }

    /// Gathers the findings on rank 0 after the work, including those on the `device` of this rank.
    /// All ranks call this.
    ///
    /// If a rank is lost here, rank 0 keeps the findings on its own machine and notes that the
    /// others are missing; the other ranks fail.
    pub(crate) fn tell(
        self,
        device: Option<Device>,
        exchange: &mut dyn Exchange,
    ) -> Result<Findings> {
        let patience = self.patience;
        self.gather_findings(
            || device.map(|device| device.examine(patience)).unwrap_or_default(),
            exchange,
        )
    }

    fn gather_findings(
        mut self,
        device: impl FnOnce() -> Vec<Finding>,
        exchange: &mut dyn Exchange,
    ) -> Result<Findings> {
        // Other ranks may still measure.
        let met = exchange.barrier();
        if self.examines(exchange) {
            self.found.extend(device());
        }
        let texts = met.map_err(Failure::from).and_then(|()| self.gathered(exchange));
        let leads = exchange.me().0 == 0;
        match texts {
            Err(failure) if !leads => Err(failure),
            texts => Ok(self.put_together(texts)),
        }
    }

    /// Combines the findings of all machines from the text of each rank, or notes why it is
    /// missing.
    fn put_together(self, texts: Result<Vec<Option<Box<RawValue>>>>) -> Findings {
        let mut ranks = self.ranks().into_iter();
        let here = ranks.next().unwrap_or_default();
        let mut findings = Findings { here: self.found, ranks: here, ..Findings::default() };
        match texts {
            Ok(texts) => {
                findings.elsewhere = ranks.map(|ranks| of_machine(ranks, &texts)).collect()
            }
            Err(failure) => {
                let why = format!("a rank was lost after the work: {failure}");
                findings.elsewhere =
                    ranks.map(|ranks| missing_machine(ranks, why.clone())).collect();
                findings.here.push(missing(why.clone()));
                findings.lost = Some(why);
            }
        }
        findings
    }

    /// Gathers the findings of each rank as JSON; `None` for ranks that did not examine a machine.
    fn gathered(&self, exchange: &mut dyn Exchange) -> Result<Vec<Option<Box<RawValue>>>> {
        if self.ranks().len() < 2 {
            return Ok(Vec::new());
        }
        let each = MOST_BYTES / exchange.owners().max(1) as usize;
        let most = each.clamp(*MACHINE_BYTES.start(), *MACHINE_BYTES.end());
        let examined = exchange.me().0 != 0 && self.examines(exchange);
        let text = examined.then(|| fitting(host_name(), self.found.clone(), most));
        Ok(gather_values(exchange, &text.map(RawValue::from_string).transpose()?)?)
    }
}

/// Returns the findings on the machine of these ranks, from those of the first of them.
fn of_machine(ranks: Vec<u32>, texts: &[Option<Box<RawValue>>]) -> OfMachine<Box<RawValue>> {
    let first = ranks.first().copied().unwrap_or_default();
    let text = texts.get(first as usize).and_then(Option::as_ref).map_or("", |text| text.get());
    let machine = serde_json::from_str(text).unwrap_or_else(|_| {
        let unread = format!(
            "cannot read the findings of rank {first}: use one version of this program everywhere"
        );
        missing_machine(Vec::new(), unread)
    });
    OfMachine { ranks, ..machine }
}

fn missing_machine(ranks: Vec<u32>, why: String) -> OfMachine<Box<RawValue>> {
    let finding = serde_json::value::to_raw_value(&missing(why));
    OfMachine { host: None, ranks, findings: finding.into_iter().collect() }
}

fn patience(limit: Duration) -> Duration {
    let wanted = (limit / LIMIT_PART).max(MIN_PATIENCE);
    wanted.min(limit / MAX_LIMIT_PART).min(probeline_doctor::ANSWER)
}

/// Formats a machine's findings as JSON of at most `most` bytes. Omits findings without a problem
/// first and broken ones last.
fn fitting(host: Option<String>, mut findings: Vec<Finding>, most: usize) -> String {
    let mut left_out = 0;
    loop {
        let note = missing(format!("{left_out} more findings: probeline doctor there shows them"));
        let shown = findings.iter().chain((left_out > 0).then_some(&note)).collect();
        let machine = OfMachine { host: host.clone(), ranks: Vec::new(), findings: shown };
        let text = serde_json::to_string(&machine).unwrap_or_default();
        let least = (0..findings.len()).max_by_key(|at| findings[*at].verdict.urgency());
        let Some(least) = least.filter(|_| text.len() > most) else { return text };
        findings.remove(least);
        left_out += 1;
    }
}

fn missing(seen: String) -> Finding {
    Finding {
        check: "findings",
        subject: Subject::Machine,
        verdict: Verdict::NotSeen,
        seen,
        consequence: None,
        command: None,
        note: None,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde_json::Value;

    use super::device::within;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn finding(verdict: Verdict, seen: &str) -> Finding {
        Finding { verdict, ..missing(seen.to_owned()) }
    }

    /// Returns the findings on rank 0 for ranks on these machines. Each rank reports findings that
    /// name its rank.
    fn reported(machines: &[u64]) -> Value {
        let checkups: Vec<Findings> = thread::scope(|scope| {
            let ranks = probeline::exchange::threads(u32::try_from(machines.len()).unwrap());
            let ranks = ranks.into_iter().zip(machines).map(|(mut exchange, machine)| {
                scope.spawn(move || {
                    let me = exchange.me().0;
                    let say = |what| vec![finding(Verdict::Fine, &format!("{what} of rank {me}"))];
                    let say_memory = || say("memory");
                    let machines = Machines::of(Ok(*machine), &mut exchange, LIMIT, say_memory);
                    machines.unwrap().gather_findings(|| say("device"), &mut exchange).unwrap()
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let mut report = Findings::here(vec![finding(Verdict::Fine, "before the run")]);
        report.extend(checkups.into_iter().next().unwrap());
        serde_json::to_value(report).unwrap()
    }

    fn seen(machine: &Value) -> Vec<&str> {
        let findings = machine["findings"].as_array().unwrap();
        findings.iter().map(|finding| finding["seen"].as_str().unwrap()).collect()
    }

    #[test]
    fn the_first_rank_of_each_machine_reports_it() {
        let reported = reported(&[7, 9, 7, 9, 5]);
        let [first, second, third] = &reported.as_array().unwrap()[..] else {
            panic!("{reported}")
        };
        let ranks = [first, second, third].map(|machine| machine["ranks"].to_string());
        assert_eq!(ranks, ["[0,2]", "[1,3]", "[4]"]);
        assert_eq!(seen(first), ["before the run", "device of rank 0"]);
        assert_eq!(seen(second), ["memory of rank 1", "device of rank 1"]);
        assert_eq!(seen(third), ["memory of rank 4", "device of rank 4"]);
        let host = host_name();
        assert!(
            reported.as_array().unwrap().iter().all(|of| of["host"].as_str() == host.as_deref())
        );
    }

    #[test]
    fn ranks_of_one_machine_report_one_machine() {
        let reported = reported(&[7, 7]);
        let [machine] = &reported.as_array().unwrap()[..] else { panic!("{reported}") };
        assert_eq!(machine["ranks"].to_string(), "[0,1]");
        assert_eq!(seen(machine), ["before the run", "device of rank 0"]);
    }

    #[test]
    fn fine_findings_are_omitted_before_broken_ones() {
        let long = "x".repeat(100);
        let mut findings = vec![finding(Verdict::Broken, "broken")];
        findings.extend((0..9).map(|_| finding(Verdict::Fine, &long)));
        findings.push(finding(Verdict::LookAtThis, "slow"));
        let fits = |most| {
            let text = fitting(Some("node1".to_owned()), findings.clone(), most);
            (text.len(), serde_json::from_str::<Value>(&text).unwrap())
        };
        let (bytes, machine) = fits(*MACHINE_BYTES.end());
        assert!(bytes > 1000 && seen(&machine).len() == 11, "{machine}");
        let (bytes, machine) = fits(1000);
        assert!(bytes <= 1000, "{bytes}");
        let seen = seen(&machine);
        assert_eq!((seen[0], seen[seen.len() - 2]), ("broken", "slow"));
        let left_out = 11 - (seen.len() - 1);
        let more = format!("{left_out} more findings: probeline doctor there shows them");
        assert!(left_out > 2 && seen.last() == Some(&&*more), "{seen:?}");
    }

    /// Rank 1 is lost after the work.
    #[test]
    fn a_rank_lost_after_the_work_loses_no_result() {
        let ends: Vec<Result<Findings>> = thread::scope(|scope| {
            let ranks = probeline::exchange::threads(4).into_iter().map(|mut exchange| {
                scope.spawn(move || {
                    let me = exchange.me().0;
                    let machine = Ok(u64::from(me / 3));
                    let machines = Machines::of(machine, &mut exchange, LIMIT, Vec::new)?;
                    if me == 1 {
                        return Err(Failure::new("lost"));
                    }
                    machines
                        .gather_findings(|| vec![finding(Verdict::Fine, "device")], &mut exchange)
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let [Ok(first), Err(_), Err(_), Err(_)] = &ends[..] else { panic!("{ends:?}") };
        assert!(first.lost_a_rank());
        let reported = serde_json::to_value(first).unwrap();
        let [here, there] = &reported.as_array().unwrap()[..] else { panic!("{reported}") };
        assert_eq!(
            (here["ranks"].to_string(), there["ranks"].to_string()),
            ("[0,1,2]".into(), "[3]".into())
        );
        assert_eq!(seen(here)[0], "device");
        for said in [seen(here)[1], seen(there)[0]] {
            assert!(said.starts_with("a rank was lost after the work"), "{said}");
        }
    }

    #[test]
    fn unidentified_machines_are_distinct() {
        let checkups: Vec<Findings> = thread::scope(|scope| {
            let ranks = probeline::exchange::threads(3).into_iter().map(|mut exchange| {
                scope.spawn(move || {
                    let machine = match exchange.me().0 {
                        1 => Ok(0),
                        _ => Err(Failure::new("no name")),
                    };
                    let machines = Machines::of(machine, &mut exchange, LIMIT, Vec::new).unwrap();
                    machines.gather_findings(Vec::new, &mut exchange).unwrap()
                })
            });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let reported = serde_json::to_value(checkups.into_iter().next().unwrap()).unwrap();
        let said: Vec<_> = reported.as_array().unwrap().iter().map(seen).collect();
        let nameless = format!("no name; {NAMELESS}");
        assert_eq!(said, [vec![&*nameless], vec![], vec![&*nameless]]);
    }

    #[test]
    fn a_device_gets_two_seconds_if_the_others_wait_for_four() {
        let given = [1, 4, 8, 60, 3600].map(|limit| patience(Duration::from_secs(limit)));
        assert_eq!(given.map(|given| given.as_millis()), [500, 2_000, 2_000, 15_000, 20_000]);
    }

    /// The limit of the other rank is shorter than the time for which the device hangs.
    #[test]
    fn a_device_that_hangs_after_the_work_loses_no_result() {
        let limit = Duration::from_secs(8);
        let checkups: Vec<Findings> = thread::scope(|scope| {
            let ranks =
                probeline::exchange::threads_within(2, limit).into_iter().map(|mut exchange| {
                    scope.spawn(move || {
                        let me = u64::from(exchange.me().0);
                        let machines =
                            Machines::of(Ok(me), &mut exchange, limit, Vec::new).unwrap();
                        let patience = machines.patience;
                        let look = || {
                            thread::sleep(Duration::from_secs(3600));
                            Vec::new()
                        };
                        let hangs = move || within(patience, "mlx5_0".to_owned(), look);
                        machines.gather_findings(hangs, &mut exchange).unwrap()
                    })
                });
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let reported = serde_json::to_value(checkups.into_iter().next().unwrap()).unwrap();
        for machine in reported.as_array().unwrap() {
            assert_eq!(seen(machine), ["no answer within 2.0 s after the run"], "{reported}");
            assert_eq!(machine["findings"][0]["subject"], "mlx5_0");
        }
        assert_eq!(reported.as_array().unwrap().len(), 2);
    }

    #[test]
    fn unreadable_findings_are_reported() {
        let machine = of_machine(vec![3], &[None, None]);
        let machine = serde_json::to_value(&machine).unwrap();
        assert_eq!(
            seen(&machine),
            ["cannot read the findings of rank 3: use one version of this program everywhere"]
        );
        assert_eq!(machine["findings"][0]["verdict"], "not seen");
    }
}
