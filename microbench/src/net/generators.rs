//! The built-in models: nets that every state-space tool is measured with, at any size.
//!
//! Their structure, and so their counts, are those of the Model Checking Contest's nets of the
//! same names (<https://mcc.lip6.fr>).

use core::error::Error;
use core::fmt;

use super::{Arc, Net, NetError, Place, Transition};

/// A family of nets with one parameter.
struct Family {
    name: &'static str,
    parameter: &'static str,
    least: u64,
    most: u64,
    build: fn(u64) -> Result<Net, NetError>,
}

/// The bounds on N keep a typing error from building a net that no machine explores.
const FAMILIES: [Family; 3] = [
    Family { name: "kanban", parameter: "tickets a cell", least: 1, most: 1 << 30, build: kanban },
    Family { name: "fms", parameter: "parts of each kind", least: 1, most: 1 << 30, build: fms },
    Family {
        name: "philosophers",
        parameter: "philosophers",
        least: 2,
        most: 10_000,
        build: philosophers,
    },
];

/// Builds the net that a specification such as `kanban:5` names.
///
/// # Errors
/// [`SpecError`] where there is no such family or N is outside its bounds.
pub(super) fn build(spec: &str) -> Result<Net, SpecError> {
    let (name, size) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
        return Err(SpecError::UnknownFamily { name: name.to_owned() });
    };
    let bounds = family.least..=family.most;
    let Some(size) = size.parse().ok().filter(|size| bounds.contains(size)) else {
        let (name, least, most) = (family.name, family.least, family.most);
        return Err(SpecError::Size { name, size: size.to_owned(), least, most });
    };
    (family.build)(size).map_err(SpecError::Net)
}

/// Four cells passing pallets on by tickets: cell 1 feeds 2 and 3 at once, which feed 4 at once
/// (Ciardo and Tilgner, ICASE report 96-35, 1996).
fn kanban(tickets: u64) -> Result<Net, NetError> {
    let mut net = Builder::default();
    let cells: Vec<Cell> = (1..=4).map(|number| net.cell(number, tickets)).collect();
    let [one, two, three, four] = cells.as_slice() else { return Err(NetError::NoPlace) };

    net.transition("start_1", &[one.ticket], &[one.work]);
    net.transition(
        "split",
        &[one.done, two.ticket, three.ticket],
        &[one.ticket, two.work, three.work],
    );
    net.transition(
        "join",
        &[two.done, three.done, four.ticket],
        &[two.ticket, three.ticket, four.work],
    );
    net.transition("ship_4", &[four.done], &[four.ticket]);
    net.finish()
}

/// One cell of the kanban line.
struct Cell {
    ticket: usize,
    work: usize,
    done: usize,
}

/// Three kinds of parts on three kinds of machines; finished parts 1 and 2 ship alone or pair up
/// (Ciardo and Trivedi, Performance Evaluation 18, 1993).
fn fms(parts: u64) -> Result<Net, NetError> {
    let mut net = Builder::default();
    let machine_1 = net.place("machine_1".into(), 3);
    let machine_2 = net.place("machine_2".into(), 1);
    let machine_3 = net.place("machine_3".into(), 2);

    let (raw_1, mate_1) = net.part(1, parts, machine_1);
    let (raw_2, mate_2) = net.part(2, parts, machine_2);

    let pair = net.place("pair".into(), 0);
    let pair_waits = net.place("pair_waits".into(), 0);
    let pair_made = net.place("pair_made".into(), 0);
    let pair_shipped = net.place("pair_shipped".into(), 0);
    net.transition("pair", &[mate_1, mate_2], &[pair]);
    net.transition("queue_pair", &[pair], &[pair_waits]);
    net.transition("load_pair", &[pair_waits, machine_3], &[pair_made]);
    net.transition("unload_pair", &[pair_made], &[pair_shipped, machine_3]);
    net.transition("renew_pair", &[pair_shipped], &[raw_1, raw_2]);

    // Part 3 needs machine 2 free for the instant in which it is finished.
    let raw_3 = net.place("raw_3".into(), parts);
    let made_3 = net.place("made_3".into(), 0);
    let shipped_3 = net.place("shipped_3".into(), 0);
    net.transition("load_3", &[raw_3], &[made_3]);
    net.transition("unload_3", &[made_3, machine_2], &[shipped_3, machine_2]);
    net.transition("renew_3", &[shipped_3], &[raw_3]);
    net.finish()
}

