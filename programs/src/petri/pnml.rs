//! Reads a place/transition net from PNML (ISO/IEC 15909-2, grammar of 2009).
//!
//! Layout, names of nodes and tool-specific parts do not change the state space and are skipped.
//! Any other unknown element is an error, because it may change the behaviour of the net.

mod error;

pub use error::{PnmlError, PnmlFault};

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use roxmltree::{Document, Node, ParsingOptions};

use crate::petri::{Arc, MAX_TOKENS, Net, Place, Transition};

const PNML: &str = "http://www.pnml.org/version-2009/grammar/pnml";
const PT_NET: &str = "http://www.pnml.org/version-2009/grammar/ptnet";

/// Net types with coloured tokens: symmetric, high-level, and P/T nets written as high-level ones.
const COLOURED_NETS: [&str; 3] = ["symmetricnet", "highlevelnet", "pt-hlpng"];

/// Elements that only coloured nets contain.
const COLOURED_LABELS: [&str; 6] =
    ["declaration", "hlinitialMarking", "hlinscription", "condition", "structure", "sort"];

/// Elements that do not affect the behaviour.
const SKIPPED: [&str; 3] = ["name", "graphics", "toolspecific"];

/// Maximum number of tags and attributes in a text, and of nodes in the parser's tree, which limits
/// the tree to about 3 GB. Files of the Model Checking Contest have one tag or attribute per 16
/// bytes, so the longest accepted file has half this number.
pub(super) const MAX_ELEMENTS: u32 = 1 << 25;

