//! Texts that are accepted, and texts that are rejected with the line of the error.

use proptest::prelude::*;

use super::*;
use crate::petri::naive::{net, nets};

/// Four lines, so that a body begins in line 5.
const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
<net id="net" type="http://www.pnml.org/version-2009/grammar/ptnet">
<page id="page">
"#;

/// A net of two places, in one line.
const NODES: &str = "<place id=\"p\"/><place id=\"q\"/><transition id=\"t\"/>\n";

fn page(body: &str) -> String {
    format!("{HEAD}{body}</page></net></pnml>")
}

fn arc(label: &str) -> String {
    format!("<arc source=\"p\" target=\"t\">{label}</arc>")
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

#[test]
fn reads_labels_and_names() {
    let tool = r#"<graphics><position x="1"/></graphics><toolspecific tool="x" version="1">
        <place id="p"/><net/><arc xmlns="urn:other" source="?"/>text</toolspecific>"#;
    let depth = 100_000;
    let body = format!(
        r#"{tool}<name><text>a net</text></name><arc source="a&#38;b" target="t"/>
        <place id="p0">{tool}<name><text> Fork </text></name>
          <initialMarking>{tool}<text>1<!-- 0 --><![CDATA[2]]>&#x33;
        </text></initialMarking></place><?tool ignore?>{}<place id="a&amp;b"/>{}
        <transition id="t">{tool}<name><text>take</text></name></transition>
        <arc source="p0" target="t">{tool}<inscription>{tool}<text> 2
        </text></inscription></arc><arc source="t" target="p0" type="normal"><inscription/></arc>
        <arc source="t" target="p0"><type value="normal"/></arc>
        <arc source="t" target="p0"><arctype><text> normal </text></arctype></arc>"#,
        "<page>".repeat(depth),
        "</page>".repeat(depth),
    );
    let read = Net::from_pnml(&page(&body)).unwrap();
    let names = read.places().iter().map(|place| (&*place.id, &*place.name));
    assert!(names.eq([("p0", "Fork"), ("a&b", "a&b")]));
    let same = net(&[123, 0], &[(&[(0, 2), (1, 1)], &[(0, 3)])]);
    let arcs = |net: &Net| {
        net.transitions().iter().map(|of| (of.inputs.clone(), of.outputs.clone())).next()
    };
    assert_eq!((arcs(&read), read.initial()), (arcs(&same), same.initial()));
}

#[test]
fn ignores_bom_crlf_and_prefixes() {
    let plain = page(NODES);
    let with_prefix = plain.replace("xmlns=", "xmlns:p=").replace('<', "<p:");
    let with_prefix = with_prefix.replace("<p:/", "</p:").replace("<p:?", "<?");
    for text in [
        format!("\u{feff}{plain}"),
        plain.replace('\n', "\r\n"),
        plain.replace("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", ""),
        plain.replace("<page id=\"page\">\n", "").replace("</page>", ""),
        with_prefix,
    ] {
        assert_eq!(Net::from_pnml(&text), Net::from_pnml(&plain), "{text}");
    }
}

#[track_caller]
fn rejects(text: &str, line: usize, problem: &str) {
    let error = Net::from_pnml(text).unwrap_err();
    assert!(
        error.line == line && error.problem.contains(problem),
        "{error}, not {line}: {problem}"
    );
}

#[test]
fn rejects_other_documents() {
    let head = HEAD.lines().nth(1).unwrap();
    for (text, line, problem) in [
        (&*page("\n<place id=\"p\">\n</page>\n"), 7, "not well-formed XML"),
        (&page("<place\n id=\"p\"\n id=\"p\"/>"), 7, "not well-formed XML"),
        ("", 1, "not well-formed XML"),
        (HEAD, 4, "not well-formed XML"),
        (&format!("{HEAD}<place id=\"p\">\n<initialMark"), 6, "not well-formed XML"),
        ("<?xml version=\"1.0\"?>\n<!DOCTYPE pnml>\n<pnml/>", 2, "<!DOCTYPE>"),
        (&format!("<!DOCTYPE pnml [<!ENTITY a \"aa\">]>\n{head}&a;</pnml>"), 1, "<!DOCTYPE>"),
        (&"<".repeat(MAX_ELEMENTS + 1), 1, "smaller instance"),
        ("<!-- a page -->\n<html/>", 2, "the root is <html>"),
        // Of another grammar.
        ("<pnml><net/></pnml>", 1, "the root is <pnml>"),
        (&format!("\n{head}</pnml>"), 2, "no <net>"),
        (&page(NODES).replace("</pnml>", "\n<net type=\"\"/></pnml>"), 7, "a second net"),
        (&page(NODES).replace("ptnet", "symmetricnet"), 3, "('-PT-')"),
        (&page("<transition id=\"t\"/>"), 3, "no place"),
        (&page(&format!("{NODES}{0}{0}", label_of(MAX_TOKENS))), 3, "transition t"),
        (&page(&format!("{NODES}{}", label_of(0))), 3, "transition t"),
    ] {
        rejects(text, line, problem);
    }
}

fn label_of(weight: u64) -> String {
    arc(&format!("<inscription><text>{weight}</text></inscription>"))
}

/// The defect of each body is in its second line.
#[test]
fn rejects_elements() {
    let unknown = |name: &str| format!("<{name}> in <");
    for (body, problem) in [
        ("\n<declaration/>", &*unknown("declaration")),
        ("<place id=\"r\">\n<type/></place>", &unknown("type")),
        ("<transition id=\"s\">\n<priority/></transition>", &unknown("priority")),
        ("\n<inhibitorArc source=\"p\" target=\"t\"/>", &unknown("inhibitorArc")),
        ("\n<place/>", "<place> needs an attribute 'id'"),
        ("\n<transition/>", "<transition> needs an attribute 'id'"),
        ("\n<referencePlace id=\"r\"/>", "attribute 'ref'"),
        ("\n<arc target=\"t\"/>", "attribute 'source'"),
        ("\n<arc source=\"p\"/>", "attribute 'target'"),
        ("<place id=\"r\"><initialMarking/>\n<initialMarking/></place>", "second <initialMarking>"),
        ("\n<place id=\"p\"/>", "'p' is taken"),
        ("\n<transition id=\"p\"/>", "'p' is taken"),
        ("\n<referencePlace id=\"p\" ref=\"q\"/>", "'p' is taken"),
        ("\n<arc source=\"gone\" target=\"t\"/>", "'gone' of this source"),
        ("\n<referencePlace id=\"r\" ref=\"s\"/>", "'s' of this ref"),
        ("\n<referencePlace id=\"r\" ref=\"r\"/>", "lead to no"),
        ("\n<referencePlace id=\"r\" ref=\"t\"/>", "<referencePlace> leads to the other kind"),
        ("\n<referenceTransition id=\"r\" ref=\"p\"/>", "<referenceTransition> leads to the"),
        ("\n<arc source=\"p\" target=\"page\"/>", "'page' of this target"),
        ("\n<arc source=\"p\" target=\"q\"/>", "must join a place and a transition"),
        ("\n<arc source=\"t\" target=\"t\"/>", "must join a place and a transition"),
        (&format!("\n{}", arc("<type value=\"inhibitor\"/>")), "'inhibitor' arcs"),
        (&format!("\n{}", arc("<type><text>reset</text></type>")), "'reset' arcs"),
        (&format!("\n{}", arc("<arctype><text>read</text></arctype>")), "'read' arcs"),
        ("\n<arc source=\"p\" target=\"t\" type=\"test\"><type value=\"normal\"/></arc>", "'test'"),
    ] {
        rejects(&page(&format!("{}{body}", NODES.trim_end())), 6, problem);
    }
}

#[test]
fn follows_long_chains() {
    let length = 100_000;
    let chain = |at| format!("<referencePlace id=\"r{at}\" ref=\"r{}\"/>", at + 1);
    let chain: String = (0..length).map(chain).collect();
    let last = format!("<referencePlace id=\"r{length}\" ref=\"p\"/>");
    let arcs = arc("").replace("\"p\"", "\"r0\"");
    let net = Net::from_pnml(&page(&format!("{NODES}{chain}{last}{arcs}"))).unwrap();
    assert_eq!(net.transitions()[0].inputs, [Arc { place: 0, weight: 1 }]);
}

#[test]
fn rejects_invalid_counts() {
    let (beyond, long) = ((MAX_TOKENS + 1).to_string(), "9".repeat(40));
    for text in ["-1", "1.5", "many", "", "1 2", "0x10", "1'dot", &beyond, &long] {
        let label = |name| format!("<{name}>\n<text>\n {text}</text></{name}>");
        let place = format!("<place id=\"q\">{}</place>", label("initialMarking"));
        for body in [place, arc(&label("inscription")) + NODES] {
            rejects(&page(&body), 6, &format!("'{text}' is not a number of tokens"));
        }
    }
}

proptest! {
    #[test]
    fn write_then_parse(net in nets()) {
        prop_assert_eq!(Net::from_pnml(&write(&net)), Ok(net));
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
        if let Err(error) = Net::from_pnml(&text) {
            prop_assert!((1..=text.lines().count()).contains(&error.line), "{error}");
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
