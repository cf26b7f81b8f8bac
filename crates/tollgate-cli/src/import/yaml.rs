//! YAML as a tree whose nodes know their line.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{anyhow, bail};
use granit_parser::{Event, Parser, ScalarStyle};
use tollgate::rules::Source;

use super::note::Origin;

/// The deepest nesting.
const MAX_DEPTH: usize = 64;
/// The most nodes, each alias counted as what it stands for.
const MAX_NODES: usize = 1_000_000;

/// A node and the line it begins on, counted from 1.
#[derive(Clone, Debug)]
pub(super) struct Node {
    value: Value,
    pub(super) line: usize,
    size: usize,
}

#[derive(Clone, Debug)]
enum Value {
    Scalar { text: Rc<str>, plain: bool },
    List(Rc<[Node]>),
    Map(Rc<[(Node, Node)]>),
}

impl Node {
    /// A scalar's text; none for `null`, `~` and nothing at all.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, plain } => {
                let null = *plain && matches!(&**text, "" | "~" | "null" | "Null" | "NULL");
                (!null).then_some(&**text)
            }
            _ => None,
        }
    }

    /// A whole number.
    pub(super) fn number(&self) -> Option<u64> {
        self.text()?.trim().parse().ok()
    }

    pub(super) fn is_true(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if text.eq_ignore_ascii_case("true"))
    }

    pub(super) fn is_false(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if text.eq_ignore_ascii_case("false"))
    }

    /// The entries of a list; none for anything else.
    pub(super) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_))
    }

    /// The pairs of a mapping; none for anything else.
    pub(super) fn pairs(&self) -> &[(Node, Node)] {
        match &self.value {
            Value::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// What stands under a key of a mapping, unless it is nothing.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let is_key = |(known, _): &&(Node, Node)| known.text() == Some(key);
        let (_, value) = self.pairs().iter().find(is_key)?;
        let nothing = matches!(value.value, Value::Scalar { .. }) && value.text().is_none();
        (!nothing).then_some(value)
    }

    /// The text under a key.
    pub(super) fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// The texts under a key: a list of them, or one alone.
    pub(super) fn texts_of(&self, key: &str) -> Vec<&str> {
        let Some(node) = self.get(key) else { return Vec::new() };
        match node.text() {
            Some(text) => vec![text],
            None => node.items().iter().filter_map(Node::text).collect(),
        }
    }

    /// The keys of a mapping that are not among `known`, with their lines.
    pub(super) fn unknown<'n>(
        &'n self,
        known: &'n [&str],
    ) -> impl Iterator<Item = (&'n str, usize)> {
        let pairs = self.pairs().iter();
        pairs
            .filter_map(|(key, _)| Some((key.text()?, key.line)))
            .filter(move |(key, _)| !known.contains(key))
    }
}

/// The documents of a text.
pub(super) fn documents(source: &Source) -> anyhow::Result<Vec<Node>> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(&source.text, options);
    let mut tree = Tree::default();
    for next in parser {
        let (event, span) = next.map_err(|error| {
            let origin = Origin::new(&source.name, error.marker().line());
            anyhow!("{origin}: this is not YAML: {}", error.info())
        })?;
        let line = span.start.line();
        tree.event(event, line)
            .map_err(|error| anyhow!("{}: {error}", Origin::new(&source.name, line)))?;
    }
    Ok(tree.roots)
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    roots: Vec<Node>,
    nodes: usize,
}

struct Open {
    line: usize,
    anchor: usize,
    is_map: bool,
    items: Vec<Node>,
}

impl Tree {
    fn event(&mut self, event: Event<'_>, line: usize) -> anyhow::Result<()> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value =
                    Value::Scalar { text: (&*text).into(), plain: style == ScalarStyle::Plain };
                self.add(Node { value, line, size: 1 }, anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => self.add(Node { line, ..node.clone() }, 0),
                None => bail!("this alias stands for a node that contains it"),
            },
            Event::SequenceStart(_, anchor, _) => self.begin(line, anchor, false),
            Event::MappingStart(_, anchor, _) => self.begin(line, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: usize, anchor: usize, is_map: bool) -> anyhow::Result<()> {
        self.open.push(Open { line, anchor, is_map, items: Vec::new() });
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let size = 1 + open.items.iter().map(|item| item.size).sum::<usize>();
        let value = match open.is_map {
            false => Value::List(open.items.into()),
            true => Value::Map(merged(open.items).into()),
        };
        self.nodes -= size - 1; // counted one by one already
        self.add(Node { value, line: open.line, size }, open.anchor)
    }

    fn add(&mut self, node: Node, anchor: usize) -> anyhow::Result<()> {
        self.nodes += node.size;
        if self.nodes > MAX_NODES {
            bail!("more than {MAX_NODES} nodes, each alias counted as what it stands for");
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.roots.push(node),
        }
        Ok(())
    }
}

/// Keys and values in turn, as pairs; what `<<` merges in comes last, so that it never wins.
fn merged(items: Vec<Node>) -> Vec<(Node, Node)> {
    let mut items = items.into_iter();
    let (mut pairs, mut below) = (Vec::new(), Vec::new());
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        match key.text() {
            Some("<<") if value.is_list() => {
                below.extend(value.items().iter().flat_map(|map| map.pairs().to_vec()));
            }
            Some("<<") => below.extend(value.pairs().to_vec()),
            _ => pairs.push((key, value)),
        }
    }
    pairs.extend(below);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        documents(&Source::new("t.yaml", text)).unwrap().remove(0)
    }

    #[test]
    fn nodes_know_their_line() {
        let root = one("a: 1\nb:\n  - x: y\n  - z\n");
        assert_eq!(root.get("b").unwrap().items()[1].line, 4);
        assert_eq!(root.get("b").unwrap().items()[0].text_of("x"), Some("y"));
    }

    #[test]
    fn merged_keys_never_win() {
        let root = one("base: &b { a: 1, c: 3 }\nx: { <<: *b, a: 2 }\n");
        let x = root.get("x").unwrap();
        assert_eq!((x.text_of("a"), x.text_of("c")), (Some("2"), Some("3")));
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..8 {
            let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
            text += &format!("a{n}: &a{n} [{aliases}]\n");
        }
        let error = documents(&Source::new("t.yaml", text)).unwrap_err();
        assert!(error.to_string().contains("nodes"), "{error}");
    }
}
