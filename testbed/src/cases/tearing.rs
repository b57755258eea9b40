//! Where READs bring torn words, find-or-put is exact, and only because of its protection.

use super::conformance::none_wrong;
use super::trial::{LIMIT, TRIAL, alone, command};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};

/// Rounds of which one has to go wrong; in a trial every second one did.
const ROUNDS: u32 = 60;

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
    Case::new(Layer::Tearing, "without_protection_it_is_wrong", without_protection).needs(TRIAL),
];

fn without_protection(bed: &Bed) -> Result<(), Failure> {
    let soak = command("trial", "soak --in-step --data 20000 --trust-words --expect-wrong")?;
    for round in 1..=ROUNDS {
        let ended = bed.machine(1).run(&soak, LIMIT)?;
        let line = ended.output.lines().find(|line| line.contains(" wrong; "));
        let wrong = line.and_then(|line| line.split(';').next());
        let wrong = wrong.ok_or_else(|| Failure(ended.output.clone()))?;
        if ended.status == 0 {
            println!("round {round}: {wrong}");
            return Ok(());
        }
    }
    Err(Failure(format!("nothing went wrong in {ROUNDS} rounds")))
}
