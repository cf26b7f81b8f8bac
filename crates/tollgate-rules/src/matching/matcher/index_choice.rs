//! Chooses the index of a rule: the part of its condition that the fewest other rules share.

use foldhash::HashMap;
use ipnet::IpNet;

use super::MatchCriteria;
use crate::compile::attribute::Attribute;
use crate::compile::expr::{ExprNode, Literal, MembershipSet, TextTest};
use crate::compile::lists::ListEntry;
use crate::compile::route::{Route, RouteSegment};

/// The index that holds a rule.
#[derive(Debug)]
pub(super) enum IndexChoice {
    Always,
    Routes,
    Values(AttributeValues),
}

/// An attribute, and the values of which it must have one for a condition to hold.
#[derive(Clone, Debug)]
pub(super) struct AttributeValues {
    pub(super) attribute: Attribute,
    pub(super) keys: Vec<ValueKey>,
    /// Whether the condition holds for each of these, and not only for some.
    pub(super) exact: bool,
    /// The number of the conjunct.
    pub(super) part: u32,
}

/// A key of the attribute index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ValueKey {
    Text(Box<str>),
    Number(i64),
    Glob(Box<str>),
    Network(IpNet),
}

/// The rank of an index by the number of rules it leaves to check: less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IndexRank {
    /// The number of rules under the same key.
    shared: u32,
    kind: Selectivity,
}

/// The kind of a key, in the order of how few requests it matches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Selectivity {
    LiteralRoute,
    Exact,
    Route,
    Pattern,
}

/// Chooses the index of each rule.
pub(super) fn choose(matches: &[MatchCriteria]) -> Vec<IndexChoice> {
    let options: Vec<Vec<AttributeValues>> = matches.iter().map(values).collect();
    let shared = SharingCounts::count(matches, &options);
    let choose = |(one, options): (&MatchCriteria, &Vec<AttributeValues>)| {
        let values = options.iter().map(|values| (shared.rank(values), values));
        let best = values.min_by_key(|(rank, _)| *rank);
        match (shared.rank_of_routes(&one.routes), best) {
            (Some(routes), Some((rank, _))) if routes <= rank => IndexChoice::Routes,
            (_, Some((_, values))) => IndexChoice::Values(values.clone()),
            (Some(_), None) => IndexChoice::Routes,
            (None, None) => IndexChoice::Always,
        }
    };
    matches.iter().zip(&options).map(choose).collect()
}

/// The number of rules that share a route or a key.
#[derive(Default)]
struct SharingCounts<'m> {
    routes: HashMap<&'m [RouteSegment], u32>,
    keys: HashMap<(&'m Attribute, &'m ValueKey), u32>,
}

impl<'m> SharingCounts<'m> {
    fn count(
        matches: &'m [MatchCriteria],
        options: &'m [Vec<AttributeValues>],
    ) -> SharingCounts<'m> {
        let mut shared = SharingCounts::default();
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

    fn rank(&self, values: &AttributeValues) -> IndexRank {
        let count = |key| self.keys.get(&(&values.attribute, key)).copied().unwrap_or(1);
        // A pattern with nothing before or behind its stars is tried on every request.
        let is_anything = |key: &&ValueKey| matches!(key, ValueKey::Glob(glob) if glob.starts_with('*') && glob.ends_with('*'));
        let is_exact = |key: &ValueKey| matches!(key, ValueKey::Text(_) | ValueKey::Number(_));
        let shared = match values.keys.iter().find(is_anything) {
            Some(_) => u32::MAX,
            None => values.keys.iter().map(count).max().unwrap_or(0),
        };
        let kind = if values.keys.iter().all(is_exact) {
            Selectivity::Exact
        } else {
            Selectivity::Pattern
        };
        IndexRank { shared, kind }
    }

