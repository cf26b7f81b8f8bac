//! YAML as a tree whose nodes carry their spans.
//!
//! The parser is an external crate. The tree is our own, because typed deserialising stops at the
//! first error and cannot report all of them. Everything is bounded before it is
//! built: bytes, depth, and nodes counted as if every alias were written out.

mod file;
mod serialize;
mod syntax_error;
mod tree_builder;

use std::borrow::Cow;
use std::rc::Rc;

use granit_parser::Parser;

use crate::read::diagnostic::Diagnostic;
use crate::read::source::SourceSpan;
pub use file::YamlFile;
use tree_builder::TreeBuilder;

/// The maximum length of a rules file in bytes.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// The maximum number of nodes in a rules file, with aliases expanded.
pub(crate) const MAX_NODES: usize = 200_000;

/// The bounds of a YAML text and the features it may use.
#[derive(Clone, Copy, Debug)]
struct YamlBounds {
    /// The maximum length in bytes.
    bytes: usize,
    /// The maximum nesting, aliases written out.
    depth: usize,
    /// The maximum number of nodes, with aliases expanded.
    nodes: usize,
    /// The maximum number of anchors; each is stored until the end.
    anchors: usize,
    /// Whether several documents may follow each other.
    several_documents: bool,
    /// Whether tags and directives are ignored instead of refused.
    tags: bool,
}

/// The bounds of a rules file; rules need six levels.
const RULES: YamlBounds = YamlBounds {
    bytes: MAX_BYTES,
    depth: 32,
    nodes: MAX_NODES,
    anchors: 1_000,
    several_documents: false,
    tags: false,
};

/// A node and its span. The span of an alias is that of the alias itself.
#[derive(Clone, Debug)]
pub struct YamlNode<'a> {
    pub(crate) value: YamlValue<'a>,
    /// The span of the node; that of a quoted text is between its quotes.
    pub(crate) span: SourceSpan,
    /// The number of nodes in it, itself included, aliases written out.
    size: u32,
    /// The depth, aliases written out; that of a scalar is 0.
    depth: u8,
}

#[derive(Clone, Debug)]
pub(crate) enum YamlValue<'a> {
    /// A scalar: its text, and whether it is written without quotes.
    Scalar {
        text: Cow<'a, str>,
        plain: bool,
    },
    List(Rc<Vec<YamlNode<'a>>>),
    Map(Rc<Vec<(YamlNode<'a>, YamlNode<'a>)>>),
}

impl<'a> YamlNode<'a> {
    /// Returns the text of a scalar; `null`, `~` and an empty value have none.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Whether the node is `null`, `~` or empty.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, YamlValue::Scalar { text, plain: true } if matches!(&**text, "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Returns the name of the node's kind, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            YamlValue::Scalar { text, plain: true } if text.bytes().all(|b| b.is_ascii_digit()) => {
                "a number"
            }
            YamlValue::Scalar { .. } => "a text",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a mapping",
        }
    }
}

/// Reads a rules file, which holds one document.
pub(crate) fn parse(text: &str, source: u32) -> Result<YamlNode<'_>, Diagnostic> {
    Ok(build(text, source, RULES)?.into_root())
}

/// Builds the tree of a text within bounds.
fn build(text: &str, source: u32, bounds: YamlBounds) -> Result<TreeBuilder<'_>, Diagnostic> {
    if text.len() > bounds.bytes {
        let message = format!("a file has at most {} bytes, this has {}", bounds.bytes, text.len());
        return Err(Diagnostic::error("too-large", SourceSpan::new(source, 0, 0), message));
    }
    let options = granit_parser::options! {
        emit_comments: false,
        disallow_directives: !bounds.tags,
        flow_nesting_limit: bounds.depth,
        block_nesting_limit: bounds.depth,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut tree = TreeBuilder::new(text, source, bounds);
    for next in parser {
        let (event, span) =
            next.map_err(|error| syntax_error::not_yaml(text, source, bounds.depth, &error))?;
        let byte = |mark: granit_parser::Marker| mark.byte_offset().unwrap_or(0).min(text.len());
        tree.event(event, byte(span.start)..byte(span.end))?;
    }
    Ok(tree)
}

#[cfg(test)]
mod tests;
