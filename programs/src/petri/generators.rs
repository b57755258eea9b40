//! The built-in models: four families of nets that are standard benchmarks of state-space tools.
//!
//! Their structure, and therefore their numbers of states and arcs, equal those of the Model
//! Checking Contest's nets of the same names (<https://mcc.lip6.fr>).

use crate::Error;
use crate::petri::{Arc, Net, Place, Transition};

/// A family of nets with one parameter, N.
struct Family {
    name: &'static str,
    /// The quantity that N counts.
    parameter: &'static str,
    min: u64,
    /// The largest N. It prevents a typing error from building a net that is too large to explore.
    max: u64,
    build: fn(&mut Builder, u64),
}

const FAMILIES: [Family; 4] = [
    Family { name: "kanban", parameter: "tickets a cell", min: 1, max: 1 << 30, build: kanban },
    Family { name: "fms", parameter: "parts of each kind", min: 1, max: 1 << 30, build: fms },
    Family {
        name: "philosophers",
        parameter: "philosophers",
        min: 2,
        max: 10_000,
        build: philosophers,
    },
    Family {
        name: "peterson",
        parameter: "turns, of N + 1 processes",
        min: 1,
        max: 20,
        build: peterson,
    },
];

/// Builds the net of a name such as `kanban:5`.
pub(crate) fn build(name: &str) -> Result<Net, Error> {
    let (name, size) = name.split_once(':').unwrap_or((name, ""));
    let all = built_in_models();
    let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
        return Err(Error::Parameter(format!(
            "there is no built-in model '{name}' and no such file; the built-in models are {all}"
        )));
    };
    let &Family { min, max, .. } = family;
    let Some(number) = size.parse().ok().filter(|size| (min..=max).contains(size)) else {
        return Err(Error::Parameter(format!(
            "'{size}' is not a size of {name}: N is {min} to {max}; the built-in models are {all}"
        )));
    };
    let mut net = Builder::default();
    (family.build)(&mut net, number);
    Net::new(net.places, net.transitions).map_err(|error| Error::Wrong(error.to_string()))
}

/// Builds four cells that pass on pallets by tickets (Ciardo and Tilgner, ICASE report 96-35,
/// 1996). Cell 1 feeds cells 2 and 3 in one step, which feed cell 4 in one step. In each cell, work
/// passes or is repeated.
fn kanban(net: &mut Builder, tickets: u64) {
    let cells = [1, 2, 3, 4].map(|cell| {
        let [ticket, work, rework, done] =
            net.places(cell, [("ticket", tickets), ("work", 0), ("rework", 0), ("done", 0)]);
        net.transition(format!("fail_{cell}"), &[work], &[rework]);
        net.transition(format!("retry_{cell}"), &[rework], &[work]);
        net.transition(format!("pass_{cell}"), &[work], &[done]);
        [ticket, work, done]
    });
    let [ticket, work, done] = [0, 1, 2].map(|node| cells.map(|cell| cell[node]));
    net.transition("start_1".into(), &[ticket[0]], &[work[0]]);
    net.transition(
        "split".into(),
        &[done[0], ticket[1], ticket[2]],
        &[ticket[0], work[1], work[2]],
    );
    net.transition("join".into(), &[done[1], done[2], ticket[3]], &[ticket[1], ticket[2], work[3]]);
    net.transition("ship_4".into(), &[done[3]], &[ticket[3]]);
}

/// Builds a flexible manufacturing system: three kinds of parts on three kinds of machines.
/// Finished parts 1 and 2 ship alone or in pairs (Ciardo and Trivedi, Performance Evaluation 18,
/// 1993).
fn fms(net: &mut Builder, parts: u64) {
    let machines = [3, 1, 2];
    let machines = [0, 1, 2].map(|at| net.place(format!("machine_{}", at + 1), machines[at]));
    let [(raw_1, mate_1), (raw_2, mate_2)] =
        [1, 2].map(|kind| pairing_part(net, kind, parts, machines[kind - 1]));

    let [pair, waits, made, shipped] =
        ["pair", "pair_waits", "pair_made", "pair_shipped"].map(|id| net.place(id.into(), 0));
    net.transition("pair".into(), &[mate_1, mate_2], &[pair]);
    net.transition("queue_pair".into(), &[pair], &[waits]);
    net.transition("load_pair".into(), &[waits, machines[2]], &[made]);
    net.transition("unload_pair".into(), &[made], &[shipped, machines[2]]);
    net.transition("renew_pair".into(), &[shipped], &[raw_1, raw_2]);

    // Part 3 needs a free machine 2 in the step that finishes it.
    let [raw, made, shipped] = net.places(3, [("raw", parts), ("made", 0), ("shipped", 0)]);
    net.transition("load_3".into(), &[raw], &[made]);
    net.transition("unload_3".into(), &[made, machines[1]], &[shipped, machines[1]]);
    net.transition("renew_3".into(), &[shipped], &[raw]);
}

