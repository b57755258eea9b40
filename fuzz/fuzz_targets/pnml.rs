//! Any text is a net or an error with a line, and a net's markings pack and fire without a panic.
#![no_main]

#[path = "../../microbench/src/net/mod.rs"]
#[allow(dead_code)]
mod net;

use libfuzzer_sys::fuzz_target;
use net::{FiringRule, Net, Packing};

/// Firings tried on each net: enough to overflow small fields, and quick.
const FIRINGS: usize = 200;

fuzz_target!(|text: &str| {
    let Ok(net) = Net::parse(text) else { return };
    let Ok(packing) = Packing::new(&net) else { return };
    let initial: Vec<u64> = net.places().iter().map(|place| place.initial).collect();
    let Ok(mut state) = packing.pack(&initial) else { return };
    let rule = FiringRule::new(&net, &packing);
    for _ in 0..FIRINGS {
        let mut next = None;
        match rule.successors(state, |_, successor| next = Some(successor)) {
            Ok(_) => {}
            Err(overflow) => {
                let _ = packing.grown(&net, overflow);
                return;
            }
        }
        let Some(successor) = next else { return };
        state = successor;
    }
});
