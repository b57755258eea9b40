//! Counts triangles: for each edge of a graph, the vertices below both of its ends that both are connected to.

use core::fmt;
use core::str::FromStr;

use fastrand::Rng;
use probeline::transport::Transport;

use super::words::Action;
use super::{Bench, Lists, Outcome, random_below};
use crate::Error;

/// The most edges of a product of stars, in both directions, which each rank enumerates.
const MAX_EDGES: u64 = 1 << 26;
/// Edges whose neighbours a rank reads at a time.
const BATCH: usize = 1 << 12;

/// A graph. Vertices are distributed over the ranks one by one; each has its edges to vertices with lower numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Graph {
    /// Edges between random vertices.
    Random {
        /// Vertices of a rank.
        vertices: u64,
        /// Edges of a vertex to lower ones, on average.
        degree: u64,
    },
    /// The Kronecker product of stars.
    Stars(Stars),
}

/// Stars, of which each has a centre and some leaves, and the vertex of each that has an edge to itself. Their
/// Kronecker product has a known number of triangles. Parsed from `LOOPS:LEAVESxLEAVES..` as bale writes it: loops
/// are 0 for none, 1 at centres, 2 at last leaves; such as `1:3x4x5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stars {
    loops: u8,
    leaves: Vec<u64>,
}

impl fmt::Display for Stars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaves: Vec<String> = self.leaves.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}", self.loops, leaves.join("x"))
    }
}

impl FromStr for Stars {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text.split_once(':').and_then(|(loops, leaves)| {
            let loops = loops.parse().ok().filter(|loops| *loops <= 2)?;
            let leaves = leaves.split('x').map(|word| word.parse().ok().filter(|it| *it > 0));
            let stars = Self { loops, leaves: leaves.collect::<Option<Vec<u64>>>()? };
            let edges = |all: u64, leaves: &u64| all.checked_mul(leaves.checked_mul(2)? + 1);
            let edges = stars.leaves.iter().try_fold(1, edges).filter(|all| *all <= MAX_EDGES);
            edges.map(|_| stars)
        });
        parsed.ok_or_else(|| {
            Error::Parameter(format!(
                "{text:?} is not a product of stars with up to 2^26 edges: give 0, 1 or 2 for loops nowhere, \
                 at centres or at last leaves, and the leaves of each star, such as 1:3x4x5"
            ))
        })
    }
}

impl Stars {
    fn vertices(&self) -> u64 {
        self.leaves.iter().map(|leaves| leaves + 1).product()
    }

    /// Appends the neighbours of a vertex with lower numbers, in order.
    fn lower(&self, vertex: u64, to: &mut Vec<u64>) {
        let start = to.len();
        to.push(0);
        let mut rest = vertex;
        let mut unit = 1;
        // The lowest digit first: a digit of a vertex is the vertex in that star.
        for leaves in self.leaves.iter().rev() {
            let digit = rest % (leaves + 1);
            rest /= leaves + 1;
            let has_loop = match self.loops {
                0 => false,
                1 => digit == 0,
                _ => digit == *leaves,
            };
            let others = if digit == 0 { 1..=*leaves } else { 0..=0 };
            let digits: Vec<u64> = others.chain(has_loop.then_some(digit)).collect();
            let below = to.split_off(start);
            to.extend(
                digits.iter().flat_map(|digit| below.iter().map(move |it| it + digit * unit)),
            );
            unit *= leaves + 1;
        }
        let mut lower: Vec<u64> = to.drain(start..).filter(|other| *other < vertex).collect();
        lower.sort_unstable();
        to.append(&mut lower);
    }

    /// Returns the number of triangles: a sixth of the closed walks of three edges, without those that use a loop.
    pub(super) fn triangles(&self) -> u64 {
        let product = |of: fn(u64) -> u64| self.leaves.iter().map(|leaves| of(*leaves)).product();
        let (walks, loops): (u64, u64) = match self.loops {
            0 => return 0,
            1 => (product(|leaves| 3 * leaves + 1), product(|leaves| leaves + 1)),
            _ => (product(|_| 4), product(|_| 2)),
        };
        (walks + 2 - 3 * loops) / 6
    }
}

impl Graph {
    fn vertices(&self, ranks: u64) -> u64 {
        match self {
            Self::Random { vertices, .. } => vertices * ranks,
            Self::Stars(stars) => stars.vertices(),
        }
    }

