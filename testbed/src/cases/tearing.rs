//! Where READs bring torn words, find-or-put is exact, and only because of its protection.

use super::conformance::none_wrong;
use super::trial::{TRIAL, alone, by_chance};
use crate::case::{Case, Layer, ensure};

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Tearing, "find_or_put_is_exact_with_torn_words", |bed| {
        let output = alone(bed, "soak --in-step --data 60000")?;
        // Words that could have been torn, and were asked for again by an atomic.
        let confirms = output.split("confirms: ").skip(1);
        let digits = confirms.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let confirmed: u64 = digits.filter_map(|digits| digits.parse::<u64>().ok()).sum();
        println!("{confirmed} words were confirmed");
        ensure(confirmed > 0, || format!("the protection was not needed: {output}"))?;
        none_wrong(&output)
    })
    .needs(TRIAL),
    // Every second round on a quiet host.
    Case::chance(Layer::Tearing, "without_protection_it_is_wrong", |bed| {
        let soak = "soak --in-step --data 20000 --trust-words --expect-wrong";
        by_chance(bed, soak, " wrong; ")
    })
    .needs(TRIAL),
];
