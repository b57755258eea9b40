//! Any text is a net or an error with a line, and the net's markings pack and fire without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probeline_petri::{FiringRule, Net, Packing};

/// Firings of each net: enough to overflow small fields, and quick.
const FIRINGS: usize = 200;

fuzz_target!(|text: &str| {
    let Ok(net) = Net::from_pnml(text) else { return };
    let Ok(packing) = Packing::new(&net) else { return };
    let Ok(mut state) = packing.pack(&net.initial()) else { return };
    let rule = FiringRule::new(&net, &packing);
    for _ in 0..FIRINGS {
        let mut next = None;
        if let Err(overflow) = rule.successors(state, |_, successor| next = Some(successor)) {
            let _ = packing.grown(&net, overflow);
            return;
        }
        let Some(successor) = next else { return };
        state = successor;
    }
});
