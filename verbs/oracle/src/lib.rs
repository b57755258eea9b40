//! Parses the generated bindings of `probeline_verbs_sys` for the tests of this crate. They compare
//! the bindings with `ibverbs_sys`, an independent crate generated from rdma-core 55, and with the
//! C compiler's layout of the installed `infiniband/verbs.h`.
//!
//! The build of `ibverbs_sys` mixes headers: `verbs.h` is from rdma-core 55, and the headers that
//! it includes are the installed ones. `probeline_verbs_sys` is generated from rdma-core 44.
//! Between these versions structs only grew at their ends. Callers pass the size of these structs,
//! or the library allocates them, so the tests compare the common part.

/// Types that may be longer in other versions of rdma-core: `ibv_port_attr` has gained
/// `active_speed_ex`, and callers pass its size. `ibv_qp_ex` has gained `wr_flush`, and only the
/// library allocates it.
pub const LONGER: [&str; 2] = ["ibv_port_attr", "ibv_qp_ex"];

/// The names and numbers in the generated source of `probeline_verbs_sys`, so that a test can check
/// that it compares all of them.
pub mod bindings {
    const TEXT: &str = include_str!("../../sys/src/bindings.rs");

    /// Returns the structs and unions: the name, and its keyword in C.
    pub fn types() -> impl Iterator<Item = (&'static str, &'static str)> {
        TEXT.lines().filter_map(|line| {
            let (keyword, name) = line.strip_prefix("pub ")?.strip_suffix(" {")?.split_once(' ')?;
            matches!(keyword, "struct" | "union").then_some((name, keyword))
        })
    }

    /// Returns the constants: name and value.
    pub fn values() -> impl Iterator<Item = (&'static str, i64)> {
        TEXT.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
            let value = rest.split_once(" = ")?.1.strip_suffix(';')?;
            Some((name, value.parse().expect("a constant is a number")))
        })
    }

    /// Returns the asserted sizes: type and bytes. The compiler checks these assertions when it
    /// builds `probeline_verbs_sys`.
    pub fn sizes() -> impl Iterator<Item = (&'static str, usize)> {
        assertions("Size of ")
    }

    /// Returns the asserted alignments: type and bytes.
    pub fn alignments() -> impl Iterator<Item = (&'static str, usize)> {
        assertions("Alignment of ")
    }

    /// Returns the asserted offsets: `type::field` and bytes.
    pub fn offsets() -> impl Iterator<Item = (&'static str, usize)> {
        assertions("Offset of field: ")
    }

    /// Returns name and number of the assertions `["WHAT NAME"][.. - NUMBERusize];`, which may span
    /// several lines.
    fn assertions(what: &'static str) -> impl Iterator<Item = (&'static str, usize)> {
        TEXT.split("[\"").filter_map(move |text| {
            let (name, rest) = text.strip_prefix(what)?.split_once('"')?;
            let number = rest.split_once(" - ")?.1.split_once("usize]")?.0;
            Some((name, number.parse().expect("an assertion ends in a number")))
        })
    }
}