/// Builds the net that a PNML text describes.
pub(crate) fn parse(text: &str) -> Result<Net, PnmlError> {
    // Checked before parsing, because the parser reserves memory for this count.
    if text.bytes().filter(|&byte| byte == b'<' || byte == b'=').count() > MAX_ELEMENTS as usize {
        return Err(PnmlError { line: 1, fault: PnmlFault::TooManyElements });
    }
    let options = ParsingOptions {
        // Entities of a document type definition may expand without end.
        allow_dtd: false,
        nodes_limit: MAX_ELEMENTS,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(text, options).map_err(|error| malformed(text, error))?;
    let net = find_net(document.root_element())?;
    let mut reader = Reader::default();
    reader.collect(net)?;
    reader.resolve_references()?;
    reader.connect()?;
    let (places, transitions) = (reader.places, reader.transitions);
    Net::new(places, transitions).map_err(|error| fault_at(net, PnmlFault::Net(error)))
}

fn malformed(text: &str, error: roxmltree::Error) -> PnmlError {
    let line_of = |at: usize| 1 + text[..at].matches('\n').count();
    let fault = PnmlFault::Malformed { reason: error.to_string() };
    let (line, fault) = match error {
        roxmltree::Error::NodesLimitReached => (1, PnmlFault::TooManyElements),
        roxmltree::Error::DtdDetected => {
            (line_of(text.find("<!DOCTYPE").unwrap_or(0)), PnmlFault::DocumentType)
        }
        roxmltree::Error::UnclosedRootNode | roxmltree::Error::UnexpectedEndOfStream => {
            (line_of(text.len()), fault)
        }
        _ => (error.pos().row as usize, fault),
    };
    PnmlError { line, fault }
}

fn fault_at(node: Node<'_, '_>, fault: PnmlFault) -> PnmlError {
    PnmlError { line: node.document().text_pos_at(node.range().start).row as usize, fault }
}

/// Finds the only net and checks its type.
fn find_net<'a, 'input>(root: Node<'a, 'input>) -> Result<Node<'a, 'input>, PnmlError> {
    if !root.has_tag_name((PNML, "pnml")) {
        let root_name = root.tag_name().name().to_owned();
        return Err(fault_at(root, PnmlFault::NotPnml { root: root_name }));
    }
    let mut nets = elements(root).filter(|node| node.tag_name().name() == "net");
    let net = nets.next().ok_or_else(|| fault_at(root, PnmlFault::NoNet))?;
    if let Some(second) = nets.next() {
        return Err(fault_at(second, PnmlFault::SeveralNets));
    }
    let net_type = attribute(net, "type")?.trim();
    if net_type == PT_NET {
        return Ok(net);
    }
    let kind = net_type.rsplit('/').next().unwrap_or(net_type);
    if COLOURED_NETS.contains(&kind) {
        return Err(fault_at(net, PnmlFault::Coloured { sign: format!("type {net_type}") }));
    }
    Err(fault_at(net, PnmlFault::NetType { net_type: net_type.to_owned() }))
}

/// The object that an identifier names.
#[derive(Clone, Copy)]
enum Object<'a, 'input> {
    Place(usize),
    Transition(usize),
    /// A reference to a node of another page, until it is resolved.
    Reference(Node<'a, 'input>),
    /// A net, page or arc, to which no element may refer.
    Other,
}

#[derive(Default)]
struct Reader<'a, 'input> {
    objects: HashMap<&'a str, Object<'a, 'input>>,
    places: Vec<Place>,
    transitions: Vec<Transition>,
    references: Vec<Node<'a, 'input>>,
    arcs: Vec<Node<'a, 'input>>,
}

impl<'a, 'input> Reader<'a, 'input> {
    /// Collects the objects of the net and of its nested pages, in the file's order.
    fn collect(&mut self, net: Node<'a, 'input>) -> Result<(), PnmlError> {
        self.register_if_named(net)?;
        let mut open = vec![elements(net)];
        while let Some(page) = open.last_mut() {
            match page.next() {
                Some(node) if node.tag_name().name() == "page" => {
                    self.register_if_named(node)?;
                    open.push(elements(node));
                }
                Some(node) => self.object(node)?,
                None => drop(open.pop()),
            }
        }
        Ok(())
    }

    fn object(&mut self, node: Node<'a, 'input>) -> Result<(), PnmlError> {
        match node.tag_name().name() {
            "place" => self.place(node),
            "transition" => self.transition(node),
            "referencePlace" | "referenceTransition" => self.reference(node),
            "arc" => {
                self.arcs.push(node);
                self.register_if_named(node)
            }
            name if SKIPPED.contains(&name) => Ok(()),
            _ => Err(unknown(node)),
        }
    }

    fn place(&mut self, node: Node<'a, 'input>) -> Result<(), PnmlError> {
        let id = self.register(node, Object::Place(self.places.len()))?;
        let [marking] = labels(node, ["initialMarking"])?;
        let initial = count(marking, 0)?;
        let name = child(node, "name").and_then(|name| child(name, "text")).map(text_of);
        let name = name.as_deref().map(str::trim).filter(|name| !name.is_empty()).unwrap_or(id);
        self.places.push(Place { id: id.to_owned(), name: name.to_owned(), initial });
        Ok(())
    }

    fn transition(&mut self, node: Node<'a, 'input>) -> Result<(), PnmlError> {
        let id = self.register(node, Object::Transition(self.transitions.len()))?.to_owned();
        let [] = labels(node, [])?;
        self.transitions.push(Transition { id, inputs: Vec::new(), outputs: Vec::new() });
        Ok(())
    }

    fn reference(&mut self, node: Node<'a, 'input>) -> Result<(), PnmlError> {
        self.register(node, Object::Reference(node))?;
        attribute(node, "ref")?;
        self.references.push(node);
        Ok(())
    }

    /// Replaces every reference by its place or transition.
    fn resolve_references(&mut self) -> Result<(), PnmlError> {
        let references = core::mem::take(&mut self.references);
        for first in &references {
            let (mut walk, mut at) = (Vec::new(), *first);
            // A walk ends at a place or transition, or at one that an earlier walk has left.
            let end = loop {
                if walk.len() == references.len() {
                    return Err(fault_at(at, PnmlFault::Cycle));
                }
                walk.push(at);
                match self.find(at, attribute(at, "ref")?)? {
                    Object::Reference(next) => at = next,
                    end => break end,
                }
            };
            for node in walk {
                check_reference(node, end)?;
                self.objects.insert(attribute(node, "id")?, end);
            }
        }
        Ok(())
    }

    /// Adds the arcs to their transitions.
    fn connect(&mut self) -> Result<(), PnmlError> {
        for node in core::mem::take(&mut self.arcs) {
            let [inscription, kind, arc_kind] = labels(node, ["inscription", "type", "arctype"])?;
            check_kind(node, kind.or(arc_kind))?;
            let weight = count(inscription, 1)?;
            if weight == 0 {
                return Err(fault_at(node, PnmlFault::NoWeight));
            }
            match (self.end(node, "source")?, self.end(node, "target")?) {
                (Object::Place(place), Object::Transition(transition)) => {
                    self.transitions[transition].inputs.push(Arc { place, weight });
                }
                (Object::Transition(transition), Object::Place(place)) => {
                    self.transitions[transition].outputs.push(Arc { place, weight });
                }
                _ => return Err(fault_at(node, PnmlFault::SameKind)),
            }
        }
        Ok(())
    }

    fn end(
        &self,
        arc: Node<'a, 'input>,
        end: &'static str,
    ) -> Result<Object<'a, 'input>, PnmlError> {
        self.find(arc, attribute(arc, end)?)
    }

    /// Returns the place, transition or reference that `node` refers to by `id`.
    fn find(&self, node: Node<'_, '_>, id: &str) -> Result<Object<'a, 'input>, PnmlError> {
        match self.objects.get(id) {
            None | Some(Object::Other) => {
                Err(fault_at(node, PnmlFault::Dangling { id: id.to_owned() }))
            }
            Some(object) => Ok(*object),
        }
    }

    /// Registers a node under its identifier, which must be unique.
    fn register(
        &mut self,
        node: Node<'a, 'input>,
        object: Object<'a, 'input>,
    ) -> Result<&'a str, PnmlError> {
        let id = attribute(node, "id")?;
        match self.objects.entry(id) {
            Entry::Occupied(_) => Err(fault_at(node, PnmlFault::DuplicateId { id: id.to_owned() })),
            Entry::Vacant(entry) => {
                entry.insert(object);
                Ok(id)
            }
        }
    }

    /// Registers a net, page or arc if it has an identifier. It needs none, because no element
    /// refers to it.
    fn register_if_named(&mut self, node: Node<'a, 'input>) -> Result<(), PnmlError> {
        if node.has_attribute("id") {
            self.register(node, Object::Other)?;
        }
        Ok(())
    }
}

