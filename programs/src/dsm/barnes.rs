//! Barnes-Hut: bodies that attract each other, of which a body sees distant groups as one. The octree is built between
//! two barriers: each rank builds the parts of its octants of space, so it takes no lock.
//!
//! As in SPLASH-2, ranks take octants by the work of their bodies in the last step, and bodies stay where they are in
//! memory: a page has bodies of many ranks.

use core::f64::consts::PI;
use core::ops::Range;

use super::{Kernel, Shared, equal, part};
use crate::Error;

/// Steps of time, of this length.
const STEPS: usize = 4;
const STEP: f64 = 0.025;
/// The square of the length that keeps close bodies from infinite forces.
const SOFTENING: f64 = 0.05 * 0.05;
/// The square of a cell's side, relative to that of its distance, below which it is seen as one body.
const TOLERANCE: f64 = 1.0;

/// Numbers of a body: its mass, place, velocity, acceleration and work, and two lines in all as in SPLASH-2.
const BODY: usize = 16;
const PLACE: usize = 1;
const VELOCITY: usize = 4;
const ACCELERATION: usize = 7;
const WORK: usize = 10;
/// Numbers of a node of the tree: its mass, centre and side, which is 0 for a body, and the number of nodes of the
/// tree below and with it. Nodes are in order of depth, so that many nodes behind it comes the next one beside it.
const NODE: usize = 8;
const SIDE: usize = 4;
const NODES: usize = 5;
/// Levels of the octree above the octants that ranks build.
const LEVELS: usize = 3;
const OCTANTS: usize = 1 << (3 * LEVELS);
/// Levels of a key: bits of each coordinate.
const KEY_LEVELS: usize = 21;
/// Floating-point operations of an interaction, with a root and a division as 20 together; and of a body that is
/// sorted into its octant.
const INTERACTION_FLOPS: u64 = 38;
const KEY_FLOPS: u64 = 40;
const NODE_FLOPS: u64 = 20;

type Node = [f64; NODE];

pub(super) struct Barnes {
    bodies: usize,
}

/// A body: its key in the order of the octree, and its number.
type Keyed = (u64, usize);

/// All bodies in the order of octants, and the cube around them.
struct Sorted {
    octants: Vec<Vec<Keyed>>,
    /// The bodies of all octants before each one.
    before: Vec<usize>,
    side: f64,
}

impl Barnes {
    pub(super) fn new(bodies: usize) -> Self {
        Self { bodies }
    }

    /// Returns the summaries of octants: nodes, of which [`NODES`] counts those of the octant.
    fn summaries(&self, octants: Range<usize>) -> Range<usize> {
        let first = self.bodies * BODY;
        first + octants.start * NODE..first + octants.end * NODE
    }

    /// Returns the elements of the nodes of an octant: at most two for each body.
    fn nodes(&self, before: usize, count: usize) -> Range<usize> {
        let first = self.summaries(OCTANTS..OCTANTS).start + before * 2 * NODE;
        first..first + count * NODE
    }

    fn sort(&self, memory: &mut impl Shared<f64>) -> Result<Sorted, Error> {
        let bodies = memory.view(0..self.bodies * BODY)?.as_chunks::<BODY>().0;
        let places = || bodies.iter().flat_map(|body| &body[PLACE..VELOCITY]);
        let reach = places().fold(0_f64, |reach, at| reach.max(at.abs()));
        if !reach.is_finite() {
            return Err(Error::Wrong("a body is at no finite place".to_owned()));
        }
        let side = 2.0 * reach.next_up();
        let mut octants = vec![Vec::new(); OCTANTS];
        for (nth, body) in bodies.iter().enumerate() {
            let key = key(&body[PLACE..VELOCITY], side);
            octants[digits(key, 0..LEVELS)].push((key, nth));
        }
        let counts = octants.iter().scan(0, |sum, octant| {
            let before = *sum;
            *sum += octant.len();
            Some(before)
        });
        let before = counts.collect();
        memory.work(self.bodies as u64 * KEY_FLOPS);
        Ok(Sorted { octants, before, side })
    }

