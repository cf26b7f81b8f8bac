//! YAML as a tree in which every node knows where it stands.
//!
//! The parser is a maintained one; the tree is ours because a reading that stops at the first
//! error, as typed deserialising does, cannot report all of them. Everything is bounded before it is
//! built: bytes, depth, and nodes counted as if every alias were written out.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle};

use super::diagnostic::Diagnostic;
use super::source::Place;

/// The longest text.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// The deepest nesting; rules need six.
pub(crate) const MAX_DEPTH: usize = 32;
/// The most nodes, each alias counted as what it stands for.
pub(crate) const MAX_NODES: usize = 400_000;

/// A node and where it stands. An alias stands where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) value: Value<'a>,
    pub(crate) place: Place,
    /// Nodes in it, itself included, aliases written out.
    size: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// A scalar: what it says, and whether it stood without quotes.
    Scalar { text: Cow<'a, str>, plain: bool },
    List(Rc<[Node<'a>]>),
    Map(Rc<[(Node<'a>, Node<'a>)]>),
}

impl<'a> Node<'a> {
    /// The text of a scalar; `null`, `~` and nothing at all are none.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// What to call it in a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { .. } => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Reads one text that holds one document.
pub(crate) fn parse(text: &str, source: u32) -> Result<Node<'_>, Diagnostic> {
    let whole = Place { source, start: 0, end: 0 };
    if text.len() > MAX_BYTES {
        let message = format!("a rules file has at most {MAX_BYTES} bytes, this has {}", text.len());
        return Err(Diagnostic::error("too-large", whole, message));
    }
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut tree = Tree { source, open: Vec::new(), anchors: HashMap::new(), root: None, nodes: 0 };
    for next in parser {
        let (event, span) = next.map_err(|error| {
            let at = error.marker().byte_offset().unwrap_or(0).min(text.len()) as u32;
            let place = Place { source, start: at, end: at };
            Diagnostic::error("yaml", place, format!("this is not YAML: {}", error.info()))
        })?;
        let byte = |mark: granit_parser::Marker| mark.byte_offset().unwrap_or(0) as u32;
        let place = Place { source, start: byte(span.start), end: byte(span.end) };
        tree.event(event, place)?;
    }
    Ok(tree.root.unwrap_or(Node {
        value: Value::Scalar { text: "".into(), plain: true },
        place: whole,
        size: 1,
    }))
}

/// A tree in the making.
struct Tree<'a> {
    source: u32,
    /// Collections begun and not yet ended.
    open: Vec<Open<'a>>,
    anchors: HashMap<usize, Node<'a>>,
    root: Option<Node<'a>>,
    nodes: usize,
}

struct Open<'a> {
    place: Place,
    anchor: usize,
    is_map: bool,
    items: Vec<Node<'a>>,
}

impl<'a> Tree<'a> {
    fn event(&mut self, event: Event<'a>, place: Place) -> Result<(), Diagnostic> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                let message = "a rules file holds one document, here a second one begins";
                return Err(Diagnostic::error("several-documents", place, message)
                    .help("put it into a file of its own; a directory of files is read as a whole"));
            }
            Event::Scalar(text, style, anchor, _) => {
                let value = Value::Scalar { text, plain: style == ScalarStyle::Plain };
                self.add(Node { value, place, size: 1 }, anchor)?;
            }
            Event::Alias(anchor) => {
                // An anchor whose node is still open is an alias to itself.
                let Some(node) = self.anchors.get(&anchor) else {
                    let message = "this alias stands for a node that contains it";
                    return Err(Diagnostic::error("yaml", place, message));
                };
                let node = Node { place, ..node.clone() };
                self.add(node, 0)?;
            }
            Event::SequenceStart(_, anchor, _) => self.begin(place, anchor, false),
            Event::MappingStart(_, anchor, _) => self.begin(place, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.end(place)?,
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, place: Place, anchor: usize, is_map: bool) {
        self.open.push(Open { place, anchor, is_map, items: Vec::new() });
    }

    fn end(&mut self, place: Place) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let size = 1 + open.items.iter().map(|item| item.size).sum::<usize>();
        let last = open.items.last().map_or(place.end, |item| item.place.end);
        // A block ends where its last item does, not where the next line begins.
        let place = Place { source: self.source, start: open.place.start, end: last.max(open.place.start) };
        let value = match open.is_map {
            false => Value::List(open.items.into()),
            true => Value::Map(pairs(open.items)),
        };
        self.nodes -= size - 1; // counted one by one already
        self.add(Node { value, place, size }, open.anchor)
    }

    fn add(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Diagnostic> {
        self.nodes += node.size;
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} nodes, each alias counted as what it stands for");
            return Err(Diagnostic::error("too-large", node.place, message));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }
}

fn pairs<'a>(items: Vec<Node<'a>>) -> Rc<[(Node<'a>, Node<'a>)]> {
    let mut items = items.into_iter();
    let mut pairs = Vec::with_capacity(items.len() / 2);
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs.into()
}
