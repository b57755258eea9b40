//! Tests of texts that are rejected, with the line of the error.

use super::PnmlFault::*;
use super::*;

#[test]
fn refuses_malformed_xml() {
    for (text, line) in [
        (page("\n<place id=\"p\">\n</page>\n"), 7),
        (page("\n<place id=p/>"), 6),
        (page("<place\n id=\"p\"\n id=\"p\"/>"), 7),
        (page("\n\n<place id=\"&undefined;\"/>"), 7),
        (format!("{HEAD}\n\n<place id=\"p\"/>"), 7),
        (String::new(), 1),
    ] {
        let (found, fault) = fault_of_text(&text);
        assert!(matches!(fault, Malformed { .. }) && found == line, "{found}: {fault} in {text}");
    }
}

#[test]
fn refuses_other_documents() {
    let bomb = r#"<?xml version="1.0"?>
        <!DOCTYPE pnml [
          <!ENTITY a "aaaaaaaaaa">
          <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
        ]>
        <pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">&b;</pnml>"#;
    let empty = format!("\n{}</pnml>", HEAD.lines().nth(1).unwrap());
    let second = page(NODES).replace("</pnml>", "\n<net id=\"m\" type=\"\"/></pnml>");
    let other_root = |root: &str| NotPnml { root: root.into() };
    for (text, line, expected) in [
        (bomb, 2, DocumentType),
        (&"<".repeat(MAX_ELEMENTS as usize + 1), 1, TooManyElements),
        ("<!-- a page -->\n<html/>", 2, other_root("html")),
        // Of another grammar.
        ("<pnml><net/></pnml>", 1, other_root("pnml")),
        (&empty, 2, NoNet),
        (&second, 7, SeveralNets),
    ] {
        assert_eq!(fault_of_text(text), (line, expected));
    }
    let (line, fault) = fault_of_text(&page(NODES).replace("ptnet", "timednet"));
    assert!(matches!(fault, NetType { .. }) && line == 3, "{fault}");
}

#[test]
fn refuses_coloured_nets() {
    for kind in ["symmetricnet", "highlevelnet", "pt-hlpng"] {
        let (line, fault) = fault_of_text(&page(NODES).replace("ptnet", kind));
        let message = fault.to_string();
        assert!(message.contains("coloured net (type http") && message.contains("'-PT-'"));
        assert_eq!(line, 3);
    }
    for body in [
        "\n<declaration/>",
        "<place id=\"p\">\n<type><text>x</text></type></place>",
        "<place id=\"p\">\n<hlinitialMarking/></place>",
        "<transition id=\"t\">\n<condition/></transition>",
        "<place id=\"p\"/><arc source=\"p\" target=\"t\">\n<hlinscription/></arc>",
    ] {
        let (line, fault) = fault(body);
        assert!(matches!(fault, Coloured { .. }) && line == 6, "{body}: {fault}");
    }
}

/// The fault of each body is in its second line.
#[test]
fn refuses_elements() {
    let unknown = |element: &str, parent: &str| {
        let (element, parent) = (element.into(), parent.into());
        Unknown { element, parent }
    };
    let missing =
        |element: &str, attribute| MissingAttribute { element: element.into(), attribute };
    let marked = "<place id=\"p\"><initialMarking><text>1</text>";
    for (body, expected) in [
        ("\n<labels/>", unknown("labels", "page")),
        ("<place id=\"p\">\n<capacity/></place>", unknown("capacity", "place")),
        ("<transition id=\"t\">\n<priority/></transition>", unknown("priority", "transition")),
        (
            &format!("{marked}\n<value/></initialMarking></place>"),
            unknown("value", "initialMarking"),
        ),
        ("\n<place/>", missing("place", "id")),
        ("\n<transition/>", missing("transition", "id")),
        ("\n<referencePlace id=\"r\"/>", missing("referencePlace", "ref")),
        ("\n<arc target=\"t\"/>", missing("arc", "source")),
        ("\n<arc source=\"p\"/>", missing("arc", "target")),
        (&format!("{marked}\n<text/></initialMarking></place>"), Repeated { label: "text" }),
        (
            &format!("{marked}</initialMarking>\n<initialMarking/></place>"),
            Repeated { label: "initialMarking" },
        ),
        ("\n<place id=\"net\"/>", DuplicateId { id: "net".into() }),
        ("\n<referencePlace id=\"a\" ref=\"b\"/><referencePlace id=\"b\" ref=\"a\"/>", Cycle),
        ("\n<referenceTransition id=\"a\" ref=\"a\"/>", Cycle),
    ] {
        assert_eq!(fault(&format!("{body}{NODES}")), (6, expected), "{body}");
    }
    let no_place = fault("<transition id=\"t\"/>");
    assert_eq!(no_place, (3, Net(NetError::NoPlace)));
    let message = parse(&page("\n<place/>")).unwrap_err().to_string();
    assert_eq!(message, "6: this <place> needs an attribute 'id'");
}