    /// Returns the octants of this rank: each rank has about the same work.
    fn mine(&self, memory: &mut impl Shared<f64>, sorted: &Sorted) -> Result<Range<usize>, Error> {
        let (rank, ranks) = (memory.rank(), memory.ranks());
        let bodies = memory.view(0..self.bodies * BODY)?.as_chunks::<BODY>().0;
        let work = sorted
            .octants
            .iter()
            .map(|octant| octant.iter().map(|(_, nth)| bodies[*nth][WORK]).sum::<f64>());
        let work: Vec<f64> = work.collect();
        let total: f64 = work.iter().sum();
        let mut sum = 0.0;
        // Sums of integers, which are exact.
        let ends: Vec<f64> = work
            .iter()
            .map(|work| {
                sum += work;
                sum
            })
            .collect();
        let first = |of: usize| match of {
            0 => 0,
            _ if of == ranks => OCTANTS,
            _ => ends.partition_point(|end| end * (ranks as f64) <= total * (of as f64)),
        };
        Ok(first(rank)..first(rank + 1))
    }

    /// Builds the parts of the tree in octants.
    fn build(
        &self,
        memory: &mut impl Shared<f64>,
        sorted: &mut Sorted,
        mine: Range<usize>,
    ) -> Result<(), Error> {
        let mut summaries = Vec::new();
        for nth in mine.clone() {
            let octant = &mut sorted.octants[nth];
            octant.sort_unstable();
            let bodies = memory.view(0..self.bodies * BODY)?.as_chunks::<BODY>().0;
            let mut nodes = Vec::new();
            grow(&mut nodes, octant, LEVELS, sorted.side, bodies);
            let mut summary = sum(siblings(&nodes));
            summary[NODES] = nodes.len() as f64;
            summaries.push(summary);
            if nodes.is_empty() {
                continue;
            }
            memory.work(nodes.len() as u64 * NODE_FLOPS);
            let range = self.nodes(sorted.before[nth], nodes.len());
            memory.edit(range)?.copy_from_slice(nodes.as_flattened());
        }
        if !mine.is_empty() {
            memory.edit(self.summaries(mine))?.copy_from_slice(summaries.as_flattened());
        }
        Ok(())
    }

    /// Reads the summaries of all octants, and returns the cells above them, level by level from the whole space on.
    fn top(&self, memory: &mut impl Shared<f64>, side: f64) -> Result<Vec<Vec<Node>>, Error> {
        let octants = memory.view(self.summaries(0..OCTANTS))?.as_chunks::<NODE>().0;
        let mut levels = vec![octants.to_vec()];
        for level in (0..LEVELS).rev() {
            let cells = levels[0].as_chunks::<8>().0.iter().map(|children| sum(children.iter()));
            let cells = cells.collect();
            levels.insert(0, cells);
            levels[0].iter_mut().for_each(|cell| cell[SIDE] = side / f64::from(1 << level));
        }
        levels[LEVELS].iter_mut().for_each(|octant| octant[SIDE] = side / f64::from(1 << LEVELS));
        Ok(levels)
    }

    /// Adds the pull of a cell of the top to that on a body, and counts its interactions.
    fn pull_of_cell(
        &self,
        memory: &mut impl Shared<f64>,
        (top, before): (&[Vec<Node>], &[usize]),
        (level, nth): (usize, usize),
        pull: &mut Pull,
    ) -> Result<(), Error> {
        let cell = &top[level][nth];
        if cell[0] == 0.0 || pull.add_if_far(cell) {
            return Ok(());
        }
        if level < LEVELS {
            let mut children = nth * 8..nth * 8 + 8;
            return children.try_for_each(|child| {
                self.pull_of_cell(memory, (top, before), (level + 1, child), pull)
            });
        }
        let nodes = memory.view(self.nodes(before[nth], count(cell)))?.as_chunks::<NODE>().0;
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            at += if pull.add_if_far(node) { count(node) } else { 1 };
        }
        Ok(())
    }

    fn step(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        let mut sorted = self.sort(memory)?;
        let mine = self.mine(memory, &sorted)?;
        self.build(memory, &mut sorted, mine.clone())?;
        memory.barrier()?;
        let top = self.top(memory, sorted.side)?;
        for octant in &sorted.octants[mine.clone()] {
            for (_, nth) in octant {
                let range = nth * BODY..(nth + 1) * BODY;
                let mut pull = Pull::on(memory.view(range.clone())?);
                self.pull_of_cell(memory, (&top, &sorted.before), (0, 0), &mut pull)?;
                memory.work(pull.count * INTERACTION_FLOPS);
                // Only what changes: other ranks have other bodies of the page.
                let body = memory.edit(range.start + ACCELERATION..range.start + WORK + 1)?;
                body[..3].copy_from_slice(&pull.acceleration);
                body[3] = pull.count as f64;
            }
        }
        memory.barrier()?;
        for (_, nth) in sorted.octants[mine].iter().flatten() {
            let first = nth * BODY;
            let (acceleration, body) = (ACCELERATION..WORK, PLACE..ACCELERATION);
            let [acceleration, body] =
                [acceleration, body].map(|Range { start, end }| first + start..first + end);
            let ([acceleration], body) = memory.change([acceleration], body)?;
            advance(body, acceleration);
        }
        memory.barrier()
    }
}

