//! YAML as a tree in which every node knows where it stands.
//!
//! The parser is a maintained one; the tree is ours because a reading that stops at the first
//! error, as typed deserialising does, cannot report all of them. Everything is bounded before it is
//! built: bytes, depth, and nodes counted as if every alias were written out.

mod tree;
mod trouble;

use std::borrow::Cow;
use std::rc::Rc;

use granit_parser::Parser;

use super::diagnostic::Diagnostic;
use super::source::Place;
use tree::Tree;

/// The longest text.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// The deepest nesting, aliases written out; rules need six.
pub(crate) const MAX_DEPTH: usize = 32;
/// The most nodes, each alias counted as what it stands for.
pub(crate) const MAX_NODES: usize = 200_000;

/// The most anchors: each is remembered to the end.
pub(crate) const MAX_ANCHORS: usize = 1_000;

/// A node and where it stands. An alias stands where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) value: Value<'a>,
    /// Of a text in quotes, what stands between them.
    pub(crate) place: Place,
    /// Nodes in it, itself included, aliases written out.
    size: u32,
    /// How deep it is, aliases written out; a scalar is 0 deep.
    depth: u8,
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// A scalar: what it says, and whether it stood without quotes.
    Scalar {
        text: Cow<'a, str>,
        plain: bool,
    },
    List(Rc<Vec<Node<'a>>>),
    Map(Rc<Vec<(Node<'a>, Node<'a>)>>),
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
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { text, plain: true } if text.bytes().all(|b| b.is_ascii_digit()) => {
                "a number"
            }
            Value::Scalar { .. } => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Reads one text that holds one document.
pub(crate) fn parse(text: &str, source: u32) -> Result<Node<'_>, Diagnostic> {
    if text.len() > MAX_BYTES {
        let message =
            format!("a rules file has at most {MAX_BYTES} bytes, this has {}", text.len());
        return Err(Diagnostic::error("too-large", Place::new(source, 0, 0), message));
    }
    let options = granit_parser::options! {
        emit_comments: false,
        disallow_directives: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut tree = Tree::new(text, source);
    for next in parser {
        let (event, span) = next.map_err(|error| trouble::not_yaml(text, source, &error))?;
        let byte = |mark: granit_parser::Marker| mark.byte_offset().unwrap_or(0).min(text.len());
        tree.event(event, byte(span.start)..byte(span.end))?;
    }
    Ok(tree.finish())
}

#[cfg(test)]
mod tests;