fn check_reference(node: Node<'_, '_>, end: Object<'_, '_>) -> Result<(), PnmlError> {
    let for_place = node.tag_name().name() == "referencePlace";
    match end {
        Object::Place(_) if for_place => Ok(()),
        Object::Transition(_) if !for_place => Ok(()),
        _ => Err(fault_at(node, PnmlFault::WrongReference)),
    }
}

/// Rejects arcs that do more than move tokens. Tools write the kind as an attribute `type`, or
/// as an element with a value or a text.
fn check_kind(arc: Node<'_, '_>, label: Option<Node<'_, '_>>) -> Result<(), PnmlError> {
    let of_label = label.map(|label| match label.attribute("value") {
        Some(value) => value.to_owned(),
        None => label.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect(),
    });
    let kind = arc.attribute("type").map(str::to_owned).or(of_label);
    match kind {
        Some(kind) if kind.trim() != "normal" => {
            Err(fault_at(arc, PnmlFault::ArcKind { kind: kind.trim().to_owned() }))
        }
        _ => Ok(()),
    }
}

fn attribute<'a>(node: Node<'a, '_>, attribute: &'static str) -> Result<&'a str, PnmlError> {
    node.attribute(attribute).ok_or_else(|| {
        let element = node.tag_name().name().to_owned();
        fault_at(node, PnmlFault::MissingAttribute { element, attribute })
    })
}

/// Returns a node's labels of these names, at most one of each. Any other label is an error.
fn labels<'a, 'input, const N: usize>(
    node: Node<'a, 'input>,
    names: [&'static str; N],
) -> Result<[Option<Node<'a, 'input>>; N], PnmlError> {
    let mut found = [None; N];
    for child in elements(node) {
        let name = child.tag_name().name();
        match names.iter().position(|&wanted| wanted == name) {
            Some(index) if found[index].is_none() => found[index] = Some(child),
            Some(index) => {
                return Err(fault_at(child, PnmlFault::Repeated { label: names[index] }));
            }
            None if SKIPPED.contains(&name) => {}
            None => return Err(unknown(child)),
        }
    }
    Ok(found)
}

/// Returns the number in a marking or inscription; `default` if it has none.
fn count(label: Option<Node<'_, '_>>, default: u64) -> Result<u64, PnmlError> {
    let Some(label) = label else { return Ok(default) };
    let [Some(text)] = labels(label, ["text"])? else { return Ok(default) };
    let content = text_of(text);
    match content.trim().parse() {
        Ok(count) if count <= MAX_TOKENS => Ok(count),
        _ => Err(fault_at(text, PnmlFault::Count { text: content.trim().to_owned() })),
    }
}

/// Returns the error of an unknown element. It names the kind of net or arc if the element
/// shows it.
fn unknown(node: Node<'_, '_>) -> PnmlError {
    let element = node.tag_name().name().to_owned();
    let parent = node.parent_element().map_or("", |parent| parent.tag_name().name());
    let is_sort = element == "type" && parent == "place";
    if is_sort || COLOURED_LABELS.contains(&element.as_str()) {
        return fault_at(node, PnmlFault::Coloured { sign: format!("a <{element}>") });
    }
    if element.to_ascii_lowercase().ends_with("arc") {
        return fault_at(node, PnmlFault::ArcKind { kind: element });
    }
    fault_at(node, PnmlFault::Unknown { element, parent: parent.to_owned() })
}

fn elements<'a, 'input>(node: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(Node::is_element)
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    elements(node).find(|child| child.tag_name().name() == name)
}

/// Returns the characters of an element, without the comments between them.
fn text_of(node: Node<'_, '_>) -> String {
    node.children().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

#[cfg(test)]
mod tests;
