//! Compares the committed bindings with the C compiler, the installed `infiniband/verbs.h` and its
//! library.

use std::collections::BTreeMap;
use std::path::Path;

use probeline_exchange::testing::headers::{compiled, expressions, types};

const BINDINGS: &str = include_str!("../src/bindings.rs");

/// Types that may be longer in other versions of rdma-core: `ibv_port_attr` has gained
/// `active_speed_ex`, and callers pass its size. `ibv_qp_ex` has gained `wr_flush`, and only the
/// library allocates it.
const LONGER: [&str; 2] = ["sizeof(struct ibv_port_attr)", "sizeof(struct ibv_qp_ex)"];

/// Leaves missing libraries and symbols to the tests of `calls!`.
#[test]
fn library_has_all_calls() {
    probeline_verbs_sys::Verbs::load().unwrap();
}

#[test]
fn bindings_match_header() {
    let keywords: BTreeMap<&str, &str> = types(BINDINGS).collect();
    let mut expected = expressions(BINDINGS, |name| format!("{} {name}", keywords[name]));
    let grh = probeline_verbs_sys::IBV_QPF_GRH_REQUIRED.into();
    expected.insert("IBV_QPF_GRH_REQUIRED".into(), grh);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let found = compiled(expected.keys(), ["infiniband/verbs.h", "libibverbs-dev"], folder);
    println!("{} expressions compared", found.len());
    assert_eq!(found.len(), expected.len());
    assert!(found.len() > 700, "{}", found.len());
    for (expression, ours) in expected {
        let theirs = found[&expression];
        let is_longer = theirs > ours && LONGER.contains(&expression.as_str());
        assert!(ours == theirs || is_longer, "{expression}: {ours} here, {theirs} in C");
    }
}
