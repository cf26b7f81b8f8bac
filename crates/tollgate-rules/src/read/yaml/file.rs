//! YAML files of other programs, for tools that convert them to rules.
//!
//! Rules files are read field by field, with an error for every field that does not belong. A
//! converter looks up the fields it knows and notes the others, so it needs a tree to walk.

use std::sync::Arc;

use super::{YamlBounds, YamlNode, YamlValue, build};
use crate::Source;
use crate::read::diagnostic::Diagnostics;
use crate::read::source::SourceSpan;

/// The bounds of a file of another program, such as a gateway's whole configuration.
const FOREIGN: YamlBounds = YamlBounds {
    bytes: 16 << 20,
    depth: 64,
    nodes: 1_000_000,
    anchors: 1_000_000,
    several_documents: true,
    tags: true,
};

/// The documents of one YAML file, and the lines their nodes begin on.
///
/// ```
/// use tollgate_rules::{Source, yaml::YamlFile};
/// let source = Source::new("kong.yaml", "base: &b { host: a }\nroutes:\n  - { <<: *b, port: 80 }\n");
/// let file = YamlFile::read(&source)?;
/// let route = &file.documents()[0].get("routes").unwrap().items()[0];
/// assert_eq!((route.text_of("host"), route.get("port").unwrap().number()), (Some("a"), Some(80)));
/// assert_eq!(file.line(route), 3);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Debug)]
pub struct YamlFile<'a> {
    name: &'a str,
    documents: Vec<YamlNode<'a>>,
    /// The byte that each line begins at.
    line_starts: Vec<u32>,
}

impl<'a> YamlFile<'a> {
    /// Reads the documents of a file, or returns why it is not YAML.
    pub fn read(source: &'a Source) -> Result<YamlFile<'a>, Diagnostics> {
        let tree = build(&source.text, 0, FOREIGN).map_err(|error| {
            let mut diagnostics = Diagnostics::new(Arc::from([source.clone()]));
            diagnostics.push(error);
            diagnostics
        })?;
        let newlines = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        Ok(YamlFile { name: &source.name, documents: tree.into_roots(), line_starts })
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the root node of each document; an empty file has none.
    pub fn documents(&self) -> &[YamlNode<'a>] {
        &self.documents
    }

    /// Returns the line that a node of this file begins on, counted from 1.
    pub fn line(&self, node: &YamlNode<'_>) -> usize {
        self.line_at(node.span)
    }

    /// Returns the line that a span of this file begins on.
    pub(crate) fn line_at(&self, span: SourceSpan) -> usize {
        self.line_starts.partition_point(|start| *start <= span.start)
    }
}

impl<'a> YamlNode<'a> {
    /// Returns a whole number.
    pub fn number(&self) -> Option<u64> {
        self.text()?.trim().parse().ok()
    }

    /// Whether the node is `true` without quotes, in either case.
    pub fn is_true(&self) -> bool {
        self.is_word("true")
    }

    /// Whether the node is `false` without quotes, in either case.
    pub fn is_false(&self) -> bool {
        self.is_word("false")
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.value, YamlValue::Scalar { text, plain: true } if text.eq_ignore_ascii_case(word))
    }

    /// Whether the node is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value, YamlValue::List(_))
    }

    /// Returns the entries of a list; a node that is no list has none.
    pub fn items(&self) -> &[YamlNode<'a>] {
        match &self.value {
            YamlValue::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the value of a key, unless it is null. A key of the mapping itself takes precedence
    /// over one merged in with `<<`.
    pub fn get(&self, key: &str) -> Option<&YamlNode<'a>> {
        self.find(key).filter(|value| !value.is_null())
    }

    fn find(&self, key: &str) -> Option<&YamlNode<'a>> {
        let YamlValue::Map(pairs) = &self.value else { return None };
        let own = pairs.iter().find(|(known, _)| known.text() == Some(key) && key != "<<");
        own.map(|(_, value)| value).or_else(|| self.merged().find_map(|map| map.find(key)))
    }

    /// Returns the mappings that `<<` merges into this one.
    fn merged(&self) -> impl Iterator<Item = &YamlNode<'a>> {
        let pairs = match &self.value {
            YamlValue::Map(pairs) => pairs.as_slice(),
            _ => &[],
        };
        let merged = pairs.iter().filter(|(key, _)| key.text() == Some("<<"));
        merged.flat_map(|(_, value)| match &value.value {
            YamlValue::List(maps) => maps.as_slice(),
            _ => std::slice::from_ref(value),
        })
    }

    /// Returns the text of a key's value.
    pub fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// Returns the texts of a key's value: those of a list, or a single one.
    pub fn texts_of(&self, key: &str) -> Vec<&str> {
        let Some(node) = self.get(key) else { return Vec::new() };
        match node.text() {
            Some(text) => vec![text],
            None => node.items().iter().filter_map(YamlNode::text).collect(),
        }
    }

    /// Returns the keys of a mapping, those merged in with `<<` last.
    pub fn keys(&self) -> Vec<&YamlNode<'a>> {
        let YamlValue::Map(pairs) = &self.value else { return Vec::new() };
        let own = pairs.iter().map(|(key, _)| key).filter(|key| key.text() != Some("<<"));
        own.chain(self.merged().flat_map(YamlNode::keys)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_mapping_itself_wins_over_a_merged_one() {
        let source = Source::new("t", "base: &b { a: 1, c: 3 }\nx: { <<: *b, a: 2 }\n");
        let file = YamlFile::read(&source).unwrap();
        let x = file.documents()[0].get("x").unwrap();
        assert_eq!((x.text_of("a"), x.text_of("c")), (Some("2"), Some("3")));
        let keys: Vec<_> = x.keys().iter().filter_map(|key| key.text()).collect();
        assert_eq!(keys, ["a", "a", "c"]);
    }

    #[test]
    fn documents_tags_and_directives_are_read() {
        let source = Source::new("t", "%YAML 1.2\n---\na: !x 1\n---\n- b\n- c\n");
        let file = YamlFile::read(&source).unwrap();
        assert_eq!(file.documents()[0].text_of("a"), Some("1"));
        assert_eq!(file.line(&file.documents()[1].items()[1]), 6);
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..8 {
            let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
            text += &format!("a{n}: &a{n} [{aliases}]\n");
        }
        let error = YamlFile::read(&Source::new("t", text)).unwrap_err();
        assert!(error.to_string().contains("values"), "{error}");
    }
}
