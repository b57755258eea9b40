//! What is read and what is refused, each refusal with its line.

use proptest::prelude::*;

use super::super::NetError;
use super::super::naive::{net, nets};
use super::*;

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

/// The line and the fault of a page.
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

mod reading {
    use super::*;

    #[test]
    fn a_whole_net() {
        let net = read(
            r#"<place id="p0"><name><text> Fork </text></name>
                 <initialMarking><text> 7
                 </text></initialMarking></place>
               <place id="p1"/>
               <transition id="t0"><name><text>take</text></name></transition>
               <arc id="a0" source="p0" target="t0"><inscription><text>
                 2 </text></inscription></arc>
               <arc id="a1" source="t0" target="p1"/>"#,
        );
        let place =
            |id: &str, name: &str, initial| Place { id: id.into(), name: name.into(), initial };
        assert_eq!(net.places(), [place("p0", "Fork", 7), place("p1", "p1", 0)]);
        let [transition] = net.transitions() else { panic!("{net:?}") };
        assert_eq!(transition.id, "t0");
        assert_eq!(transition.inputs, [arc(0, 2)]);
        assert_eq!(transition.outputs, [arc(1, 1)]);
    }

    #[test]
    fn arcs_between_two_nodes_add_up() {
        let net = read(
            r#"<place id="p"/><transition id="t"/>
               <arc id="a" source="p" target="t"/>
               <arc id="b" source="p" target="t">
                 <inscription><text>4</text></inscription></arc>
               <arc id="c" source="t" target="p"/>"#,
        );
        assert_eq!(net.transitions()[0].inputs, [arc(0, 5)]);
        assert_eq!(net.transitions()[0].outputs, [arc(0, 1)]);
    }

    #[test]
    fn labels_without_a_text_mean_the_default() {
        let net = read(
            r#"<place id="p"><initialMarking><graphics/></initialMarking></place>
               <transition id="t"/>
               <arc source="p" target="t"><inscription/></arc>"#,
        );
        assert_eq!(net.initial(), [0]);
        assert_eq!(net.transitions()[0].inputs, [arc(0, 1)]);
    }

    #[test]
    fn arcs_may_come_before_their_nodes_and_cross_pages() {
        let net = read(
            r#"<arc id="a" source="t" target="p"/>
               <page id="inner"><page id="innermost"><place id="p"/></page></page>
               <page id="beside"><transition id="t"/></page>"#,
        );
        assert_eq!(net.transitions()[0].outputs, [arc(0, 1)]);
    }

    #[test]
    fn pages_may_be_nested_to_any_depth() {
        let depth = 100_000;
        let body = format!("{}{NODES}{}", "<page>".repeat(depth), "</page>".repeat(depth));
        assert_eq!(read(&body).places().len(), 1);
    }

    #[test]
    fn references_stand_for_what_they_lead_to() {
        let net = read(
            r#"<referencePlace id="r2" ref="r1"/>
               <page id="inner">
                 <referencePlace id="r1" ref="p1"/>
                 <referenceTransition id="s" ref="t"/>
                 <arc id="a" source="r2" target="s"/>
                 <arc id="b" source="s" target="r1"/>
                 <arc id="c" source="p1" target="t"/>
               </page>
               <place id="p0"/><place id="p1"/><transition id="t"/>"#,
        );
        assert_eq!(net.places().len(), 2);
        assert_eq!(net.transitions()[0].inputs, [arc(1, 2)]);
        assert_eq!(net.transitions()[0].outputs, [arc(1, 1)]);
    }

