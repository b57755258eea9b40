//! What is measured when: each probe order and each load factor in rounds in which everything
//! takes turns, so that what else runs on the machine is in all of it alike.

use core::time::Duration;
use std::time::Instant;

use probeline_pin::{Affinity, Placement, Topology};
use serde::Serialize;

use super::Result;
use super::args::{Args, Order};
use super::crew::Crew;
use super::job::{Job, Rank, Shape};
use super::keys::Keys;
use super::peers::{Dashmap, Hashbrown, Papaya, Peer, Scc, SccIndex};
use super::process::{available_bytes, private_bytes};
use super::samples::{Doing, Form, Samples, What};
use super::timed::{Measurement, fill, measure, random};

/// Load factors that are measured.
pub(crate) const LOADS: [f64; 2] = [0.5, 0.9];

/// The share of the buckets that the inserts of some rounds fill together, centred on the load
/// factor; their keys are then taken out again. A linear probe for an insert, (1 + 1/(1 - load)^2)
/// / 2 buckets, is at 0.885 a quarter shorter than at 0.9 and at 0.915 two fifths longer; the
/// median of the rounds is from the middle.
const WINDOW: f64 = 0.03;

/// Keys by buckets of the other sets at most: those of hashbrown and dashmap double at 7/8.
pub(crate) const PEER_LOAD: f64 = 0.85;

/// The share that the inserts of another set fill. Its keys stay: taking them out leaves marks.
const PEER_WINDOW: f64 = 0.04;

/// What the other sets leave of the machine's memory.
const SPARE_BYTES: u64 = 1 << 30;

/// All that a run gave.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) buckets: u64,
    /// The pages of the windows, and where ranks ran.
    pub(crate) windows: Vec<String>,
    pub(crate) peers: Vec<PeerSize>,
    pub(crate) samples: Samples,
    /// The time of all threads in measurements, and how much of it others had their CPUs.
    pub(crate) spent_s: f64,
    pub(crate) waited_s: f64,
    pub(crate) seconds: f64,
}

/// How large another set was.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PeerSize {
    pub(crate) system: &'static str,
    pub(crate) load: f64,
    pub(crate) keys: u64,
    /// The buckets that this is for; as many as the table's, or fewer.
    pub(crate) buckets: u64,
    /// Private memory of this process while the set was full, and how much of it was in huge
    /// pages; the table's windows are shared memory.
    pub(crate) private_bytes: Option<u64>,
    pub(crate) huge_bytes: Option<u64>,
}

impl PeerSize {
    /// Whether less than a quarter of the memory is in huge pages: of papaya, whose keys have
    /// memory of their own all over, about a third is, of the others most.
    pub(crate) fn lacks_huge_pages(&self) -> bool {
        let both = self.huge_bytes.zip(self.private_bytes);
        both.is_none_or(|(huge, private)| huge < private / 4)
    }
}

struct Plan<'a> {
    args: &'a Args,
    affinity: Affinity,
    places: Vec<Placement>,
    shape: Shape,
    start: Instant,
    seed: u64,
    measured: Measured,
}

/// Two jobs with tables alike, of one rank and of two.
struct Jobs {
    order: Order,
    jobs: [Job; 2],
    /// Keys that stay in each.
    count: u64,
    /// The number of the next key to put; those before it may be there.
    next: u64,
}

/// Measures everything that `args` ask for.
pub(crate) fn run(args: &Args) -> Result<Measured> {
    let affinity = Affinity::take()?;
    let topology = Topology::from_sysfs("/sys".as_ref())?;
    let places = probeline_pin::place(&topology, affinity.allowed(), 2, None)?;
    // Whole lines for two ranks.
    let buckets = args.table_size / 8 / 16 * 16;
    let shape = Shape { buckets };
    let measured = Measured { buckets, ..Measured::default() };
    let start = Instant::now();
    let mut plan = Plan { args, affinity, places, shape, start, seed: 0, measured };
    plan.check_memory()?;
    for (at, &order) in args.probing.iter().enumerate() {
        plan.order(order, at == 0 && !args.without_peers)?;
    }
    plan.measured.seconds = start.elapsed().as_secs_f64();
    Ok(plan.measured)
}