    /// Returns the most edges of a rank.
    fn part_edges(&self, ranks: u64) -> u64 {
        match self {
            Self::Random { vertices, degree } => (2 * degree + 1) * vertices,
            Self::Stars(stars) => {
                let mut edges = vec![0; usize::try_from(ranks).unwrap_or(usize::MAX)];
                for (vertex, rank) in (0..stars.vertices()).zip((0..edges.len()).cycle()) {
                    let mut lower = Vec::new();
                    stars.lower(vertex, &mut lower);
                    edges[rank] += lower.len() as u64;
                }
                edges.into_iter().max().unwrap_or(0)
            }
        }
    }

    pub(super) fn words(&self, ranks: u64) -> u64 {
        self.vertices(ranks).next_multiple_of(ranks) + self.part_edges(ranks) * ranks
    }

    /// Appends the neighbours of a vertex with lower numbers, in order.
    pub(super) fn lower(&self, vertex: u64, all: u64, random: &mut Rng, to: &mut Vec<u64>) {
        match self {
            Self::Random { degree, .. } => {
                to.extend(random_below(vertex, all, *degree, random));
            }
            Self::Stars(stars) => stars.lower(vertex, to),
        }
    }
}

pub(super) fn run<T: Transport>(bench: &mut Bench<'_, T>, graph: &Graph) -> Result<Outcome, Error> {
    let (me, ranks) = (bench.me(), bench.ranks());
    let all = graph.vertices(ranks);
    // The neighbours with lower numbers of each vertex of this rank.
    let mut edges = Lists::default();
    for vertex in (me..all).step_by(usize::try_from(ranks).unwrap_or(usize::MAX)) {
        graph.lower(vertex, all, &mut bench.random, &mut edges.numbers);
        edges.end();
    }
    // A word for each vertex, with the place of its first neighbour and their number, and then the neighbours.
    let vertices = all.div_ceil(ranks);
    bench.words.set_part(
        |place, _| match usize::try_from(place).unwrap_or(usize::MAX) {
            nth if nth < edges.ends.len() => {
                let (start, lower) = edges.list(nth);
                (start as u64) << 32 | lower.len() as u64
            }
            nth => {
                let nth = nth.checked_sub(usize::try_from(vertices).unwrap_or(usize::MAX));
                nth.and_then(|nth| edges.numbers.get(nth)).copied().unwrap_or(0)
            }
        },
        bench.exchange,
    )?;
    let begun_ns = bench.now_ns()?;
    let (mine, rounds) = count(bench, &edges, vertices)?;
    let triangles = bench.sum(mine)?;
    let outcome = bench.outcome(begun_ns, edges.numbers.len() as u64, rounds)?;
    let expected = match graph {
        Graph::Stars(stars) => Some(stars.triangles()),
        Graph::Random { .. } => None,
    };
    if let Some(expected) = expected.filter(|expected| *expected != triangles) {
        return Err(Error::Wrong(format!("{triangles} triangles, and expected are {expected}")));
    }
    let is_verified = expected.is_some();
    Ok(Outcome { triangles: Some(triangles), is_verified, ..outcome })
}

/// Counts the triangles whose highest vertices this rank has. Returns the rounds, too.
fn count<T: Transport>(
    bench: &mut Bench<'_, T>,
    edges: &Lists,
    vertices: u64,
) -> Result<(u64, u64), Error> {
    let ranks = bench.ranks();
    let own = 0..edges.ends.len();
    let mut own = own.flat_map(|nth| edges.list(nth).1.iter().map(move |lower| (nth, *lower)));
    let (mut triangles, mut rounds) = (0, 0);
    // Each round takes edges of a rank that has any left.
    loop {
        let batch: Vec<(usize, u64)> = own.by_ref().take(BATCH).collect();
        if bench.sum(batch.len() as u64)? == 0 {
            return Ok((triangles, rounds));
        }
        rounds += 1;
        let ends: Vec<u64> = batch.iter().map(|(_, lower)| *lower).collect();
        let mut lists = vec![0; ends.len()];
        bench.run_all(&ends, |_| Action::Get, |nth, list| lists[nth] = list)?;
        let (mut of, mut indices) = (Vec::new(), Vec::new());
        for ((vertex, lower), list) in batch.iter().zip(lists) {
            let (start, count) = (list >> 32, list & u64::from(u32::MAX));
            let at = |nth| (vertices + start + nth) * ranks + lower % ranks;
            indices.extend((0..count).map(at));
            of.resize(indices.len(), *vertex);
        }
        bench.run_all(
            &indices,
            |_| Action::Get,
            |nth, lowest| {
                triangles += u64::from(edges.list(of[nth]).1.binary_search(&lowest).is_ok());
            },
        )?;
    }
}
