//! Builds a bounded tree from the events of the parser.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use granit_parser::{Event, ScalarStyle, Tag};

use super::{YamlBounds, YamlNode, YamlValue, syntax_error};
use crate::read::diagnostic::Diagnostic;
use crate::read::source::SourceSpan;

/// Builds the tree of a text from the events of the parser.
pub(super) struct TreeBuilder<'a> {
    text: &'a str,
    source: u32,
    bounds: YamlBounds,
    /// The collections that have begun and not yet ended.
    open: Vec<OpenCollection<'a>>,
    anchors: HashMap<usize, YamlNode<'a>>,
    roots: Vec<YamlNode<'a>>,
    /// The number of nodes so far, aliases written out.
    nodes: usize,
}

struct OpenCollection<'a> {
    start: usize,
    anchor: usize,
    items: CollectionItems<'a>,
    size: usize,
    depth: u8,
    /// The byte after its last item.
    end: u32,
}

enum CollectionItems<'a> {
    List(Vec<YamlNode<'a>>),
    /// The pairs, and a key whose value is to come.
    Map(Vec<(YamlNode<'a>, YamlNode<'a>)>, Option<YamlNode<'a>>),
}

impl<'a> TreeBuilder<'a> {
    pub(super) fn new(text: &'a str, source: u32, bounds: YamlBounds) -> TreeBuilder<'a> {
        let (open, anchors, roots) = (Vec::new(), HashMap::new(), Vec::new());
        TreeBuilder { text, source, bounds, open, anchors, roots, nodes: 0 }
    }

    /// Returns the root of each document; an empty text has none.
    pub(super) fn into_roots(self) -> Vec<YamlNode<'a>> {
        self.roots
    }

    /// Returns the root of the first document; an empty text is null.
    pub(super) fn into_root(self) -> YamlNode<'a> {
        let null = YamlNode {
            value: YamlValue::Scalar { text: "".into(), plain: true },
            span: SourceSpan::new(self.source, 0, 0),
            size: 1,
            depth: 0,
        };
        self.roots.into_iter().next().unwrap_or(null)
    }

    pub(super) fn event(&mut self, event: Event<'a>, at: Range<usize>) -> Result<(), Diagnostic> {
        match event {
            Event::DocumentStart(..)
                if !self.roots.is_empty() && !self.bounds.several_documents =>
            {
                let span = SourceSpan::new(self.source, at.start, at.end);
                let message = "a rules file holds one document, here a second one begins";
                return Err(Diagnostic::error("several-documents", span, message).help(
                    "put it into a file of its own; a directory of files is read as a whole",
                ));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                self.refuse_tag(tag, &at)?;
                let span = self.span_of(&text, style, at);
                let value = YamlValue::Scalar { text, plain };
                self.add(YamlNode { value, span, size: 1, depth: 0 }, anchor)?;
            }
            Event::Alias(anchor) => {
                let span = SourceSpan::new(self.source, at.start, at.end);
                // An anchor whose node is still open is an alias to itself.
                let Some(node) = self.anchors.get(&anchor) else {
                    let message = "this alias stands for a node that contains it";
                    return Err(Diagnostic::error("bad-alias", span, message));
                };
                let node = YamlNode { span, ..node.clone() };
                self.add(node, 0)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag, &at)?;
                self.begin(at.start, anchor, CollectionItems::List(Vec::new()));
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag, &at)?;
                self.begin(at.start, anchor, CollectionItems::Map(Vec::new(), None));
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at.end)?,
            _ => {}
        }
        Ok(())
    }

    /// Refuses tags, except those of YAML's core schema, since others change the meaning of a text.
    fn refuse_tag(&self, tag: Option<Cow<'a, Tag>>, at: &Range<usize>) -> Result<(), Diagnostic> {
        match tag {
            Some(tag) if !self.bounds.tags && !tag.is_yaml_core_schema() => {
                Err(syntax_error::tag(self.text, self.source, &tag, at))
            }
            _ => Ok(()),
        }
    }

    /// Returns the span of a scalar, without its quotes if it is written letter by letter.
    fn span_of(&self, text: &str, style: ScalarStyle, at: Range<usize>) -> SourceSpan {
        let inner = match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                at.start + 1..at.end.saturating_sub(1).max(at.start + 1)
            }
            _ => at.clone(),
        };
        match self.text.get(inner.clone()) {
            Some(quoted) if quoted == text => {
                SourceSpan::new(self.source, inner.start, inner.end).verbatim()
            }
            // A block ends where its text does, not where the next line begins.
            unquoted => {
                let source = self.text.get(at.clone()).or(unquoted).unwrap_or("");
                SourceSpan::new(self.source, at.start, at.start + source.trim_end().len())
            }
        }
    }

    fn begin(&mut self, start: usize, anchor: usize, items: CollectionItems<'a>) {
        let end = start as u32;
        self.open.push(OpenCollection { start, anchor, items, size: 1, depth: 1, end });
    }

    fn end(&mut self, end: usize) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        // A block ends where its last item does, not where the next line begins; a list in
        // brackets ends with its bracket.
        let closed = end > 0 && matches!(self.text.as_bytes().get(end - 1), Some(b']' | b'}'));
        let end = if closed { end } else { (open.end as usize).max(open.start) };
        let value = match open.items {
            CollectionItems::List(mut items) => {
                items.shrink_to_fit();
                YamlValue::List(Rc::new(items))
            }
            CollectionItems::Map(mut pairs, _) => {
                pairs.shrink_to_fit();
                YamlValue::Map(Rc::new(pairs))
            }
        };
        let span = SourceSpan::new(self.source, open.start, end);
        self.nodes -= open.size - 1; // they are counted already
        let node = YamlNode { value, span, size: open.size as u32, depth: open.depth };
        self.add(node, open.anchor)
    }

    fn add(&mut self, node: YamlNode<'a>, anchor: usize) -> Result<(), Diagnostic> {
        self.nodes += node.size as usize;
        if self.nodes > self.bounds.nodes {
            let message = format!(
                "a file has at most {} values, each alias counted as what it stands for",
                self.bounds.nodes
            );
            return Err(Diagnostic::error("too-large", node.span, message));
        }
        if self.open.len() + usize::from(node.depth) > self.bounds.depth {
            return Err(syntax_error::too_deep(node.span, self.bounds.depth));
        }
        if anchor != 0 {
            if self.anchors.len() >= self.bounds.anchors {
                let message = format!("a file has at most {} anchors", self.bounds.anchors);
                return Err(Diagnostic::error("too-many", node.span, message));
            }
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.roots.push(node);
            return Ok(());
        };
        open.size += node.size as usize;
        open.depth = open.depth.max(node.depth + 1);
        open.end = node.span.end + u32::from(quote_follows(self.text, node.span));
        match &mut open.items {
            CollectionItems::List(items) => items.push(node),
            CollectionItems::Map(pairs, key) => match key.take() {
                None => *key = Some(node),
                Some(key) => pairs.push((key, node)),
            },
        }
        Ok(())
    }
}

/// Whether a quote follows a span: the span of a quoted text is between its quotes.
fn quote_follows(text: &str, span: SourceSpan) -> bool {
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let (start, end) = (span.start as usize, span.end as usize);
    span.is_verbatim()
        && start > 0
        && matches!(byte(end), Some(b'"' | b'\''))
        && byte(start - 1) == byte(end)
}
