//! What the tests here compare `verbs_sys` with: `ibverbs_sys`, which other people made from
//! rdma-core 55, and the C compiler's view of the installed `infiniband/verbs.h`. In a workspace of
//! its own, because building `ibverbs_sys` takes cmake, libclang and the headers.
//!
//! The build of `ibverbs_sys` mixes headers: `verbs.h` is of rdma-core 55, those that it includes
//! are the installed ones. `verbs_sys` is of rdma-core 44. In between structs only grew, at their
//! ends, and their users pass sizes or get them from the library: of these the common part is
//! compared.

/// Types that may be longer elsewhere. `ibv_port_attr`: `active_speed_ex`, behind a size that the
/// caller passes. `ibv_qp_ex`: `wr_flush`; only the library allocates it.
pub const LONGER: [&str; 2] = ["ibv_port_attr", "ibv_qp_ex"];

/// The generated text of `verbs_sys`, from which no name is forgotten.
pub mod bindings {
    const TEXT: &str = include_str!("../../sys/src/bindings.rs");

    /// Structs and unions: the name, and the keyword that C wants before it.
    pub fn types() -> impl Iterator<Item = (&'static str, &'static str)> {
        TEXT.lines().filter_map(|line| {
            let (keyword, name) = line.strip_prefix("pub ")?.strip_suffix(" {")?.split_once(' ')?;
            matches!(keyword, "struct" | "union").then_some((name, keyword))
        })
    }

    /// Constants: name and value.
    pub fn values() -> impl Iterator<Item = (&'static str, i64)> {
        TEXT.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
            let value = rest.split_once(" = ")?.1.strip_suffix(';')?;
            Some((name, value.parse().expect("a constant is a number")))
        })
    }

    /// Asserted sizes: type, bytes. The compiler checked them when it built `verbs_sys`.
    pub fn sizes() -> impl Iterator<Item = (&'static str, usize)> {
        assertions("Size of ")
    }

    /// Asserted alignments: type, bytes.
    pub fn alignments() -> impl Iterator<Item = (&'static str, usize)> {
        assertions("Alignment of ")
    }

    /// Asserted offsets: `type::field`, bytes.
    pub fn offsets() -> impl Iterator<Item = (&'static str, usize)> {
        assertions("Offset of field: ")
    }

    /// An assertion is `["WHAT NAME"][.. - NUMBERusize];`, on one line or more.
    fn assertions(what: &'static str) -> impl Iterator<Item = (&'static str, usize)> {
        TEXT.split("[\"").filter_map(move |text| {
            let (name, rest) = text.strip_prefix(what)?.split_once('"')?;
            let number = rest.split_once(" - ")?.1.split_once("usize]")?.0;
            Some((name, number.parse().expect("an assertion ends in a number")))
        })
    }
}
