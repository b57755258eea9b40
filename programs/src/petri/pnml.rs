//! Reads a place/transition net from PNML (ISO/IEC 15909-2, grammar of 2009).
//!
//! Layout, names of nodes and tool-specific parts do not change the state space and are skipped.
//! Any other unknown element is an error, because it may change the behaviour of the net.

use std::collections::HashMap;

use roxmltree::{Document, Node, ParsingOptions};

use crate::petri::{Arc, MAX_TOKENS, Net, Place, Transition};

const PNML: &str = "http://www.pnml.org/version-2009/grammar/pnml";
const PT_NET: &str = "http://www.pnml.org/version-2009/grammar/ptnet";

/// Elements that do not affect the behaviour.
const SKIPPED: [&str; 3] = ["name", "graphics", "toolspecific"];

/// Maximum number of tags and attributes in a text, which limits the parser's tree to about 3 GB.
/// Files of the Model Checking Contest have one tag or attribute per 16 bytes, so the longest
/// accepted file has half this number.
const MAX_ELEMENTS: usize = 1 << 25;

/// The reason why a text does not describe a place/transition net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct PnmlError {
    /// The line, counted from 1.
    pub line: usize,
    /// The defect in that line, and what to do.
    pub problem: String,
}

type Result<T> = core::result::Result<T, PnmlError>;

impl Net {
    /// Reads a place/transition net from the text of a PNML file (ISO/IEC 15909-2, grammar of
    /// 2009).
    ///
    /// Layout, names of nodes and tool-specific parts are ignored. Any other unknown element is an
    /// error, because it may change the behaviour of the net.
    ///
    /// # Errors
    /// [`PnmlError`] with the line of the error.
    pub fn from_pnml(text: &str) -> Result<Self> {
        // Checked before parsing, because the parser reserves memory for this count.
        if text.bytes().filter(|&byte| byte == b'<' || byte == b'=').count() > MAX_ELEMENTS {
            let problem = format!(
                "more than {MAX_ELEMENTS} tags and attributes; take a smaller instance of the model"
            );
            return Err(PnmlError { line: 1, problem });
        }
        // Entities of a document type definition may expand without end.
        let options = ParsingOptions { allow_dtd: false, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options);
        let document = document.map_err(|error| malformed(text, &error))?;
        let net = find_net(document.root_element())?;
        let mut reader = Reader::default();
        reader.collect(net)?;
        reader.resolve()?;
        reader.connect()?;
        Self::new(reader.places, reader.transitions).map_err(|error| fault_at(net, error))
    }
}

/// Returns the fault that the parser has found, also where the parser tells no position.
fn malformed(text: &str, error: &roxmltree::Error) -> PnmlError {
    use roxmltree::Error::{DtdDetected, UnclosedRootNode, UnexpectedEndOfStream};
    let mut problem = format!("not well-formed XML: {error}");
    let line = match error {
        DtdDetected => {
            problem = "a <!DOCTYPE> is not supported; delete it".to_owned();
            text.lines().take_while(|line| !line.contains("<!DOCTYPE")).count() + 1
        }
        UnclosedRootNode | UnexpectedEndOfStream => text.lines().count(),
        _ => error.pos().row as usize,
    };
    PnmlError { line: line.max(1), problem }
}

fn fault_at(node: Node<'_, '_>, problem: impl ToString) -> PnmlError {
    let line = node.document().text_pos_at(node.range().start).row as usize;
    PnmlError { line, problem: problem.to_string() }
}

