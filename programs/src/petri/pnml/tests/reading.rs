//! Tests of texts that are accepted, and the nets that they describe.

use super::*;

#[test]
fn reads_whole_net() {
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
    let place = |id: &str, name: &str, initial| Place { id: id.into(), name: name.into(), initial };
    assert_eq!(net.places(), [place("p0", "Fork", 7), place("p1", "p1", 0)]);
    let [transition] = net.transitions() else { panic!("{net:?}") };
    assert_eq!(transition.id, "t0");
    assert_eq!(transition.inputs, [arc(0, 2)]);
    assert_eq!(transition.outputs, [arc(1, 1)]);
}

/// Checks the initial marking of the net in a page, and the arcs of its transition: place and weight.
#[track_caller]
fn reads(body: &str, initial: &[u64], inputs: &[(usize, u64)], outputs: &[(usize, u64)]) {
    let net = read(body);
    assert_eq!(net.initial(), initial);
    let arcs = |ends: &[(usize, u64)]| -> Vec<Arc> {
        ends.iter().map(|&(place, weight)| arc(place, weight)).collect()
    };
    let [transition] = net.transitions() else { panic!("{net:?}") };
    assert_eq!((&transition.inputs, &transition.outputs), (&arcs(inputs), &arcs(outputs)));
}

#[test]
fn reads_arcs_anywhere() {
    let parallel = r#"<place id="p"/><transition id="t"/>
        <arc id="a" source="p" target="t"/>
        <arc id="b" source="p" target="t"><inscription><text>4</text></inscription></arc>
        <arc id="c" source="t" target="p"/>"#;
    reads(parallel, &[0], &[(0, 5)], &[(0, 1)]);
    let pages = r#"<arc id="a" source="t" target="p"/>
        <page id="inner"><page id="innermost"><place id="p"/></page></page>
        <page id="beside"><transition id="t"/></page>"#;
    reads(pages, &[0], &[], &[(0, 1)]);
    let depth = 100_000;
    let nested = format!("{}{NODES}{}", "<page>".repeat(depth), "</page>".repeat(depth));
    reads(&nested, &[0], &[], &[]);
    let no_page = format!("{}{NODES}</net></pnml>", HEAD.replace("<page id=\"page\">\n", ""));
    assert_eq!(parse(&no_page).unwrap().places().len(), 1);
    for (attribute, label) in [
        (r#"type="normal""#, ""),
        ("", r#"<type value="normal"/>"#),
        ("", "<arctype><text> normal </text></arctype>"),
    ] {
        let arc = format!(r#"<arc source="p" target="t" {attribute}>{label}</arc>"#);
        reads(&format!("{NODES}{arc}"), &[0], &[(0, 1)], &[]);
    }
}

#[test]
fn resolves_references() {
    let pages = r#"<referencePlace id="r2" ref="r1"/>
        <page id="inner">
          <referencePlace id="r1" ref="p1"/>
          <referenceTransition id="s" ref="t"/>
          <arc id="a" source="r2" target="s"/>
          <arc id="b" source="s" target="r1"/>
          <arc id="c" source="p1" target="t"/>
        </page>
        <place id="p0"/><place id="p1"/><transition id="t"/>"#;
    reads(pages, &[0, 0], &[(1, 2)], &[(1, 1)]);
    let count = 20_000;
    let mut chain = String::from(r#"<place id="r0"/>"#);
    for number in (1..=count).rev() {
        chain += &format!(r#"<referencePlace id="r{number}" ref="r{}"/>"#, number - 1);
    }
    chain += &format!(r#"<transition id="t"/><arc source="t" target="r{count}"/>"#);
    reads(&chain, &[0], &[], &[(0, 1)]);
}

#[test]
fn reads_labels_and_text() {
    let without_text = r#"<place id="p"><initialMarking><graphics/></initialMarking></place>
        <transition id="t"/><arc source="p" target="t"><inscription/></arc>"#;
    reads(without_text, &[0], &[(0, 1)], &[]);
    let largest = format!(
        r#"<place id="p"><initialMarking><text>{MAX_TOKENS}</text></initialMarking></place>
           <transition id="t"/><arc source="p" target="t">
           <inscription><text>{MAX_TOKENS}</text></inscription></arc>"#
    );
    reads(&largest, &[MAX_TOKENS], &[(0, MAX_TOKENS)], &[]);
    let comments = r#"<!-- <place id="gone"/> --><?tool ignore?><transition id="t"/>
        <place id="p"><initialMarking><text>1<!-- 0 -->2</text></initialMarking></place>
        <place id="q"><initialMarking><text><![CDATA[34]]></text></initialMarking></place>
        <place id="r"><initialMarking><text>&#x35;</text></initialMarking></place>"#;
    reads(comments, &[12, 34, 5], &[], &[]);
    let entities = r#"<place id="a&amp;b"/><place id="&lt;&#233;&gt;"/><transition id="t"/>
        <arc source="a&#38;b" target="t"/><arc source="t" target="&#60;é&#x3e;"/>"#;
    reads(entities, &[0, 0], &[(0, 1)], &[(1, 1)]);
    assert_eq!(read(entities).places()[0].id, "a&b");
}

#[test]
fn ignores_layout_and_tool_elements() {
    let tool = r#"<toolspecific tool="x" version="1">
        <place id="p"/><net/><arc xmlns="urn:other" source="?"/>text<capacity>1</capacity>
        </toolspecific>"#;
    let graphics = r#"<graphics><position x="1" y="2"/></graphics>"#;
    let body = format!(
        r#"{tool}{graphics}<name><text>a net</text></name>
           <place id="p">{tool}{graphics}<initialMarking>{tool}{graphics}<text>3</text>
           </initialMarking></place>
           <transition id="t">{tool}{graphics}</transition>
           <arc id="a" source="p" target="t">{tool}{graphics}<inscription>{graphics}
           <text>2</text>{tool}</inscription></arc>"#
    );
    reads(&body, &[3], &[(0, 2)], &[]);
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
        with_prefix,
    ] {
        assert_eq!(parse(&text), parse(&plain), "{text}");
    }
}