/// A round table: each philosopher takes the two forks beside her one at a time, either first,
/// and puts both back at once (Dijkstra, EWD310, 1971).
fn philosophers(count: u64) -> Result<Net, NetError> {
    let mut net = Builder::default();
    let forks: Vec<usize> = (1..=count).map(|n| net.place(format!("fork_{n}"), 1)).collect();
    let left_of = forks.iter().cycle().skip(forks.len() - 1);
    for ((n, &right), &left) in (1..=count).zip(&forks).zip(left_of) {
        let think = net.place(format!("think_{n}"), 1);
        let has_left = net.place(format!("has_left_{n}"), 0);
        let has_right = net.place(format!("has_right_{n}"), 0);
        let eat = net.place(format!("eat_{n}"), 0);
        net.transition(&format!("take_left_{n}"), &[think, left], &[has_left]);
        net.transition(&format!("take_right_{n}"), &[think, right], &[has_right]);
        net.transition(&format!("then_right_{n}"), &[has_left, right], &[eat]);
        net.transition(&format!("then_left_{n}"), &[has_right, left], &[eat]);
        net.transition(&format!("put_back_{n}"), &[eat], &[think, left, right]);
    }
    net.finish()
}

/// Collects the parts of a net whose arcs all have weight 1.
#[derive(Default)]
struct Builder {
    places: Vec<Place>,
    transitions: Vec<Transition>,
}

impl Builder {
    fn place(&mut self, id: String, initial: u64) -> usize {
        self.places.push(Place { name: id.clone(), id, initial });
        self.places.len() - 1
    }

    fn transition(&mut self, id: &str, inputs: &[usize], outputs: &[usize]) {
        let arcs =
            |places: &[usize]| places.iter().map(|&place| Arc { place, weight: 1 }).collect();
        self.transitions.push(Transition {
            id: id.to_owned(),
            inputs: arcs(inputs),
            outputs: arcs(outputs),
        });
    }

    /// A cell where work passes or goes back to be done again.
    fn cell(&mut self, number: u32, tickets: u64) -> Cell {
        let ticket = self.place(format!("ticket_{number}"), tickets);
        let work = self.place(format!("work_{number}"), 0);
        let rework = self.place(format!("rework_{number}"), 0);
        let done = self.place(format!("done_{number}"), 0);
        self.transition(&format!("fail_{number}"), &[work], &[rework]);
        self.transition(&format!("retry_{number}"), &[rework], &[work]);
        self.transition(&format!("pass_{number}"), &[work], &[done]);
        Cell { ticket, work, done }
    }

    /// A kind of part that is made on `machine`, then ships or waits for a mate. Answers its
    /// places for raw parts and for those that wait.
    fn part(&mut self, kind: u32, parts: u64, machine: usize) -> (usize, usize) {
        let raw = self.place(format!("raw_{kind}"), parts);
        let waits = self.place(format!("waits_{kind}"), 0);
        let on_machine = self.place(format!("on_machine_{kind}"), 0);
        let made = self.place(format!("made_{kind}"), 0);
        let shipped = self.place(format!("shipped_{kind}"), 0);
        let mate = self.place(format!("mate_{kind}"), 0);
        self.transition(&format!("queue_{kind}"), &[raw], &[waits]);
        self.transition(&format!("load_{kind}"), &[waits, machine], &[on_machine]);
        self.transition(&format!("unload_{kind}"), &[on_machine], &[made, machine]);
        self.transition(&format!("ship_{kind}"), &[made], &[shipped]);
        self.transition(&format!("renew_{kind}"), &[shipped], &[raw]);
        self.transition(&format!("keep_{kind}"), &[made], &[mate]);
        (raw, mate)
    }

