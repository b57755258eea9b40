//! Any text is a net or an error with a line, and the net's markings pack and fire without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probeline_programs::petri::{Expander, Net, Packing, Successors};

/// Firings of each net: enough to overflow small fields, and quick.
const FIRINGS: usize = 200;

fuzz_target!(|text: &str| {
    let Ok(net) = Net::from_pnml(text) else { return };
    let Ok(packing) = Packing::new(&net) else { return };
    let Ok(mut state) = packing.pack(&net.initial()) else { return };
    let expander = Expander::<1>::new(&net, &packing, Successors::All);
    let mut successors = vec![[0]; expander.max_successors()];
    for _ in 0..FIRINGS {
        match expander.expand(&state, &mut successors) {
            Ok(expanded) if expanded.nodes > 0 => state = successors[expanded.nodes - 1],
            Ok(_) => return,
            Err(overflow) => {
                let _ = packing.grown(&net, overflow);
                return;
            }
        }
    }
});
