//! The guests' processor is the one that was asked for. Whether it has ERMS decides how the
//! kernel's copy is emulated: by words without it, byte by byte with it.

use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::patience::PATIENCE;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "the_processor_has_no_erms", |bed| has_erms(bed, false)),
    Case::new(Layer::Tearing, "the_processor_has_erms", |bed| has_erms(bed, true)),
];

fn has_erms(bed: &Bed, expected: bool) -> Result<(), Failure> {
    let text = bed.machine(1).output("cat /proc/cpuinfo", PATIENCE)?;
    let flags = text.lines().find(|line| line.starts_with("flags"));
    let flags = flags.ok_or_else(|| Failure(format!("no flags:\n{text}")))?;
    let found = flags.split_whitespace().any(|flag| flag == "erms");
    ensure(found == expected, || flags.to_owned())
}
