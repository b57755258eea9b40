use probeline::dsm::Distribution;
use probeline::exchange::threads;
use probeline::shm::Builder;
use probeline::transport::Exchange;
use probeline::transport::conformance::on_threads;

use super::{Blocks, Buffers, Class, Costs, Options, Program, Protocol, Run, run};
use crate::Error;

/// Runs a program on ranks in threads, which verify it.
fn run_on(ranks: u32, page_words: u32, program: Program) -> Vec<Run> {
    run_under(Protocol::OneSided, ranks, page_words, program)
}

fn run_under(protocol: Protocol, ranks: u32, page_words: u32, program: Program) -> Vec<Run> {
    let in_windows = ranks == 2;
    let options = Options { program, page_words, protocol, in_windows, costs: Costs::default() };
    on_threads(threads(ranks), |mut job| {
        let engine = Builder::new(options.sizes(ranks)).open(&mut job).unwrap();
        let run = run(&options, engine, &mut job).unwrap();
        job.barrier().unwrap();
        run
    })
}

#[test]
fn sorts_as_published() {
    run_on(3, 512, Program::Sort(Class::S));
    run_on(2, 64, Program::Sort(Class::W));
}

#[test]
fn factorises_like_one_rank() {
    for blocks in [Blocks::Contiguous, Blocks::Rows] {
        for run in run_on(4, 512, Program::Lu { side: 128, blocks }) {
            // Two barriers a step, and one at the end.
            assert_eq!(run.stats.barriers, 2 * 128 / 16 + 1);
        }
    }
    // As many as in the paper.
    for run in run_on(2, 512, Program::Lu { side: 1024, blocks: Blocks::Rows }) {
        assert_eq!(run.stats.barriers, 129);
    }
    run_on(3, 8, Program::Lu { side: 64, blocks: Blocks::Rows });
    run_on(2, 256, Program::Lu { side: 128, blocks: Blocks::Contiguous });
    run_on(2, 512, Program::Lu { side: 128, blocks: Blocks::Rows });
}

#[test]
fn solves_like_one_rank() {
    run_on(3, 64, Program::Ocean { side: 34 });
    run_on(2, 512, Program::Ocean { side: 66 });
}

#[test]
fn moves_bodies_like_one_rank() {
    run_on(3, 64, Program::Barnes { bodies: 300 });
    run_on(2, 512, Program::Barnes { bodies: 1 });
}

/// Small buffers, which full pages do not fit into, and large ones.
#[test]
fn homes_match_region() {
    for (packs, depth, bytes) in [(false, 2, 4096), (true, 1, 512), (true, 2, 32 << 10)] {
        let distribution = if packs { Distribution::Cyclic } else { Distribution::Block };
        let protocol =
            Protocol::Homes(Buffers { depth, bytes, packs, reads_pages: depth == 1, distribution });
        run_under(protocol, 6, 512, Program::Sort(Class::S));
        run_under(protocol, 4, 128, Program::Barnes { bodies: 100 });
        run_under(protocol, 4, 64, Program::Ocean { side: 34 });
        let lu = Program::Lu { side: 64, blocks: Blocks::Rows };
        for run in run_under(protocol, 4, 512, lu).iter().step_by(2) {
            assert_eq!(run.stats.barriers, 9);
            assert!(!packs || bytes < 4096 || run.stats.writes < run.stats.diffs);
        }
    }
}

/// A program whose result is wrong.
struct Unverified;

impl super::Kernel<u64> for Unverified {
    fn elements(&self) -> usize {
        1
    }

    fn fill(&self, _: &mut impl super::Shared<u64>) -> Result<(), Error> {
        Ok(())
    }

    fn run(&self, _: &mut impl super::Shared<u64>) -> Result<(), Error> {
        Ok(())
    }

    fn verify(&self, _: &mut impl super::Shared<u64>, _: &[u64]) -> Result<(), Error> {
        Err(Error::Wrong("it is wrong".to_owned()))
    }
}

#[test]
fn wrong_result_ends_all_ranks() {
    let program = Program::Sort(Class::S);
    let options = Options {
        program,
        page_words: 512,
        protocol: Protocol::OneSided,
        in_windows: false,
        costs: Costs::default(),
    };
    let ended = on_threads(threads(3), |mut job| {
        let engine = Builder::new(options.sizes(3)).open(&mut job).unwrap();
        let error = options.run(&Unverified, engine, &mut job).unwrap_err();
        job.barrier().unwrap();
        error.to_string()
    });
    assert!(ended[0].starts_with("it is wrong"), "{ended:?}");
    assert!(ended[1..].iter().all(|error| error.starts_with("rank 0 could not")), "{ended:?}");
}

/// One rank.
const PARTS: super::Parts = super::Parts { ranks: 1, has_own_pages: true, page_words: 512 };

/// The product of both factors is the matrix.
#[test]
fn factors_multiply_to_matrix() {
    const SIDE: usize = 48;
    let lu = super::lu::Lu::new(SIDE, Blocks::Rows, PARTS);
    let mut alone = super::Alone::new(vec![0.0; SIDE * SIDE]);
    super::Kernel::fill(&lu, &mut alone).unwrap();
    let matrix = alone.memory.clone();
    super::Kernel::run(&lu, &mut alone).unwrap();
    for (at, expected) in matrix.iter().enumerate() {
        let (row, column) = (at / SIDE, at % SIDE);
        let lower = |step: usize| if step == row { 1.0 } else { alone.memory[row * SIDE + step] };
        let terms =
            (0..=row.min(column)).map(|step| lower(step) * alone.memory[step * SIDE + column]);
        let found: f64 = terms.sum();
        assert!((found - expected).abs() < 1e-9, "{row}, {column}: {found}, not {expected}");
    }
}

/// The number of cycles hardly depends on the grid.
#[test]
fn converges_in_few_cycles() {
    for side in [66, 258] {
        let ocean = super::ocean::Ocean::new(side, PARTS);
        let mut alone = super::Alone::new(vec![0.0; super::Kernel::elements(&ocean)]);
        super::Kernel::fill(&ocean, &mut alone).unwrap();
        let cycles = ocean.solve(&mut alone).unwrap();
        assert!(cycles < 20, "{cycles}");
    }
}
