//! Tests of texts that are rejected, with the line of the error.

use super::*;

#[test]
fn malformed_xml() {
    for (body, line) in [
        ("\n<place id=\"p\">\n</page>\n", 7),
        ("\n<place id=p/>", 6),
        ("<place\n id=\"p\"\n id=\"p\"/>", 7),
        ("\n\n<place id=\"&undefined;\"/>", 7),
    ] {
        let (found, fault) = fault(body);
        assert!(matches!(fault, PnmlFault::Malformed { .. }), "{body}: {fault}");
        assert_eq!(found, line, "{body}: {fault}");
    }
}

#[test]
fn truncated_last_line() {
    let (line, fault) = fault_of_text(&format!("{HEAD}\n\n<place id=\"p\"/>"));
    assert!(matches!(fault, PnmlFault::Malformed { .. }), "{fault}");
    assert_eq!(line, 7);
    assert!(matches!(fault_of_text("").1, PnmlFault::Malformed { .. }));
}

#[test]
fn expanding_entities() {
    let bomb = r#"<?xml version="1.0"?>
        <!DOCTYPE pnml [
          <!ENTITY a "aaaaaaaaaa">
          <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
        ]>
        <pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">&b;</pnml>"#;
    assert_eq!(fault_of_text(bomb), (2, PnmlFault::DocumentType));
}

#[test]
fn too_many_elements() {
    let text = "<".repeat(MAX_ELEMENTS as usize + 1);
    assert_eq!(fault_of_text(&text), (1, PnmlFault::TooManyElements));
}

#[test]
fn other_documents() {
    let html = PnmlFault::NotPnml { root: "html".into() };
    assert_eq!(fault_of_text("<!-- a page -->\n<html/>"), (2, html));
    let other_grammar = PnmlFault::NotPnml { root: "pnml".into() };
    assert_eq!(fault_of_text("<pnml><net/></pnml>"), (1, other_grammar));
}

#[test]
fn no_or_several_nets() {
    let empty = HEAD.lines().nth(1).unwrap();
    assert_eq!(fault_of_text(&format!("\n{empty}</pnml>")), (2, PnmlFault::NoNet));
    let second = page(NODES).replace("</pnml>", "\n<net id=\"m\" type=\"\"/></pnml>");
    assert_eq!(fault_of_text(&second), (7, PnmlFault::SeveralNets));
}

#[test]
fn coloured_nets() {
    for kind in ["symmetricnet", "highlevelnet", "pt-hlpng"] {
        let (line, fault) = fault_of_text(&page(NODES).replace("ptnet", kind));
        assert_eq!(line, 3);
        let message = fault.to_string();
        assert!(message.contains("coloured net (type http") && message.contains("'-PT-'"));
    }
}

#[test]
fn elements_of_coloured_nets() {
    let text = "<text>x</text>";
    for body in [
        "\n<declaration/>".to_owned(),
        format!("<place id=\"p\">\n<type>{text}</type></place>"),
        format!("<place id=\"p\">\n<hlinitialMarking>{text}</hlinitialMarking></place>"),
        format!("<transition id=\"t\">\n<condition>{text}</condition></transition>"),
        format!("{}<arc source=\"p\" target=\"t\">\n<hlinscription/></arc>", NODES.trim()),
    ] {
        let (line, fault) = fault(&body);
        assert!(matches!(fault, PnmlFault::Coloured { .. }), "{body}: {fault}");
        assert_eq!(line, 6, "{body}");
    }
}

#[test]
fn unknown_net_types() {
    let (line, fault) = fault_of_text(&page(NODES).replace("ptnet", "timednet"));
    assert!(matches!(fault, PnmlFault::NetType { .. }), "{fault}");
    assert_eq!(line, 3);
}

#[test]
fn unknown_elements() {
    for (body, element, parent) in [
        ("\n<labels/>", "labels", "page"),
        ("<place id=\"p\">\n<capacity/></place>", "capacity", "place"),
        ("<transition id=\"t\">\n<priority/></transition>", "priority", "transition"),
        (
            "<place id=\"p\"><initialMarking>\n<value/></initialMarking></place>",
            "value",
            "initialMarking",
        ),
    ] {
        let (element, parent) = (element.into(), parent.into());
        assert_eq!(fault(body), (6, PnmlFault::Unknown { element, parent }));
    }
}

#[test]
fn missing_attributes() {
    for (body, element, attribute) in [
        ("\n<place/>", "place", "id"),
        ("\n<transition/>", "transition", "id"),
        ("\n<referencePlace id=\"r\"/>", "referencePlace", "ref"),
        ("\n<arc target=\"t\"/>", "arc", "source"),
        ("\n<arc source=\"p\"/>", "arc", "target"),
    ] {
        let body = format!("{body}{NODES}");
        let element = element.into();
        assert_eq!(fault(&body), (6, PnmlFault::MissingAttribute { element, attribute }));
    }
}

#[test]
fn repeated_labels() {
    let marking = "<initialMarking><text>1</text></initialMarking>";
    let body = format!("<place id=\"p\">{marking}\n{marking}</place>");
    assert_eq!(fault(&body), (6, PnmlFault::Repeated { label: "initialMarking" }));
    let body = "<place id=\"p\"><initialMarking><text>1</text>\n<text/></initialMarking></place>";
    assert_eq!(fault(body), (6, PnmlFault::Repeated { label: "text" }));
}

