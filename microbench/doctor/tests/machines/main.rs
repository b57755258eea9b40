//! Tests of the doctor on simulated machines: trees of files in place of `/`, and devices that
//! replace real ones behind libibverbs' own functions.

mod any;
mod cases;
#[path = "../../../../verbs/tests/stand_in/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the verbs")]
mod stand_in;
mod surveys;
#[path = "../../../../pin/tests/machines/tree.rs"]
#[allow(dead_code, reason = "shared with the tests of pin")]
mod tree;
mod ward;