/// Elements after a place and a transition.
#[test]
fn refuses_references() {
    let arc = |attribute: &str, label: &str| {
        format!("<arc source=\"p\" target=\"t\" {attribute}>{label}</arc>")
    };
    let duplicate = || DuplicateId { id: "p".into() };
    let dangling = |id: &str| Dangling { id: id.into() };
    let kind = |kind: &str| ArcKind { kind: kind.into() };
    for (element, expected) in [
        ("<place id=\"p\"/>", duplicate()),
        ("<transition id=\"p\"/>", duplicate()),
        ("<referencePlace id=\"p\" ref=\"p\"/>", duplicate()),
        ("<page id=\"p\"/>", duplicate()),
        ("<arc id=\"p\" source=\"p\" target=\"t\"/>", duplicate()),
        ("<arc source=\"gone\" target=\"t\"/>", dangling("gone")),
        ("<arc source=\"p\" target=\"gone\"/>", dangling("gone")),
        ("<referencePlace id=\"r\" ref=\"gone\"/>", dangling("gone")),
        // A page has an id, but no arc or reference may refer to it.
        ("<arc source=\"page\" target=\"t\"/>", dangling("page")),
        ("<arc source=\"p\" target=\"p\"/>", SameKind),
        ("<arc source=\"t\" target=\"t\"/>", SameKind),
        ("<referencePlace id=\"r\" ref=\"t\"/>", WrongReference),
        ("<referenceTransition id=\"r\" ref=\"p\"/>", WrongReference),
        (&arc("", "<type value=\"inhibitor\"/>"), kind("inhibitor")),
        (&arc("", "<type>\n<text>reset</text></type>"), kind("reset")),
        (&arc("", "<arctype><text>read</text></arctype>"), kind("read")),
        (&arc("type=\"test\"", ""), kind("test")),
        (&arc("type=\"test\"", "<type value=\"normal\"/>"), kind("test")),
        ("<inhibitorArc source=\"p\" target=\"t\"/>", kind("inhibitorArc")),
    ] {
        assert_eq!(fault(&format!("{NODES}\n{element}")), (7, expected), "{element}");
    }
}

#[test]
fn refuses_invalid_counts() {
    let beyond = (MAX_TOKENS + 1).to_string();
    let long = "9".repeat(40);
    let arc = |inscription: &str| format!("<arc source=\"p\" target=\"t\">{inscription}</arc>");
    for text in ["-1", "1.5", "many", "", "1 2", "0x10", "1'dot", &beyond, &long] {
        let count = (6, Count { text: text.into() });
        let label = |name| format!("<{name}>\n<text>\n {text}</text></{name}>");
        let place = format!("<place id=\"q\">{}</place>", label("initialMarking"));
        assert_eq!(fault(&place), count);
        assert_eq!(fault(&format!("{}{NODES}", arc(&label("inscription")))), count);
    }
    let weight = |weight: u64| arc(&format!("<inscription><text>{weight}</text></inscription>"));
    assert_eq!(fault(&format!("{NODES}{}", weight(0))), (6, NoWeight));
    let twice = format!("{NODES}{0}{0}", weight(MAX_TOKENS));
    assert_eq!(fault(&twice), (3, Net(NetError::Weight { transition: "t".into() })));
}
