use std::collections::BTreeSet;

use probeline::exchange::threads;
use probeline::shm::Builder;
use probeline::transport::conformance::on_threads;

use super::*;

fn run_on(kernel: &Kernel, access: Access, ranks: u32) -> Outcome {
    let all = on_threads(threads(ranks), |mut job| {
        let engine = Builder::new(kernel.sizes(access, ranks)).open(&mut job).unwrap();
        run(kernel, access, 5, engine, |_| 0, &mut job).unwrap()
    });
    assert!(all.iter().all(|outcome| *outcome == all[0]), "{all:?}");
    all[0]
}

#[test]
fn kernels_run_with_both_accesses() {
    let random = Graph::Random { vertices: 200, degree: 8 };
    for kernel in [
        Kernel::Histogram { words: 100, updates: 3000 },
        Kernel::IndexGather { words: 100, reads: 3000 },
        Kernel::Permutation { len: 500 },
        Kernel::TopologicalSort { rows: 300, degree: 6 },
        Kernel::TopologicalSort { rows: 1, degree: 0 },
        Kernel::Permutation { len: 1 },
        Kernel::Triangles(random),
    ] {
        for ranks in [1, 3] {
            let [direct, aggregated] =
                [Access::Direct, Access::Aggregated].map(|access| run_on(&kernel, access, ranks));
            assert_eq!(direct.triangles, aggregated.triangles, "{kernel:?}");
            assert_eq!(direct.is_verified, !matches!(kernel, Kernel::Triangles(_)));
            assert!(direct.operations > 0);
        }
    }
}

/// Counts the triangles of products of stars one by one.
#[test]
fn counts_triangles_of_star_products() {
    for (text, expected) in [("1:3x4x5", 287), ("2:3x4x5", 7), ("0:3x4", 0), ("1:7", 0)] {
        let stars: Stars = text.parse().unwrap();
        assert_eq!((stars.triangles(), &*stars.to_string()), (expected, text));
        for ranks in [1, 2] {
            let kernel = Kernel::Triangles(Graph::Stars(stars.clone()));
            assert_eq!(run_on(&kernel, Access::Direct, ranks).triangles, Some(expected));
        }
    }
    for wrong in ["3:4", "1:", "1:0", "1:3x", "4", "1:99999x99999x99999x99999x99999"] {
        assert!(wrong.parse::<Stars>().is_err(), "{wrong}");
    }
}

/// Compares the triangles of a random graph with those that three loops find.
#[test]
fn counts_triangles_of_random_graph() {
    let graph = Graph::Random { vertices: 60, degree: 9 };
    let mut random = Rng::with_seed(5 << 16);
    let mut edges = BTreeSet::new();
    for vertex in 0..60 {
        let mut lower = Vec::new();
        graph.lower(vertex, 60, &mut random, &mut lower);
        edges.extend(lower.iter().map(|other| (vertex, *other)));
    }
    let corners = edges.iter().flat_map(|(a, b)| (0..*b).map(move |c| (*a, *b, c)));
    let expected =
        corners.filter(|(a, b, c)| edges.contains(&(*a, *c)) && edges.contains(&(*b, *c)));
    let expected = expected.count() as u64;
    assert!(expected > 50);
    assert_eq!(run_on(&Kernel::Triangles(graph), Access::Aggregated, 1).triangles, Some(expected));
}

#[test]
fn finds_wrong_permutations() {
    let kernel = Kernel::Permutation { len: 3 };
    let alone = &mut probeline::transport::Alone;
    for (numbers, is_right) in
        [(&[2, 0, 1][..], true), (&[2, 0], false), (&[2, 0, 0], false), (&[3, 0, 1], false)]
    {
        let engine = Builder::new(kernel.sizes(Access::Direct, 1)).open(alone).unwrap();
        let words = Words::open(Access::Direct, kernel.words(1), engine, alone).unwrap();
        let mut bench = Bench { words, random: Rng::with_seed(1), now_ns: |_| 0, exchange: alone };
        assert_eq!(permutation::verify(&mut bench, numbers, 0, 3).is_ok(), is_right, "{numbers:?}");
    }
}

#[test]
fn refuses_impossible_sizes() {
    let rows = |rows, degree| Kernel::TopologicalSort { rows, degree };
    for (kernel, access, ranks, expected) in [
        (Kernel::Permutation { len: 0 }, Access::Direct, 1, "a size of 1 to 4294967295"),
        (rows(1 << 31, 1), Access::Direct, 4, "a size of 1 to 1073741823"),
        (rows(1 << 20, u64::MAX), Access::Direct, 1, "a degree of 18446744073709551615"),
        (rows(9, 1), Access::Aggregated, 1025, "up to 1024 ranks"),
    ] {
        let error = kernel.check(access, ranks).unwrap_err().to_string();
        assert!(error.contains(expected) || access == Access::Aggregated, "{error}");
    }
}