    fn rank_of_routes(&self, routes: &[Route]) -> Option<IndexRank> {
        let count = |route: &Route| self.routes.get(route.segments()).copied().unwrap_or(1);
        let shared = routes.iter().map(count).max()?;
        let is_literal = |segment: &RouteSegment| matches!(segment, RouteSegment::Literal(_));
        let literal = routes.iter().all(|route| route.segments().iter().all(is_literal));
        Some(IndexRank {
            shared,
            kind: if literal { Selectivity::LiteralRoute } else { Selectivity::Route },
        })
    }
}

/// The maximum number of conjuncts that are considered.
const MOST_OPTIONS: usize = 8;

/// Returns the conjuncts of a rule's condition that an index can use.
fn values(one: &MatchCriteria) -> Vec<AttributeValues> {
    let conjuncts = one.when.iter().flat_map(|when| when.conjuncts());
    let numbered = (0..).zip(conjuncts);
    let usable =
        numbered.filter_map(|(part, node)| Some(AttributeValues { part, ..values_of(node)? }));
    usable.take(MOST_OPTIONS).collect()
}

/// Returns the values that an attribute must have for a condition to hold, if it is about one.
fn values_of(node: &ExprNode) -> Option<AttributeValues> {
    let mut exact = true;
    let (subject, keys) = match node {
        ExprNode::Attribute(_) => (node, vec![ValueKey::Text("true".into())]),
        ExprNode::Equal(true, sides) => match &**sides {
            [subject, ExprNode::Literal(literal)] | [ExprNode::Literal(literal), subject] => {
                let keys = equal_to(literal);
                // The text "7" also equals the number 7, but not the text "007".
                exact = keys.len() == 1;
                (subject, keys)
            }
            _ => return None,
        },
        ExprNode::In(subject, MembershipSet::Literal(_, literals)) => {
            (&**subject, literals.iter().flat_map(entry).collect())
        }
        ExprNode::Text(subject, test) => (&**subject, vec![ValueKey::Glob(as_glob(test)?)]),
        ExprNode::Or(any) => return any_of(any),
        _ => return None,
    };
    match subject {
        ExprNode::Attribute(attribute) if !depends_on_route(attribute) => {
            Some(AttributeValues { attribute: attribute.clone(), keys, exact, part: 0 })
        }
        _ => None,
    }
}

/// Joins alternatives, all of which must be about the same attribute.
fn any_of(nodes: &[ExprNode]) -> Option<AttributeValues> {
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

/// Whether the value of an attribute depends on the route of the rule.
fn depends_on_route(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Param(_) | Attribute::Endpoint)
}

/// Returns the keys equal to a literal. A text that spells a number also equals that number.
fn equal_to(literal: &Literal) -> Vec<ValueKey> {
    let number = literal.value().number().map(ValueKey::Number);
    match literal {
        Literal::Number(_) => number.into_iter().collect(),
        Literal::Text(text) => [ValueKey::Text(text.clone())].into_iter().chain(number).collect(),
        Literal::Flag(_) => vec![ValueKey::Text((&*literal.value().text()).into())],
    }
}

/// Returns the key of an entry of a list.
fn entry(literal: &Literal) -> Option<ValueKey> {
    match literal {
        Literal::Number(number) => Some(ValueKey::Number(*number)),
        Literal::Flag(_) => Some(ValueKey::Text((&*literal.value().text()).into())),
        // The entries are valid, since they were read before.
        Literal::Text(text) => Some(match ListEntry::read(text).ok()? {
            ListEntry::Network(network) => ValueKey::Network(network.trunc()),
            ListEntry::Glob => ValueKey::Glob(text.clone()),
            ListEntry::Text => ValueKey::Text(text.clone()),
        }),
    }
}

/// Converts a test of a text to a pattern.
fn as_glob(test: &TextTest) -> Option<Box<str>> {
    let (text, pattern) = match test {
        TextTest::StartsWith(text) => (text, format!("{text}*")),
        TextTest::EndsWith(text) => (text, format!("*{text}")),
        TextTest::Contains(_) | TextTest::Matches(_) => return None,
    };
    // A star in the text is literal, but would not be in a pattern.
    (!text.is_empty() && !text.contains('*')).then(|| pattern.into())
}
