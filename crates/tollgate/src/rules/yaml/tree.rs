//! The tree in the making: events in, one bounded tree out.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use granit_parser::{Event, ScalarStyle, Tag};

use super::{MAX_ANCHORS, MAX_DEPTH, MAX_NODES, Node, Value, trouble};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::Place;

pub(super) struct Tree<'a> {
    text: &'a str,
    source: u32,
    /// Collections begun and not yet ended.
    open: Vec<Open<'a>>,
    anchors: HashMap<usize, Node<'a>>,
    root: Option<Node<'a>>,
    /// Nodes so far, aliases written out.
    nodes: usize,
}

struct Open<'a> {
    start: usize,
    anchor: usize,
    items: Items<'a>,
    size: usize,
    depth: u8,
    /// Where its last item ends.
    end: u32,
}

enum Items<'a> {
    List(Vec<Node<'a>>),
    /// Pairs, and a key whose value is to come.
    Map(Vec<(Node<'a>, Node<'a>)>, Option<Node<'a>>),
}

impl<'a> Tree<'a> {
    pub(super) fn new(text: &'a str, source: u32) -> Tree<'a> {
        Tree { text, source, open: Vec::new(), anchors: HashMap::new(), root: None, nodes: 0 }
    }

    pub(super) fn finish(self) -> Node<'a> {
        let nothing = || Node {
            value: Value::Scalar { text: "".into(), plain: true },
            place: Place::new(self.source, 0, 0),
            size: 1,
            depth: 0,
        };
        self.root.unwrap_or_else(nothing)
    }

    pub(super) fn event(&mut self, event: Event<'a>, at: Range<usize>) -> Result<(), Diagnostic> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                let place = Place::new(self.source, at.start, at.end);
                let message = "a rules file holds one document, here a second one begins";
                return Err(Diagnostic::error("several-documents", place, message).help(
                    "put it into a file of its own; a directory of files is read as a whole",
                ));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                self.refuse(tag, &at)?;
                let place = self.place_of(&text, style, at);
                let value = Value::Scalar { text, plain };
                self.add(Node { value, place, size: 1, depth: 0 }, anchor)?;
            }
            Event::Alias(anchor) => {
                let place = Place::new(self.source, at.start, at.end);
                // An anchor whose node is still open is an alias to itself.
                let Some(node) = self.anchors.get(&anchor) else {
                    let message = "this alias stands for a node that contains it";
                    return Err(Diagnostic::error("bad-alias", place, message));
                };
                let node = Node { place, ..node.clone() };
                self.add(node, 0)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse(tag, &at)?;
                self.begin(at.start, anchor, Items::List(Vec::new()));
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse(tag, &at)?;
                self.begin(at.start, anchor, Items::Map(Vec::new(), None));
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at.end)?,
            _ => {}
        }
        Ok(())
    }

    /// Tags change what a text means; rules need none. Those of YAML itself say what is so anyway.
    fn refuse(&self, tag: Option<Cow<'a, Tag>>, at: &Range<usize>) -> Result<(), Diagnostic> {
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() => {
                Err(trouble::tag(self.text, self.source, &tag, at))
            }
            _ => Ok(()),
        }
    }

    /// Where a scalar's text stands, without its quotes if it is written letter by letter.
    fn place_of(&self, text: &str, style: ScalarStyle, at: Range<usize>) -> Place {
        let inner = match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                at.start + 1..at.end.saturating_sub(1).max(at.start + 1)
            }
            _ => at.clone(),
        };
        match self.text.get(inner.clone()) {
            Some(written) if written == text => {
                Place::new(self.source, inner.start, inner.end).verbatim()
            }
            // A block ends where its text does, not where the next line begins.
            written => {
                let written = self.text.get(at.clone()).or(written).unwrap_or("");
                Place::new(self.source, at.start, at.start + written.trim_end().len())
            }
        }
    }

    fn begin(&mut self, start: usize, anchor: usize, items: Items<'a>) {
        let end = start as u32;
        self.open.push(Open { start, anchor, items, size: 1, depth: 1, end });
    }

    fn end(&mut self, end: usize) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        // A block ends where its last item does, not where the next line begins; a list in
        // brackets ends with its bracket.
        let closed = end > 0 && matches!(self.text.as_bytes().get(end - 1), Some(b']' | b'}'));
        let end = if closed { end } else { (open.end as usize).max(open.start) };
        let value = match open.items {
            Items::List(mut items) => {
                items.shrink_to_fit();
                Value::List(Rc::new(items))
            }
            Items::Map(mut pairs, _) => {
                pairs.shrink_to_fit();
                Value::Map(Rc::new(pairs))
            }
        };
        let place = Place::new(self.source, open.start, end);
        self.nodes -= open.size - 1; // counted one by one already
        let node = Node { value, place, size: open.size as u32, depth: open.depth };
        self.add(node, open.anchor)
    }

    fn add(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Diagnostic> {
        self.nodes += node.size as usize;
        if self.nodes > MAX_NODES {
            let message = format!(
                "a rules file has at most {MAX_NODES} values, each alias counted as what it stands for"
            );
            return Err(Diagnostic::error("too-large", node.place, message));
        }
        if self.open.len() + usize::from(node.depth) > MAX_DEPTH {
            return Err(trouble::too_deep(node.place));
        }
        if anchor != 0 {
            if self.anchors.len() >= MAX_ANCHORS {
                let message = format!("a rules file has at most {MAX_ANCHORS} anchors");
                return Err(Diagnostic::error("too-many", node.place, message));
            }
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size += node.size as usize;
        open.depth = open.depth.max(node.depth + 1);
        open.end = node.place.end + u32::from(quote_follows(self.text, node.place));
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map(pairs, key) => match key.take() {
                None => *key = Some(node),
                Some(key) => pairs.push((key, node)),
            },
        }
        Ok(())
    }
}

/// A text in quotes stands between them; what contains it ends behind them.
fn quote_follows(text: &str, place: Place) -> bool {
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let (start, end) = (place.start as usize, place.end as usize);
    place.is_verbatim()
        && start > 0
        && matches!(byte(end), Some(b'"' | b'\''))
        && byte(start - 1) == byte(end)
}