impl Plan<'_> {
    fn check_memory(&self) -> Result<()> {
        let needed = 2 * self.args.table_size;
        match available_bytes() {
            Some(available) if needed > available => Err(format!(
                "two tables take {} MiB, and this machine has {} MiB available: take a smaller \
                 --table-size",
                needed >> 20,
                available >> 20
            )
            .into()),
            _ => Ok(()),
        }
    }

    fn say(&self, what: &str) {
        eprintln!("{:5.0} s  {what}", self.start.elapsed().as_secs_f64());
    }

    fn seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    fn order(&mut self, order: Order, with_peers: bool) -> Result<()> {
        self.say(&format!("{}: opening", order.name));
        let open = |ranks: usize| {
            Job::open(self.shape, order.probing, &self.affinity, &self.places[..ranks])
        };
        let mut jobs = Jobs { order, jobs: [open(1)?, open(2)?], count: 0, next: 0 };
        self.note_windows(&jobs);
        for load in LOADS {
            self.say(&format!("{}: filling to {load}", order.name));
            jobs.fill_to(part(self.shape.buckets, load - WINDOW / 2.0))?;
            self.say(&format!("{}: measuring at {load}", order.name));
            for round in 0..self.args.rounds {
                self.own_round(&mut jobs, load, round)?;
            }
            jobs.keep()?;
            if with_peers {
                self.beside::<Hashbrown>(&mut jobs, load)?;
                self.beside::<Dashmap>(&mut jobs, load)?;
                self.beside::<Scc>(&mut jobs, load)?;
                self.beside::<SccIndex>(&mut jobs, load)?;
                self.beside::<Papaya>(&mut jobs, load)?;
            }
        }
        Ok(())
    }

    fn note_windows(&mut self, jobs: &Jobs) {
        for job in &jobs.jobs {
            let places = self.places.iter().take(job.crew.len());
            let at: Vec<String> = places.map(|place| place.cpu.to_string()).collect();
            let pages: Vec<String> = job.pages.iter().map(ToString::to_string).collect();
            let ranks = job.crew.len();
            self.measured.windows.push(format!(
                "{}, {ranks} rank{} on {}: {}",
                jobs.order.name,
                if ranks == 1 { "" } else { "s" },
                at.join(" and "),
                pages.join("; ")
            ));
        }
    }

    /// The limits and every form of every operation, by one rank and by two.
    fn own_round(&mut self, jobs: &mut Jobs, load: f64, round: u32) -> Result<()> {
        const ALL: [(Doing, Form); 5] = [
            (Doing::Insert, Form::Blocking),
            (Doing::Find, Form::Blocking),
            (Doing::Insert, Form::Batched),
            (Doing::Hit, Form::Blocking),
            (Doing::Find, Form::Batched),
        ];
        let mut all = ALL;
        all.rotate_left(round as usize % ALL.len());
        for job in &jobs.jobs {
            let limits = job.limits(self.args.seconds)?;
            self.measured.samples.add_limits(jobs.order.name, load, &limits);
        }
        self.table(jobs, load, &all, None)
    }

    /// One round of `all` on the table, by one rank and by two.
    fn table(
        &mut self,
        jobs: &mut Jobs,
        load: f64,
        all: &[(Doing, Form)],
        beside: Option<&'static str>,
    ) -> Result<()> {
        let inserts = all.iter().filter(|(doing, _)| *doing == Doing::Insert).count();
        let measurements = inserts as u64 * u64::from(self.args.rounds);
        let quota = (part(self.shape.buckets, WINDOW) / measurements.max(1)).max(1);
        for &(doing, form) in all {
            for job in &jobs.jobs {
                let threads = job.crew.len();
                let keys = match doing {
                    Doing::Insert => Keys::Run { from: jobs.next, to: jobs.next + quota },
                    Doing::Find | Doing::Hit => random(jobs.count, self.args.seconds, self.seed()),
                };
                let rate = measure(
                    &job.crew,
                    threads,
                    keys,
                    self.args.seconds,
                    Rank::room,
                    step(doing, form),
                )?;
                let what = What { system: jobs.order.name, threads, load, doing, form };
                self.add(what, beside, rate);
            }
            jobs.next += if doing == Doing::Insert { quota } else { 0 };
        }
        Ok(())
    }

    /// Rounds in which another set and the table take turns; the set lives only here.
    fn beside<P: Peer>(&mut self, jobs: &mut Jobs, load: f64) -> Result<()> {
        let buckets = self.peer_buckets::<P>(load)?;
        let peer_load = load.min(PEER_LOAD);
        let count = part(buckets, peer_load - PEER_WINDOW / 2.0);
        let capacity = part(buckets, peer_load + PEER_WINDOW / 2.0);
        self.say(&format!("{}: filling to {peer_load}", P::NAME));
        let crew = self.peer::<P>(capacity)?;
        fill(&crew, 0, count, Seat::insert)?;
        let (private_bytes, huge_bytes) = private_bytes().unzip();
        self.measured.peers.push(PeerSize {
            system: P::NAME,
            load,
            keys: count,
            buckets,
            private_bytes,
            huge_bytes,
        });
        self.say(&format!("{}: measuring at {peer_load}", P::NAME));
        let batched = [(Doing::Find, Form::Batched), (Doing::Insert, Form::Batched)];
        let measurements = u64::from(self.args.rounds) * P::THREADS as u64;
        let quota = ((capacity - count) / measurements).max(1);
        let mut next = count;
        for _ in 0..self.args.rounds {
            self.table(jobs, load, &batched, Some(P::NAME))?;
            for threads in 1..=P::THREADS {
                let finds = random(count, self.args.seconds, self.seed());
                self.peer_rate(&crew, threads, load, Doing::Find, finds)?;
                let inserts = Keys::Run { from: next, to: next + quota };
                next += quota;
                self.peer_rate(&crew, threads, load, Doing::Insert, inserts)?;
            }
        }
        self.say(&format!("{}: dropping", P::NAME));
        jobs.keep()
    }

    /// As many buckets as were asked for, halved until the set fits in memory.
    fn peer_buckets<P: Peer>(&self, load: f64) -> Result<u64> {
        let mut buckets = self.args.peer_size().min(self.args.table_size) / 8;
        let Some(available) = available_bytes() else { return Ok(buckets) };
        let most = load.min(PEER_LOAD) + PEER_WINDOW / 2.0;
        while P::bytes(part(buckets, most)) + SPARE_BYTES > available {
            buckets /= 2;
            if buckets < 1 << 16 {
                return Err(format!("no memory for {}: add --without-peers", P::NAME).into());
            }
        }
        Ok(buckets)
    }

    fn peer<P: Peer>(&self, capacity: u64) -> Result<Crew<Seat<P>>> {
        let first = P::with_capacity(usize::try_from(capacity)?);
        let second = first.share();
        let sets = core::iter::once(first).chain(second);
        let seats = self.places.iter().zip(sets).map(|(place, set)| (place.cpu, set));
        Crew::start(&self.affinity, seats.collect(), |set| Ok(Seat { set, room: Vec::new() }))
    }

    fn peer_rate<P: Peer>(
        &mut self,
        crew: &Crew<Seat<P>>,
        threads: usize,
        load: f64,
        doing: Doing,
        keys: Keys,
    ) -> Result<()> {
        let step = if doing == Doing::Insert { Seat::insert } else { Seat::find };
        let time: Duration = self.args.seconds;
        let rate = measure(crew, threads, keys, time, |seat| &mut seat.room, step)?;
        let what = What { system: P::NAME, threads, load, doing, form: Form::Blocking };
        self.add(what, None, rate);
        Ok(())
    }

    fn add(&mut self, what: What, beside: Option<&'static str>, measured: Measurement) {
        self.measured.samples.add(what, beside, measured.ops_per_s);
        self.measured.spent_s += measured.spent.as_secs_f64();
        self.measured.waited_s += measured.waited.as_secs_f64();
    }
}

