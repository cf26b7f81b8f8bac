//! Where a rule is filed: under the part of its condition that fewest other rules share.

use foldhash::HashMap;
use ipnet::IpNet;

use super::super::attribute::Attribute;
use super::super::expr::{Literal, Node, Set, TextTest};
use super::super::lists::Entry;
use super::super::route::{Route, Segment};
use super::Match;

/// Where a rule is looked for.
#[derive(Debug)]
pub(super) enum Place {
    Always,
    Routes,
    Values(Values),
}

/// An attribute, and what its value must be for a condition to hold: one of these.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) attribute: Attribute,
    pub(super) keys: Vec<Key>,
    /// Whether it holds for each of these, and not only for some.
    pub(super) exact: bool,
    /// Which of the condition's conjuncts says so.
    pub(super) part: u32,
}

/// What describes a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Text(Box<str>),
    Number(i64),
    Glob(Box<str>),
    Network(IpNet),
}

/// How well a place narrows the rules down: fewer is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// How many rules are found there together.
    shared: u32,
    kind: Kind,
}

/// Of places shared by as many rules, the one that fewer requests come to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    LiteralRoute,
    Exact,
    Route,
    Pattern,
}

/// The place of each rule.
pub(super) fn places(matches: &[Match]) -> Vec<Place> {
    let options: Vec<Vec<Values>> = matches.iter().map(values).collect();
    let shared = Shared::count(matches, &options);
    let choose = |(one, options): (&Match, &Vec<Values>)| {
        let values = options.iter().map(|values| (shared.rank(values), values));
        let best = values.min_by_key(|(rank, _)| *rank);
        match (shared.rank_of_routes(&one.routes), best) {
            (Some(routes), Some((rank, _))) if routes <= rank => Place::Routes,
            (_, Some((_, values))) => Place::Values(values.clone()),
            (Some(_), None) => Place::Routes,
            (None, None) => Place::Always,
        }
    };
    matches.iter().zip(&options).map(choose).collect()
}

/// How many rules have something in common.
#[derive(Default)]
struct Shared<'m> {
    routes: HashMap<&'m [Segment], u32>,
    keys: HashMap<(&'m Attribute, &'m Key), u32>,
}

impl<'m> Shared<'m> {
    fn count(matches: &'m [Match], options: &'m [Vec<Values>]) -> Shared<'m> {
        let mut shared = Shared::default();
        for route in matches.iter().flat_map(|one| &one.routes) {
            *shared.routes.entry(route.segments()).or_default() += 1;
        }
        for values in options.iter().flatten() {
            for key in &values.keys {
                *shared.keys.entry((&values.attribute, key)).or_default() += 1;
            }
        }
        shared
    }

    fn rank(&self, values: &Values) -> Rank {
        let count = |key| self.keys.get(&(&values.attribute, key)).copied().unwrap_or(1);
        // A pattern with nothing before or behind its stars is tried on every request.
        let is_anything = |key: &&Key| matches!(key, Key::Glob(glob) if glob.starts_with('*') && glob.ends_with('*'));
        let is_exact = |key: &Key| matches!(key, Key::Text(_) | Key::Number(_));
        let shared = match values.keys.iter().find(is_anything) {
            Some(_) => u32::MAX,
            None => values.keys.iter().map(count).max().unwrap_or(0),
        };
        let kind = if values.keys.iter().all(is_exact) { Kind::Exact } else { Kind::Pattern };
        Rank { shared, kind }
    }

    fn rank_of_routes(&self, routes: &[Route]) -> Option<Rank> {
        let count = |route: &Route| self.routes.get(route.segments()).copied().unwrap_or(1);
        let shared = routes.iter().map(count).max()?;
        let is_literal = |segment: &Segment| matches!(segment, Segment::Literal(_));
        let literal = routes.iter().all(|route| route.segments().iter().all(is_literal));
        Some(Rank { shared, kind: if literal { Kind::LiteralRoute } else { Kind::Route } })
    }
}

/// Of a condition made of more, the first will do.
const MOST_OPTIONS: usize = 8;

/// What a rule's condition says about single attributes.
fn values(one: &Match) -> Vec<Values> {
    let conjuncts = one.when.iter().flat_map(|when| when.conjuncts());
    let numbered = (0..).zip(conjuncts);
    let usable = numbered.filter_map(|(part, node)| Some(Values { part, ..values_of(node)? }));
    usable.take(MOST_OPTIONS).collect()
}

/// What an attribute must be for a condition to hold, if it says that about one.
fn values_of(node: &Node) -> Option<Values> {
    let mut exact = true;
    let (subject, keys) = match node {
        Node::Attribute(_) => (node, vec![Key::Text("true".into())]),
        Node::Equal(true, sides) => match &**sides {
            [subject, Node::Literal(literal)] | [Node::Literal(literal), subject] => {
                let keys = equal_to(literal);
                // The text "7" also equals the number 7, but not the text "007".
                exact = keys.len() == 1;
                (subject, keys)
            }
            _ => return None,
        },
        Node::In(subject, Set::Literal(_, literals)) => {
            (&**subject, literals.iter().flat_map(entry).collect())
        }
        Node::Text(subject, test) => (&**subject, vec![Key::Glob(as_glob(test)?)]),
        Node::Or(any) => return any_of(any),
        _ => return None,
    };
    match subject {
        Node::Attribute(attribute) if !depends_on_route(attribute) => {
            Some(Values { attribute: attribute.clone(), keys, exact, part: 0 })
        }
        _ => None,
    }
}

/// All must be about the same attribute.
fn any_of(nodes: &[Node]) -> Option<Values> {
    let mut all = nodes.iter().map(values_of);
    let mut first = all.next()??;
    for next in all {
        let next = next?;
        if next.attribute != first.attribute {
            return None;
        }
        first.keys.extend(next.keys);
        first.exact &= next.exact;
    }
    Some(first)
}

/// Its value is not known before the rule is.
fn depends_on_route(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Param(_) | Attribute::Endpoint)
}

/// What equals a literal. A text that spells a number also equals that number.
fn equal_to(literal: &Literal) -> Vec<Key> {
    let number = literal.value().number().map(Key::Number);
    match literal {
        Literal::Number(_) => number.into_iter().collect(),
        Literal::Text(text) => [Key::Text(text.clone())].into_iter().chain(number).collect(),
        Literal::Flag(_) => vec![Key::Text((&*literal.value().text()).into())],
    }
}

/// What a list with this entry holds.
fn entry(literal: &Literal) -> Option<Key> {
    match literal {
        Literal::Number(number) => Some(Key::Number(*number)),
        Literal::Flag(_) => Some(Key::Text((&*literal.value().text()).into())),
        // Entries were read before: none is wrong.
        Literal::Text(text) => Some(match Entry::read(text).ok()? {
            Entry::Network(network) => Key::Network(network.trunc()),
            Entry::Glob => Key::Glob(text.clone()),
            Entry::Text => Key::Text(text.clone()),
        }),
    }
}

/// A test of a text as a pattern.
fn as_glob(test: &TextTest) -> Option<Box<str>> {
    let (text, pattern) = match test {
        TextTest::StartsWith(text) => (text, format!("{text}*")),
        TextTest::EndsWith(text) => (text, format!("*{text}")),
        TextTest::Contains(_) | TextTest::Matches(_) => return None,
    };
    // A star in the text is itself, but would not be in a pattern.
    (!text.is_empty() && !text.contains('*')).then(|| pattern.into())
}