impl Kernel<f64> for Barnes {
    fn elements(&self) -> usize {
        self.bodies * BODY + OCTANTS * NODE + self.bodies * 2 * NODE
    }

    /// Plummer's model of a cluster of stars.
    fn fill(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        for nth in part(self.bodies, memory.rank(), memory.ranks()) {
            let body = plummer(nth as u64, self.bodies);
            memory.edit(nth * BODY..(nth + 1) * BODY)?.copy_from_slice(&body);
        }
        Ok(())
    }

    fn run(&self, memory: &mut impl Shared<f64>) -> Result<(), Error> {
        (0..STEPS).try_for_each(|_| self.step(memory))
    }

    fn verify(&self, memory: &mut impl Shared<f64>, sequential: &[f64]) -> Result<(), Error> {
        equal(memory, sequential, (0..self.bodies).map(|nth| nth * BODY..(nth + 1) * BODY))
    }
}

/// The pull on a body.
pub(super) struct Pull {
    place: [f64; 3],
    pub(super) acceleration: [f64; 3],
    count: u64,
}

impl Pull {
    pub(super) fn on(body: &[f64]) -> Self {
        Self {
            place: core::array::from_fn(|axis| body[PLACE + axis]),
            acceleration: [0.0; 3],
            count: 0,
        }
    }

    /// Adds the pull of a node, or returns false if it is a cell too near to be seen as one body.
    pub(super) fn add_if_far(&mut self, node: &[f64]) -> bool {
        let apart: [f64; 3] = core::array::from_fn(|axis| node[PLACE + axis] - self.place[axis]);
        let square: f64 = apart.iter().map(|apart| apart * apart).sum();
        if node[SIDE] * node[SIDE] >= TOLERANCE * square && node[SIDE] > 0.0 {
            return false;
        }
        let softened = square + SOFTENING;
        let factor = node[0] / (softened * softened.sqrt());
        self.acceleration.iter_mut().zip(apart).for_each(|(sum, apart)| *sum += factor * apart);
        self.count += 1;
        true
    }
}

/// Moves a body, given its place and velocity.
fn advance(body: &mut [f64], acceleration: &[f64]) {
    for axis in 0..3 {
        body[3 + axis] += acceleration[axis] * STEP;
        body[axis] += body[3 + axis] * STEP;
    }
}

/// Returns the number of nodes in a subtree.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most twice the bodies"
)]
fn count(node: &Node) -> usize {
    node[NODES] as usize
}

/// Returns the place of a body on the curve through the octree, three bits a level.
fn key(place: &[f64], side: f64) -> u64 {
    let scale = f64::from(1 << KEY_LEVELS) / side;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^21")]
    let axes = place.iter().map(|at| ((at + side / 2.0) * scale) as u64);
    let spread =
        |axis: u64| (0..KEY_LEVELS).fold(0, |key, bit| key | (axis >> bit & 1) << (3 * bit));
    axes.enumerate()
        .fold(0, |key, (nth, axis)| key | spread(axis.min((1 << KEY_LEVELS) - 1)) << nth)
}

/// Returns the digits of a key in these levels.
fn digits(key: u64, levels: Range<usize>) -> usize {
    let digits = key >> (3 * (KEY_LEVELS - levels.end)) & ((1 << (3 * levels.len())) - 1);
    usize::try_from(digits).unwrap_or_default()
}

/// Returns those of nodes in order of depth that are beside each other.
fn siblings(mut nodes: &[Node]) -> impl Iterator<Item = &Node> {
    core::iter::from_fn(move || {
        let first = nodes.first()?;
        nodes = nodes.get(count(first)..).unwrap_or_default();
        Some(first)
    })
}

/// Returns the mass and the centre of nodes.
fn sum<'n>(nodes: impl Iterator<Item = &'n Node>) -> Node {
    let mut sum = [0.0; NODE];
    for node in nodes {
        sum[0] += node[0];
        (PLACE..VELOCITY).for_each(|axis| sum[axis] += node[0] * node[axis]);
    }
    if sum[0] > 0.0 {
        let mass = sum[0];
        sum[PLACE..VELOCITY].iter_mut().for_each(|axis| *axis /= mass);
    }
    sum
}