    fn finish(self) -> Result<Net, NetError> {
        Net::new(self.places, self.transitions)
    }
}

/// Why a specification names no net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpecError {
    /// No family has this name.
    UnknownFamily {
        /// What was asked for.
        name: String,
    },
    /// N is no number, or outside the family's bounds.
    Size {
        /// The family.
        name: &'static str,
        /// What stood in N's place.
        size: String,
        /// The smallest N.
        least: u64,
        /// The largest N.
        most: u64,
    },
    /// The family built a net that is none.
    Net(NetError),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFamily { name } => {
                write!(
                    f,
                    "there is no built-in model '{name}' and no such file; there are {BuiltIn}"
                )
            }
            Self::Size { name, size, least, most } => {
                write!(
                    f,
                    "'{size}' is no size for {name}: N is {least} to {most}; there are {BuiltIn}"
                )
            }
            Self::Net(error) => error.fmt(f),
        }
    }
}

impl Error for SpecError {}

/// The list of the built-in models.
pub(super) struct BuiltIn;

impl fmt::Display for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, family) in FAMILIES.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}:N (N {})", family.name, family.parameter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::naive::explore;
    use super::super::{FiringRule, Packing};
    use super::*;

    /// States and arcs, by the naive rule on markings.
    fn naive_counts(spec: &str) -> (usize, u64) {
        let (markings, arcs) = explore(&build(spec).unwrap(), usize::MAX);
        (markings.len(), arcs)
    }

    /// States and arcs, by the compiled rule on packed states.
    fn packed_counts(spec: &str) -> (usize, u64) {
        let net = build(spec).unwrap();
        let packing = Packing::new(&net).unwrap();
        let rule = FiringRule::new(&net, &packing);
        let initial = packing.pack(&net.initial()).unwrap();
        let mut visited = HashSet::from([initial]);
        let mut queue = vec![initial];
        let mut arcs = 0;
        while let Some(state) = queue.pop() {
            let fired = rule.successors(state, |_, next| {
                if visited.insert(next) {
                    queue.push(next);
                }
            });
            arcs += u64::from(fired.unwrap());
        }
        (visited.len(), arcs)
    }

    /// The contest's published counts.
    #[test]
    fn counts_are_the_published_ones() {
        assert_eq!(packed_counts("philosophers:5"), (243, 945));
        assert_eq!(packed_counts("fms:2"), (3_444, 16_311));
    }

    /// Published: 59,049 states. The arcs are the naive rule's, counted once (too slow for here).
    #[test]
    fn ten_philosophers_reach_three_states_each() {
        assert_eq!(packed_counts("philosophers:10"), (59_049, 459_270));
    }

    /// Counted here by the naive rule; the contest publishes the larger one below.
    #[test]
    fn a_small_kanban_counts_the_same_by_both_rules() {
        assert_eq!(naive_counts("kanban:2"), (4_600, 28_120));
        assert_eq!(packed_counts("kanban:2"), (4_600, 28_120));
    }

    /// The contest's published counts: 3 s in a release build.
    #[test]
    fn kanban_counts_are_the_published_ones() {
        assert_eq!(packed_counts("kanban:5"), (2_546_432, 24_460_016));
    }

    #[test]
    fn the_smallest_and_the_largest_size_build() {
        for family in FAMILIES {
            for size in [family.least, family.most] {
                assert!(build(&format!("{}:{size}", family.name)).is_ok());
            }
        }
    }

    #[test]
    fn refuses_other_sizes_and_names() {
        for size in ["", "x", "0", "-1", "5 ", "1073741825", "99999999999999999999"] {
            let Err(SpecError::Size { name: "kanban", size: said, .. }) =
                build(&format!("kanban:{size}"))
            else {
                panic!("kanban:{size} was built");
            };
            assert_eq!(said, size);
        }
        assert!(matches!(build("philosophers:1"), Err(SpecError::Size { .. })));
        let unknown = build("unknown:3").unwrap_err();
        assert_eq!(unknown, SpecError::UnknownFamily { name: "unknown".into() });
        assert!(unknown.to_string().contains("kanban:N"));
    }
}