#[test]
fn duplicate_ids() {
    for element in [
        "<place id=\"p\"/>",
        "<transition id=\"p\"/>",
        "<referencePlace id=\"p\" ref=\"p\"/>",
        "<page id=\"p\"/>",
        "<arc id=\"p\" source=\"p\" target=\"t\"/>",
    ] {
        let body = format!("{NODES}\n{element}");
        assert_eq!(fault(&body), (7, PnmlFault::DuplicateId { id: "p".into() }), "{element}");
    }
    let body = "\n<place id=\"net\"/>";
    assert_eq!(fault(body), (6, PnmlFault::DuplicateId { id: "net".into() }));
}

#[test]
fn invalid_counts() {
    let beyond = (MAX_TOKENS + 1).to_string();
    let long = "9".repeat(40);
    for text in ["-1", "1.5", "many", "", "1 2", "0x10", "1'dot", &beyond, &long] {
        let count = (6, PnmlFault::Count { text: text.into() });
        let label = |name| format!("<{name}>\n<text>\n {text}</text></{name}>");
        let place = format!("<place id=\"q\">{}</place>", label("initialMarking"));
        assert_eq!(fault(&place), count);
        let inscription = label("inscription");
        let arc = format!("<arc source=\"p\" target=\"t\">{inscription}</arc>{NODES}");
        assert_eq!(fault(&arc), count);
    }
}

#[test]
fn zero_and_too_large_weights() {
    let arc = |weight: u64| {
        let inscription = format!("<inscription><text>{weight}</text></inscription>");
        format!("<arc source=\"p\" target=\"t\">{inscription}</arc>")
    };
    assert_eq!(fault(&format!("{NODES}{}", arc(0))), (6, PnmlFault::NoWeight));
    let twice = format!("{NODES}{}{}", arc(MAX_TOKENS), arc(MAX_TOKENS));
    let too_heavy = PnmlFault::Net(NetError::Weight { transition: "t".into() });
    assert_eq!(fault(&twice), (3, too_heavy));
}

#[test]
fn unsupported_arc_kinds() {
    let arc = |attribute: &str, label: &str| {
        format!("{NODES}\n<arc source=\"p\" target=\"t\" {attribute}>{label}</arc>")
    };
    for (body, kind) in [
        (arc("", "<type value=\"inhibitor\"/>"), "inhibitor"),
        (arc("", "<type>\n<text>reset</text></type>"), "reset"),
        (arc("", "<arctype><text>read</text></arctype>"), "read"),
        (arc("type=\"test\"", ""), "test"),
        (arc("type=\"test\"", "<type value=\"normal\"/>"), "test"),
        (format!("{NODES}\n<inhibitorArc source=\"p\" target=\"t\"/>"), "inhibitorArc"),
    ] {
        assert_eq!(fault(&body), (7, PnmlFault::ArcKind { kind: kind.into() }), "{body}");
    }
}

#[test]
fn dangling_arcs_and_references() {
    for element in [
        "<arc source=\"gone\" target=\"t\"/>",
        "<arc source=\"p\" target=\"gone\"/>",
        "<referencePlace id=\"r\" ref=\"gone\"/>",
    ] {
        let body = format!("{NODES}\n{element}");
        assert_eq!(fault(&body), (7, PnmlFault::Dangling { id: "gone".into() }));
    }
    // A page has an id, but no arc or reference may refer to it.
    let body = format!("{NODES}\n<arc source=\"page\" target=\"t\"/>");
    assert_eq!(fault(&body), (7, PnmlFault::Dangling { id: "page".into() }));
}

#[test]
fn arcs_between_same_kind() {
    for arc in ["source=\"p\" target=\"p\"", "source=\"t\" target=\"t\""] {
        assert_eq!(fault(&format!("{NODES}\n<arc {arc}/>")), (7, PnmlFault::SameKind));
    }
}

#[test]
fn cyclic_and_wrong_references() {
    let round = "\n<referencePlace id=\"a\" ref=\"b\"/>\n<referencePlace id=\"b\" ref=\"a\"/>";
    assert_eq!(fault(&format!("{round}{NODES}")), (6, PnmlFault::Cycle));
    let itself = "\n<referenceTransition id=\"a\" ref=\"a\"/>";
    assert_eq!(fault(&format!("{itself}{NODES}")), (6, PnmlFault::Cycle));
    for astray in
        ["<referencePlace id=\"r\" ref=\"t\"/>", "<referenceTransition id=\"r\" ref=\"p\"/>"]
    {
        assert_eq!(fault(&format!("{NODES}\n{astray}")), (7, PnmlFault::WrongReference));
    }
}

#[test]
fn net_without_places() {
    let no_place = PnmlFault::Net(NetError::NoPlace);
    assert_eq!(fault("<transition id=\"t\"/>"), (3, no_place));
}

#[test]
fn messages_start_with_line() {
    let message = parse(&page("\n<place/>")).unwrap_err().to_string();
    assert_eq!(message, "6: this <place> needs an attribute 'id'");
}