impl Jobs {
    /// Puts keys until there are `count` in each table.
    fn fill_to(&mut self, count: u64) -> Result<()> {
        for job in &self.jobs {
            fill(&job.crew, self.count, count, Rank::insert_batch)?;
        }
        (self.count, self.next) = (count, count);
        Ok(())
    }

    /// Takes out what was put since.
    fn keep(&mut self) -> Result<()> {
        self.next = self.count;
        self.jobs.iter().try_for_each(|job| job.keep(self.count))
    }
}

/// What a rank does.
fn step(doing: Doing, form: Form) -> fn(&mut Rank, &[u64]) -> usize {
    match (doing, form) {
        (Doing::Find, Form::Blocking) => Rank::find,
        (Doing::Find, Form::Batched) => Rank::find_batch,
        (Doing::Hit, _) => Rank::hit,
        (Doing::Insert, Form::Blocking) => Rank::insert,
        (Doing::Insert, Form::Batched) => Rank::insert_batch,
    }
}

/// Another set in one thread.
struct Seat<P> {
    set: P,
    room: Vec<u64>,
}

impl<P: Peer> Seat<P> {
    fn insert(&mut self, keys: &[u64]) -> usize {
        self.set.insert(keys)
    }

    fn find(&mut self, keys: &[u64]) -> usize {
        self.set.find(keys)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of at most 2^53 things"
)]
fn part(of: u64, share: f64) -> u64 {
    (of as f64 * share) as u64
}