/// Finds the only net and checks its type.
fn find_net<'a, 'input>(root: Node<'a, 'input>) -> Result<Node<'a, 'input>> {
    let name = root.tag_name().name();
    if !root.has_tag_name((PNML, "pnml")) {
        let problem = "not PNML of the 2009 grammar: the root is";
        return Err(fault_at(root, format!("{problem} <{name}>, not <pnml xmlns=\"{PNML}\">")));
    }
    let mut nets = elements(root).filter(|node| node.tag_name().name() == "net");
    let net = nets.next().ok_or_else(|| fault_at(root, "there is no <net> in the file"))?;
    if let Some(second) = nets.next() {
        return Err(fault_at(second, "a second net begins here; put each net in its own file"));
    }
    match attribute(net, "type")?.trim() {
        PT_NET => Ok(net),
        other => Err(fault_at(
            net,
            format!(
                "nets of type '{other}' are not supported, only {PT_NET}; of a coloured net, use \
                 the P/T version ('-PT-')"
            ),
        )),
    }
}

/// The object that an identifier names.
#[derive(Clone, Copy)]
enum Object<'a> {
    Place(usize),
    Transition(usize),
    /// A reference to the object of this identifier, on another page.
    Reference(&'a str),
}

#[derive(Default)]
struct Reader<'a, 'input> {
    objects: HashMap<&'a str, Object<'a>>,
    places: Vec<Place>,
    transitions: Vec<Transition>,
    references: Vec<Node<'a, 'input>>,
    arcs: Vec<Node<'a, 'input>>,
}

impl<'a, 'input> Reader<'a, 'input> {
    /// Collects the objects of the net and of its nested pages, in the file's order.
    fn collect(&mut self, net: Node<'a, 'input>) -> Result<()> {
        let mut open = vec![elements(net)];
        while let Some(page) = open.last_mut() {
            match page.next() {
                Some(node) if node.tag_name().name() == "page" => open.push(elements(node)),
                Some(node) => self.object(node)?,
                None => drop(open.pop()),
            }
        }
        Ok(())
    }

    fn object(&mut self, node: Node<'a, 'input>) -> Result<()> {
        let object = match node.tag_name().name() {
            "place" => {
                self.places.push(place(node)?);
                Object::Place(self.places.len() - 1)
            }
            "transition" => {
                let [] = labels(node, [])?;
                let id = attribute(node, "id")?.to_owned();
                self.transitions.push(Transition { id, inputs: Vec::new(), outputs: Vec::new() });
                Object::Transition(self.transitions.len() - 1)
            }
            "referencePlace" | "referenceTransition" => {
                self.references.push(node);
                Object::Reference(attribute(node, "ref")?)
            }
            "arc" => {
                self.arcs.push(node);
                return Ok(());
            }
            name if SKIPPED.contains(&name) => return Ok(()),
            _ => return Err(unknown(node)),
        };
        let id = attribute(node, "id")?;
        match self.objects.insert(id, object) {
            None => Ok(()),
            Some(_) => Err(fault_at(node, format!("the id '{id}' is taken; rename one of them"))),
        }
    }

    /// Replaces each reference by the place or transition that it leads to.
    fn resolve(&mut self) -> Result<()> {
        for node in core::mem::take(&mut self.references) {
            let mut passed = Vec::new();
            let mut object = Object::Reference(attribute(node, "id")?);
            while let Object::Reference(id) = object {
                // Only a chain that leads back to itself has more references than there are objects.
                if passed.len() > self.objects.len() {
                    let problem = "the references from here lead to no place or transition";
                    return Err(fault_at(node, problem));
                }
                object = self.find(node, "ref", id)?;
                passed.push(id);
            }
            let kind = node.tag_name().name();
            if matches!(object, Object::Place(_)) != (kind == "referencePlace") {
                return Err(fault_at(
                    node,
                    format!("this <{kind}> leads to the other kind of node"),
                ));
            }
            // So that a long chain is followed once, not from each of its references.
            self.objects.extend(passed.into_iter().map(|id| (id, object)));
        }
        Ok(())
    }