/// Adds a kind of part that is made on `machine`, then ships or waits for a mate. Returns its place
/// of raw parts and its place of parts that wait for a mate.
fn pairing_part(net: &mut Builder, kind: usize, parts: u64, machine: usize) -> (usize, usize) {
    let [raw, waits, on_machine, made, shipped, mate] = net.places(
        kind,
        [("raw", parts), ("waits", 0), ("on_machine", 0), ("made", 0), ("shipped", 0), ("mate", 0)],
    );
    net.transition(format!("queue_{kind}"), &[raw], &[waits]);
    net.transition(format!("load_{kind}"), &[waits, machine], &[on_machine]);
    net.transition(format!("unload_{kind}"), &[on_machine], &[made, machine]);
    net.transition(format!("ship_{kind}"), &[made], &[shipped]);
    net.transition(format!("renew_{kind}"), &[shipped], &[raw]);
    net.transition(format!("keep_{kind}"), &[made], &[mate]);
    (raw, mate)
}

/// Builds the dining philosophers (Dijkstra, EWD310, 1971): each philosopher takes her two forks
/// one at a time, in either order, and puts both back in one step.
fn philosophers(net: &mut Builder, count: u64) {
    let forks: Vec<usize> = (1..=count).map(|n| net.place(format!("fork_{n}"), 1)).collect();
    let left_of = forks.iter().cycle().skip(forks.len() - 1);
    for ((n, &right), &left) in (1..).zip(&forks).zip(left_of) {
        let [think, has_left, has_right, eat] =
            net.places(n, [("think", 1), ("has_left", 0), ("has_right", 0), ("eat", 0)]);
        net.transition(format!("take_left_{n}"), &[think, left], &[has_left]);
        net.transition(format!("take_right_{n}"), &[think, right], &[has_right]);
        net.transition(format!("then_right_{n}"), &[has_left, right], &[eat]);
        net.transition(format!("then_left_{n}"), &[has_right, left], &[eat]);
        net.transition(format!("put_back_{n}"), &[eat], &[think, left, right]);
    }
}

/// Builds Peterson's mutual exclusion of `turns` + 1 processes (Peterson, "Myths about the mutual
/// exclusion problem", 1981): a process that wants the critical section passes `turns` turns. In
/// each it writes itself as the last one to arrive, then waits until another one arrives or until it
/// sees, one process after the other, that no other one wants the section.
fn peterson(net: &mut Builder, turns: u64) {
    let (turns, processes) = (0..turns, 0..=turns);
    let wants: Vec<[usize; 2]> = processes
        .clone()
        .map(|of| [net.place(format!("wants_not_{of}"), 1), net.place(format!("wants_{of}"), 0)])
        .collect();
    let last: Vec<Vec<usize>> = turns
        .clone()
        .map(|turn| {
            let mut place = |of| net.place(format!("last_{turn}_{of}"), u64::from(of == 0));
            processes.clone().map(&mut place).collect()
        })
        .collect();
    for (me, &[no, yes]) in (0..).zip(&wants) {
        let [idle, section] = net.places(me, [("idle", 1), ("section", 0)]);
        let mut asks = net.place(format!("asks_{me}_0"), 0);
        net.transition(format!("ask_{me}"), &[idle, no], &[asks, yes]);
        for (turn, this) in (0..).zip(&last) {
            let passed = Process { me, turn, last: this, wants: &wants }.take_turn(net, asks);
            if turn + 1 == last.len() {
                net.transition(format!("enter_{me}"), &[passed], &[section]);
            } else {
                asks = net.place(format!("asks_{me}_{}", turn + 1), 0);
                net.transition(format!("go_on_{me}_{turn}"), &[passed], &[asks]);
            }
        }
        net.transition(format!("leave_{me}"), &[section, yes], &[idle, no]);
    }
}

/// A process in one of its turns.
struct Process<'a> {
    me: usize,
    turn: usize,
    /// The places of the last process that arrived.
    last: &'a [usize],
    /// For each process, the places of not wanting and of wanting the section.
    wants: &'a [[usize; 2]],
}