    #[test]
    fn a_long_chain_of_references_is_walked_once() {
        let count = 20_000;
        let mut body = String::from(r#"<place id="r0"/>"#);
        for number in (1..=count).rev() {
            body += &format!(r#"<referencePlace id="r{number}" ref="r{}"/>"#, number - 1);
        }
        body += &format!(r#"<transition id="t"/><arc source="t" target="r{count}"/>"#);
        assert_eq!(read(&body).transitions()[0].outputs, [arc(0, 1)]);
    }

    #[test]
    fn layout_and_tools_are_passed_over() {
        let tool = r#"<toolspecific tool="x" version="1">
            <place id="p"/><net/><arc xmlns="urn:other" source="?"/>text<capacity>1</capacity>
            </toolspecific>"#;
        let graphics = r#"<graphics><position x="1" y="2"/></graphics>"#;
        let net = read(&format!(
            r#"{tool}{graphics}<name><text>a net</text></name>
               <place id="p">{tool}{graphics}<initialMarking>{tool}{graphics}<text>3</text>
               </initialMarking></place>
               <transition id="t">{tool}{graphics}</transition>
               <arc id="a" source="p" target="t">{tool}{graphics}<inscription>{graphics}
               <text>2</text>{tool}</inscription></arc>"#
        ));
        assert_eq!(net.initial(), [3]);
        assert_eq!(net.transitions()[0].inputs, [arc(0, 2)]);
    }

    #[test]
    fn comments_and_character_data_are_xml() {
        let net = read(
            r#"<!-- <place id="gone"/> --><?tool ignore?>
               <place id="p"><initialMarking><text>1<!-- 0 -->2</text></initialMarking></place>
               <place id="q"><initialMarking><text><![CDATA[34]]></text></initialMarking></place>
               <place id="r"><initialMarking><text>&#x35;</text></initialMarking></place>"#,
        );
        assert_eq!(net.initial(), [12, 34, 5]);
    }

    #[test]
    fn entities_in_ids_are_their_characters() {
        let net = read(
            r#"<place id="a&amp;b"/><place id="&lt;&#233;&gt;"/><transition id="t"/>
               <arc source="a&#38;b" target="t"/><arc source="t" target="&#60;é&#x3e;"/>"#,
        );
        assert_eq!(net.places()[0].id, "a&b");
        assert_eq!(net.transitions()[0].inputs, [arc(0, 1)]);
        assert_eq!(net.transitions()[0].outputs, [arc(1, 1)]);
    }

    #[test]
    fn byte_order_marks_line_ends_and_prefixes_make_no_difference() {
        let plain = page(NODES);
        let with_prefix = plain.replace("xmlns=", "xmlns:p=").replace('<', "<p:");
        let with_prefix = with_prefix.replace("<p:/", "</p:").replace("<p:?", "<?");
        for text in [
            format!("\u{feff}{plain}"),
            plain.replace('\n', "\r\n"),
            plain.replace("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", ""),
            with_prefix,
        ] {
            assert_eq!(parse(&text), parse(&plain), "{text}");
        }
    }

    #[test]
    fn nodes_may_stand_outside_of_pages() {
        let text = format!("{}{NODES}</net></pnml>", HEAD.replace("<page id=\"page\">\n", ""));
        assert_eq!(parse(&text).unwrap().places().len(), 1);
    }

    #[test]
    fn an_arc_may_say_that_it_is_normal() {
        for (attribute, label) in [
            (r#"type="normal""#, ""),
            ("", r#"<type value="normal"/>"#),
            ("", "<arctype><text> normal </text></arctype>"),
        ] {
            let net =
                read(&format!(r#"{NODES}<arc source="p" target="t" {attribute}>{label}</arc>"#));
            assert_eq!(net.transitions()[0].inputs, [arc(0, 1)]);
        }
    }

    #[test]
    fn the_largest_counts() {
        let net = read(&format!(
            r#"<place id="p"><initialMarking><text>{MAX_TOKENS}</text></initialMarking></place>
               <transition id="t"/>
               <arc source="p" target="t"><inscription><text>{MAX_TOKENS}</text>
               </inscription></arc>"#
        ));
        assert_eq!(net.initial(), [MAX_TOKENS]);
        assert_eq!(net.transitions()[0].inputs, [arc(0, MAX_TOKENS)]);
    }
}

mod refusing {
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
            assert!(matches!(fault, PnmlFault::Malformed(_)), "{body}: {fault}");
            assert_eq!(found, line, "{body}: {fault}");
        }
    }

    #[test]
    fn a_file_cut_short_in_its_last_line() {
        let (line, fault) = fault_of_text(&format!("{HEAD}\n\n<place id=\"p\"/>"));
        assert!(matches!(fault, PnmlFault::Malformed(_)), "{fault}");
        assert_eq!(line, 7);
        assert!(matches!(fault_of_text("").1, PnmlFault::Malformed(_)));
    }

    #[test]
    fn entities_that_expand() {
        let bomb = r#"<?xml version="1.0"?>
            <!DOCTYPE pnml [
              <!ENTITY a "aaaaaaaaaa">
              <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
            ]>
            <pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">&b;</pnml>"#;
        assert_eq!(fault_of_text(bomb), (2, PnmlFault::DocumentType));
    }

    #[test]
    fn more_elements_than_the_bound() {
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
    fn no_net_or_several() {
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
    fn what_only_coloured_nets_contain() {
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
    fn net_types_that_are_not_known() {
        let (line, fault) = fault_of_text(&page(NODES).replace("ptnet", "timednet"));
        assert!(matches!(fault, PnmlFault::NetType { .. }), "{fault}");
        assert_eq!(line, 3);
    }

    #[test]
    fn elements_that_may_change_what_the_net_does() {
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
    fn labels_that_stand_twice() {
        let marking = "<initialMarking><text>1</text></initialMarking>";
        let body = format!("<place id=\"p\">{marking}\n{marking}</place>");
        assert_eq!(fault(&body), (6, PnmlFault::Repeated { label: "initialMarking" }));
        let body =
            "<place id=\"p\"><initialMarking><text>1</text>\n<text/></initialMarking></place>";
        assert_eq!(fault(body), (6, PnmlFault::Repeated { label: "text" }));
    }

    #[test]
    fn ids_that_are_taken() {
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
    fn counts_that_are_none() {
        let beyond = (MAX_TOKENS + 1).to_string();
        let long = "9".repeat(40);
        for said in ["-1", "1.5", "many", "", "1 2", "0x10", "1'dot", &beyond, &long] {
            let count = (6, PnmlFault::Count { said: said.into() });
            let label = |name| format!("<{name}>\n<text>\n {said}</text></{name}>");
            let place = format!("<place id=\"q\">{}</place>", label("initialMarking"));
            assert_eq!(fault(&place), count);
            let inscription = label("inscription");
            let arc = format!("<arc source=\"p\" target=\"t\">{inscription}</arc>{NODES}");
            assert_eq!(fault(&arc), count);
        }
    }

    #[test]
    fn weights_of_nothing_or_too_much() {
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
    fn arcs_that_do_more_than_move_tokens() {
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
    fn arcs_and_references_that_lead_nowhere() {
        for element in [
            "<arc source=\"gone\" target=\"t\"/>",
            "<arc source=\"p\" target=\"gone\"/>",
            "<referencePlace id=\"r\" ref=\"gone\"/>",
        ] {
            let body = format!("{NODES}\n{element}");
            assert_eq!(fault(&body), (7, PnmlFault::Dangling { id: "gone".into() }));
        }
        // A page has an id, but nothing may lead there.
        let body = format!("{NODES}\n<arc source=\"page\" target=\"t\"/>");
        assert_eq!(fault(&body), (7, PnmlFault::Dangling { id: "page".into() }));
    }

    #[test]
    fn arcs_between_nodes_of_one_kind() {
        for arc in ["source=\"p\" target=\"p\"", "source=\"t\" target=\"t\""] {
            assert_eq!(fault(&format!("{NODES}\n<arc {arc}/>")), (7, PnmlFault::SameKind));
        }
    }

    #[test]
    fn references_that_go_round_or_astray() {
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
    fn a_net_without_places() {
        let no_place = PnmlFault::Net(NetError::NoPlace);
        assert_eq!(fault("<transition id=\"t\"/>"), (3, no_place));
    }

    #[test]
    fn says_the_line_first() {
        let message = parse(&page("\n<place/>")).unwrap_err().to_string();
        assert_eq!(message, "6: this <place> needs an attribute 'id'");
    }
}

/// Writes a net, its places on a page of their own behind references, its arcs cut in two.
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
    fn a_written_net_reads_back(net in nets()) {
        prop_assert_eq!(parse(&write(&net)), Ok(net));
    }

    /// Nothing a damaged file holds ends in anything but a net or an error with a line of it.
    #[test]
    fn damaged_files_are_read_or_refused(
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

#[test]
fn the_writer_above_writes_what_it_says() {
    let text = write(&net(&[1], &[(&[(0, 3)], &[])]));
    assert_eq!(text.matches("<arc ").count(), 2);
}