    /// Adds the arcs to their transitions.
    fn connect(&mut self) -> Result<()> {
        for node in core::mem::take(&mut self.arcs) {
            let [inscription, kind, arc_kind] = labels(node, ["inscription", "type", "arctype"])?;
            check_kind(node, kind.or(arc_kind))?;
            let weight = count(inscription, 1)?;
            let end = |of| self.find(node, of, attribute(node, of)?);
            match (end("source")?, end("target")?) {
                (Object::Place(place), Object::Transition(transition)) => {
                    self.transitions[transition].inputs.push(Arc { place, weight });
                }
                (Object::Transition(transition), Object::Place(place)) => {
                    self.transitions[transition].outputs.push(Arc { place, weight });
                }
                _ => return Err(fault_at(node, "this arc must join a place and a transition")),
            }
        }
        Ok(())
    }

    /// Returns the object of the identifier in this attribute.
    fn find(&self, node: Node<'a, 'input>, of: &'static str, id: &str) -> Result<Object<'a>> {
        self.objects.get(id).copied().ok_or_else(|| {
            fault_at(node, format!("no place or transition has the id '{id}' of this {of}"))
        })
    }
}

fn place(node: Node<'_, '_>) -> Result<Place> {
    let id = attribute(node, "id")?;
    let [marking] = labels(node, ["initialMarking"])?;
    let name = child(node, "name").and_then(|name| child(name, "text")).map(text_of);
    let name = name.as_deref().map(str::trim).filter(|name| !name.is_empty()).unwrap_or(id);
    Ok(Place { id: id.to_owned(), name: name.to_owned(), initial: count(marking, 0)? })
}

/// Rejects arcs that do more than move tokens. Tools write the kind as an attribute `type`, or
/// as an element with a value or a text.
fn check_kind(arc: Node<'_, '_>, label: Option<Node<'_, '_>>) -> Result<()> {
    let of_label = label.map(|label| match label.attribute("value") {
        Some(value) => value.to_owned(),
        None => label.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect(),
    });
    let kind = arc.attribute("type").map(str::to_owned).or(of_label);
    match kind.as_deref().map(str::trim) {
        None | Some("normal") => Ok(()),
        Some(kind) => Err(fault_at(
            arc,
            format!("'{kind}' arcs are not supported, only those that move tokens, of no kind"),
        )),
    }
}

fn attribute<'a>(node: Node<'a, '_>, attribute: &'static str) -> Result<&'a str> {
    let name = node.tag_name().name();
    let missing = || fault_at(node, format!("this <{name}> needs an attribute '{attribute}'"));
    node.attribute(attribute).ok_or_else(missing)
}

/// Returns a node's labels of these names, at most one of each. Any other label is an error.
fn labels<'a, 'input, const N: usize>(
    node: Node<'a, 'input>,
    names: [&'static str; N],
) -> Result<[Option<Node<'a, 'input>>; N]> {
    let mut found = [None; N];
    for child in elements(node) {
        let name = child.tag_name().name();
        match names.iter().position(|&wanted| wanted == name) {
            Some(index) if found[index].is_none() => found[index] = Some(child),
            Some(_) => return Err(fault_at(child, format!("a second <{name}>; keep one"))),
            None if SKIPPED.contains(&name) => {}
            None => return Err(unknown(child)),
        }
    }
    Ok(found)
}

/// Returns the number in a marking or inscription; `default` if it has none.
fn count(label: Option<Node<'_, '_>>, default: u64) -> Result<u64> {
    let Some(label) = label else { return Ok(default) };
    let [Some(text)] = labels(label, ["text"])? else { return Ok(default) };
    let content = text_of(text);
    content.trim().parse().ok().filter(|count| *count <= MAX_TOKENS).ok_or_else(|| {
        let content = content.trim();
        fault_at(text, format!("'{content}' is not a number of tokens; write 0 to {MAX_TOKENS}"))
    })
}

fn unknown(node: Node<'_, '_>) -> PnmlError {
    let parent = node.parent_element().map_or("", |parent| parent.tag_name().name());
    let problem = format!(
        "<{}> in <{parent}> is not part of a place/transition net; delete it if it does not change \
         the net's behaviour, or use the P/T version ('-PT-') of a coloured net",
        node.tag_name().name()
    );
    fault_at(node, problem)
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