impl Process<'_> {
    /// Adds the turn of a process that is at `asks`. Returns its place after the turn.
    fn take_turn(&self, net: &mut Builder, asks: usize) -> usize {
        let &Self { me, turn, last, wants } = self;
        let name = |what: &str| format!("{what}_{me}_{turn}");
        let (waits, passed) = (net.place(name("waits"), 0), net.place(name("passed"), 0));
        for (other, &before) in last.iter().enumerate() {
            let id = format!("{}_after_{other}", name("arrive"));
            net.transition(id, &[asks, before], &[waits, last[me]]);
            if other != me {
                let id = format!("{}_for_{other}", name("pass"));
                net.transition(id, &[waits, before], &[passed, before]);
            }
        }
        // The loop over all processes, from `look` at the first to `looked` at the last.
        let mut look = net.place(format!("{}_0", name("looks")), 0);
        net.transition(name("look"), &[waits, last[me]], &[look, last[me]]);
        for (other, &[no, yes]) in wants.iter().enumerate() {
            let [compares, looked] =
                ["compares", "looked"].map(|at| net.place(format!("{}_{other}", name(at)), 0));
            net.transition(format!("{}_{other}", name("compare")), &[look], &[compares]);
            if other == me {
                net.transition(name("skip_itself"), &[compares], &[looked]);
            } else {
                let tests = net.place(format!("{}_{other}", name("tests")), 0);
                net.transition(format!("{}_{other}", name("test")), &[compares], &[tests]);
                net.transition(format!("{}_{other}", name("alone")), &[tests, no], &[looked, no]);
                net.transition(format!("{}_{other}", name("wait")), &[tests, yes], &[waits, yes]);
            }
            if other + 1 == wants.len() {
                net.transition(name("pass"), &[looked], &[passed]);
            } else {
                look = net.place(format!("{}_{}", name("looks"), other + 1), 0);
                net.transition(format!("{}_{other}", name("next")), &[looked], &[look]);
            }
        }
        passed
    }
}

/// A builder of nets whose arcs all have weight 1.
#[derive(Default)]
struct Builder {
    places: Vec<Place>,
    transitions: Vec<Transition>,
}

impl Builder {
    /// Adds a place and returns its index.
    fn place(&mut self, id: String, initial: u64) -> usize {
        self.places.push(Place { name: id.clone(), id, initial });
        self.places.len() - 1
    }

    /// Adds several places whose identifiers end with `number`, and returns their indices.
    fn places<const N: usize>(&mut self, number: usize, places: [(&str, u64); N]) -> [usize; N] {
        places.map(|(id, initial)| self.place(format!("{id}_{number}"), initial))
    }

    fn transition(&mut self, id: String, inputs: &[usize], outputs: &[usize]) {
        let [inputs, outputs] = [inputs, outputs]
            .map(|places| places.iter().map(|&place| Arc { place, weight: 1 }).collect());
        self.transitions.push(Transition { id, inputs, outputs });
    }
}

/// Returns the list of the built-in models.
pub(crate) fn built_in_models() -> String {
    let families = FAMILIES.iter().map(|of| format!("{}:N (N {})", of.name, of.parameter));
    families.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_smallest_and_largest_size() {
        let net = build("peterson:2").unwrap();
        assert_eq!((net.places().len(), net.transitions().len()), (102, 126));
        for family in FAMILIES {
            for size in [family.min, family.max] {
                assert!(build(&format!("{}:{size}", family.name)).is_ok());
            }
        }
    }

    #[test]
    fn rejects_other_sizes_and_names() {
        for model in ["kanban:", "kanban:x", "kanban:0", "kanban:-1", "kanban:5 ", "absent:3"] {
            let Err(Error::Parameter(problem)) = Net::load(model) else { panic!("{model}") };
            assert!(problem.contains("'absent'") || problem.contains("is not a size of kanban"));
        }
        assert!(build("kanban:1073741825").is_err() && build("philosophers:1").is_err());
    }

    #[test]
    fn errors_list_built_in_models() {
        for model in ["absent", "absent:3", "kanban", "kanban:x", "no/such:1"] {
            let message = Net::load(model).unwrap_err().to_string();
            for name in ["kanban:N", "fms:N", "philosophers:N", "peterson:N"] {
                assert!(message.contains(name), "{message}");
            }
        }
        assert!(matches!(Net::load("no/such:1"), Err(Error::Format { .. })));
        let directory = std::env::temp_dir().display().to_string();
        assert!(matches!(Net::load(&directory), Err(Error::Read { .. })));
    }
}
