//! Nets in PNML.

pub(crate) fn net(parts: &[String]) -> String {
    format!(
        r#"<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
        <net id="n" type="http://www.pnml.org/version-2009/grammar/ptnet"><page id="page">
        {}</page></net></pnml>"#,
        parts.join("\n")
    )
}

pub(crate) fn place(id: &str, tokens: u64) -> String {
    format!(r#"<place id="{id}"><initialMarking><text>{tokens}</text></initialMarking></place>"#)
}

/// Returns a transition and its arcs, which move one token each.
pub(crate) fn transition(id: &str, inputs: &[&str], outputs: &[&str]) -> String {
    let inputs = inputs.iter().map(|place| arc(place, id, 1));
    let arcs: String = inputs.chain(outputs.iter().map(|place| arc(id, place, 1))).collect();
    format!(r#"<transition id="{id}"/>{arcs}"#)
}

pub(crate) fn arc(from: &str, to: &str, weight: u32) -> String {
    let text = format!("<inscription><text>{weight}</text></inscription>");
    format!(r#"<arc id="{from}_{to}" source="{from}" target="{to}">{text}</arc>"#)
}

/// Returns places that hold one token each.
pub(crate) fn full_places(number: u32) -> impl Iterator<Item = String> {
    (0..number).map(|at| place(&format!("full_{at}"), 1))
}

/// Returns a net of 20 tokens that move from `a` to `b` one by one, and from `b` to `c` in groups
/// of `weight`: 231 states with a weight of 1, and 66 with a weight of 4.
pub(crate) fn two_steps(weight: u32) -> String {
    let places = [place("a", 20), place("b", 0), place("c", 0)];
    let last = [transition("u", &[], &["c"]), arc("b", "u", weight)];
    net(&[places.concat(), transition("t", &["a"], &["b"]), last.concat()])
}