/// Appends the subtree of bodies, in the order of their keys, that agree in the levels before `level`. A cell whose
/// bodies are all in one of its octants is left out.
fn grow(nodes: &mut Vec<Node>, bodies: &[Keyed], level: usize, side: f64, all: &[[f64; BODY]]) {
    if bodies.len() <= 1 || level == KEY_LEVELS {
        for (_, nth) in bodies {
            let mut node = [0.0; NODE];
            node[..VELOCITY].copy_from_slice(&all[*nth][..VELOCITY]);
            node[NODES] = 1.0;
            nodes.push(node);
        }
        return;
    }
    let digit = |body: &Keyed| digits(body.0, level..level + 1);
    if digit(&bodies[0]) == digit(&bodies[bodies.len() - 1]) {
        return grow(nodes, bodies, level + 1, side, all);
    }
    let first = nodes.len();
    nodes.push([0.0; NODE]);
    for octant in bodies.chunk_by(|one, next| digit(one) == digit(next)) {
        grow(nodes, octant, level + 1, side, all);
    }
    let mut cell = sum(siblings(&nodes[first + 1..]));
    cell[SIDE] = side / f64::from(1 << level);
    cell[NODES] = (nodes.len() - first) as f64;
    nodes[first] = cell;
}

/// Returns a body of Plummer's model, in units in which the mass of all is 1 (Aarseth, Henon and Wielen 1974).
fn plummer(nth: u64, bodies: usize) -> [f64; BODY] {
    let mut random = fastrand::Rng::with_seed(nth);
    let scale = 3.0 * PI / 16.0;
    // All but a thousandth of the mass, as SPLASH-2 does.
    let radius = 1.0 / ((0.999 * random.f64()).max(1e-10).powf(-2.0 / 3.0) - 1.0).sqrt();
    let speed = loop {
        let (speed, bound) = (random.f64(), 0.1 * random.f64());
        if bound < speed * speed * (1.0 - speed * speed).powf(3.5) {
            break speed * core::f64::consts::SQRT_2 / (1.0 + radius * radius).powf(0.25);
        }
    };
    let mut sphere = |length: f64| {
        let (height, angle) = (2.0 * random.f64() - 1.0, 2.0 * PI * random.f64());
        let flat = (1.0 - height * height).sqrt();
        [length * flat * angle.cos(), length * flat * angle.sin(), length * height]
    };
    let mut body = [0.0; BODY];
    body[0] = 1.0 / bodies as f64;
    body[PLACE..VELOCITY].copy_from_slice(&sphere(radius * scale));
    body[VELOCITY..ACCELERATION].copy_from_slice(&sphere(speed / scale.sqrt()));
    body[WORK] = 1.0;
    body
}

#[cfg(test)]
mod tests {
    use super::super::Alone;
    use super::*;

    /// The forces through the tree are near those of all pairs.
    #[test]
    fn forces_approximate_all_pairs() {
        const BODIES: usize = 600;
        let barnes = Barnes::new(BODIES);
        let mut memory = Alone::new(vec![0.0; barnes.elements()]);
        barnes.fill(&mut memory).unwrap();
        let mut sorted = barnes.sort(&mut memory).unwrap();
        barnes.build(&mut memory, &mut sorted, 0..OCTANTS).unwrap();
        let top = barnes.top(&mut memory, sorted.side).unwrap();
        assert!((top[0][0][0] - 1.0).abs() < 1e-12, "the mass of all: {}", top[0][0][0]);
        let bodies: Vec<f64> = memory.view(0..BODIES * BODY).unwrap().to_vec();
        let bodies = bodies.as_chunks::<BODY>().0;
        let (mut wrong, mut all, mut count) = (0.0, 0.0, 0);
        for body in bodies {
            let (mut near, mut exact) = (Pull::on(body), Pull::on(body));
            barnes.pull_of_cell(&mut memory, (&top, &sorted.before), (0, 0), &mut near).unwrap();
            for other in bodies {
                let node: Node =
                    core::array::from_fn(|nth| if nth < VELOCITY { other[nth] } else { 0.0 });
                assert!(exact.add_if_far(&node));
            }
            let square = |pull: [f64; 3]| pull.iter().map(|axis| axis * axis).sum::<f64>();
            let apart =
                core::array::from_fn(|axis| near.acceleration[axis] - exact.acceleration[axis]);
            (wrong, all) = (wrong + square(apart), all + square(exact.acceleration));
            count += near.count;
        }
        assert!((wrong / all).sqrt() < 0.05, "{}", (wrong / all).sqrt());
        assert!(count < BODIES as u64 * 300, "{count} interactions");
    }
}
