//! Tests of texts that are accepted, and of texts that are rejected with the line of the error.

mod reading;
mod rejecting;

use proptest::prelude::*;

use super::*;
use crate::petri::NetError;
use crate::petri::naive::nets;

/// Four lines, so that a body begins in line 5.
const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
<net id="net" type="http://www.pnml.org/version-2009/grammar/ptnet">
<page id="page">
"#;

const TAIL: &str = "</page></net></pnml>";

/// One place and one transition, in one line.
const NODES: &str = "<place id=\"p\"/><transition id=\"t\"/>\n";

fn page(body: &str) -> String {
    format!("{HEAD}{body}{TAIL}")
}

fn read(body: &str) -> Net {
    parse(&page(body)).unwrap()
}

/// Returns the line and the fault of a page.
fn fault(body: &str) -> (usize, PnmlFault) {
    fault_of_text(&page(body))
}

fn fault_of_text(text: &str) -> (usize, PnmlFault) {
    let error = parse(text).unwrap_err();
    (error.line, error.fault)
}

fn arc(place: usize, weight: u64) -> Arc {
    Arc { place, weight }
}

/// Writes a net as PNML: each place on its own page behind a reference, each arc split in two.
fn write(net: &Net) -> String {
    let mut body = String::new();
    for (number, place) in net.places().iter().enumerate() {
        let (id, initial) = (&place.id, place.initial);
        body += &format!(
            r#"<referencePlace id="r{number}" ref="{id}"/><page><place id="{id}">
               <initialMarking><text>{initial}</text></initialMarking></place></page>"#
        );
    }
    for transition in net.transitions() {
        let id = &transition.id;
        body += &format!(r#"<transition id="{id}"/>"#);
        let inputs = transition.inputs.iter().map(|arc| (arc, true));
        for (arc, is_input) in inputs.chain(transition.outputs.iter().map(|arc| (arc, false))) {
            let place = format!("r{}", arc.place);
            let (source, target) = if is_input { (&place, id) } else { (id, &place) };
            for weight in [arc.weight / 2, arc.weight - arc.weight / 2] {
                if weight > 0 {
                    body += &format!(
                        r#"<arc source="{source}" target="{target}">
                           <inscription><text>{weight}</text></inscription></arc>"#
                    );
                }
            }
        }
    }
    page(&body)
}

proptest! {
    #[test]
    fn write_then_parse(net in nets()) {
        prop_assert_eq!(parse(&write(&net)), Ok(net));
    }

    /// A damaged file gives a net, or an error with one of its lines.
    #[test]
    fn damaged_files_never_panic(
        net in nets(),
        at in any::<prop::sample::Index>(),
        length in 0_usize..40,
        instead in "[<>/&\"a-z0-9 ]{0,6}",
    ) {
        let mut text = write(&net);
        let start = at.index(text.len());
        let end = (start + length).min(text.len());
        text.replace_range(start..end, &instead);
        if let Err(error) = parse(&text) {
            prop_assert!((1..=text.lines().count()).contains(&error.line), "{error}");
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
