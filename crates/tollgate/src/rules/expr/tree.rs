//! The expressions that need no interpreter, and how they are evaluated.

use std::cmp::Ordering;
use std::sync::Arc;

use regex::Regex;

use super::super::Value;
use super::super::attribute::Attribute;
use super::super::lists::{List, ListId};
use super::cel::Island;
use super::loose::{self, Arithmetic};
use super::{On, Spelling};

/// An expression, or a part of one.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Literal(Literal),
    Attribute(Attribute),
    /// A named attribute that is more than another's name.
    Shared(Arc<Node>),
    Has(Box<Node>),
    /// Whether two values are equal, or, if `false`, are not.
    Equal(bool, Box<[Node; 2]>),
    Order(Comparison, Box<[Node; 2]>),
    In(Box<Node>, Set),
    Text(Box<Node>, TextTest),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    If(Box<[Node; 3]>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Negate(Box<Node>),
    /// What only the interpreter can do.
    Cel(Box<Island>),
}

/// A value that is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Text(Box<str>),
    Number(i64),
    Flag(bool),
}

/// Which order of two values is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What a value may be in.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    /// A list of the file.
    Named(ListId),
    /// A list in the expression, and what was written there.
    Literal(List, Arc<[Literal]>),
}

/// What is asked of a text.
#[derive(Clone, Debug)]
pub(crate) enum TextTest {
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
    Matches(Arc<Regex>),
}

impl Node {
    /// A node that stands for another, without copying what is large.
    pub(crate) fn shared(node: &Arc<Node>) -> Node {
        match &**node {
            Node::Attribute(attribute) => Node::Attribute(attribute.clone()),
            Node::Literal(literal) => Node::Literal(literal.clone()),
            _ => Node::Shared(node.clone()),
        }
    }

    pub(crate) fn value<'f>(&'f self, on: On<'f, '_>) -> Option<Value<'f>> {
        match self {
            Node::Literal(literal) => Some(literal.value()),
            Node::Attribute(attribute) => on.facts.get(attribute, on.route),
            Node::Shared(node) => node.value(on),
            Node::If(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.truth(on)? { yes.value(on) } else { no.value(on) }
            }
            Node::Arithmetic(operator, sides) => {
                loose::arithmetic(*operator, &sides[0].value(on)?, &sides[1].value(on)?)
            }
            Node::Negate(node) => loose::negated(&node.value(on)?),
            Node::Cel(island) => island.value(on),
            _ => self.truth(on).map(Value::Flag),
        }
    }

    /// Whether it is true; none if that cannot be said.
    pub(crate) fn truth(&self, on: On<'_, '_>) -> Option<bool> {
        match self {
            Node::Has(node) => Some(node.value(on).is_some()),
            Node::Equal(expected, sides) => {
                let (left, right) = (sides[0].value(on)?, sides[1].value(on)?);
                Some(loose::equal(&left, &right) == *expected)
            }
            Node::Order(comparison, sides) => {
                let (left, right) = (sides[0].value(on)?, sides[1].value(on)?);
                loose::order(&left, &right).map(|order| comparison.is_true(order))
            }
            Node::In(node, set) => {
                let value = node.value(on)?;
                Some(match set {
                    Set::Named(id) => on.lists.contains(*id, &value),
                    Set::Literal(list, _) => list.contains(&value),
                })
            }
            Node::Text(node, test) => Some(test.is_true(&Spelling::of(&node.value(on)?))),
            Node::Not(node) => node.truth(on).map(|truth| !truth),
            Node::And(all) => decided(all, on, false),
            Node::Or(any) => decided(any, on, true),
            Node::If(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.truth(on)? { yes.truth(on) } else { no.truth(on) }
            }
            Node::Shared(node) => node.truth(on),
            _ => loose::truth(&self.value(on)?),
        }
    }

    /// Adds every attribute it looks at.
    pub(crate) fn attributes<'n>(&'n self, all: &mut Vec<&'n Attribute>) {
        match self {
            Node::Literal(_) => {}
            Node::Attribute(attribute) => all.push(attribute),
            Node::Shared(node) => node.attributes(all),
            Node::Has(node)
            | Node::In(node, _)
            | Node::Text(node, _)
            | Node::Not(node)
            | Node::Negate(node) => node.attributes(all),
            Node::Equal(_, sides) | Node::Order(_, sides) | Node::Arithmetic(_, sides) => {
                sides.iter().for_each(|side| side.attributes(all));
            }
            Node::And(nodes) | Node::Or(nodes) => {
                nodes.iter().for_each(|node| node.attributes(all));
            }
            Node::If(parts) => parts.iter().for_each(|part| part.attributes(all)),
            Node::Cel(island) => island.attributes(all),
        }
    }
}

/// `decisive` if one of the nodes is; the opposite if all are; none otherwise.
pub(super) fn decided(nodes: &[Node], on: On<'_, '_>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for node in nodes {
        match node.truth(on) {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl Literal {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Literal::Text(text) => Value::from(&**text),
            Literal::Number(number) => Value::Number(*number),
            Literal::Flag(flag) => Value::Flag(*flag),
        }
    }
}

impl From<&str> for Literal {
    fn from(text: &str) -> Literal {
        Literal::Text(text.into())
    }
}

impl Set {
    pub(crate) fn literal(list: List, literals: Vec<Literal>) -> Set {
        Set::Literal(list, literals.into())
    }
}

impl Comparison {
    fn is_true(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl TextTest {
    fn is_true(&self, text: &str) -> bool {
        match self {
            TextTest::StartsWith(prefix) => text.starts_with(&**prefix),
            TextTest::EndsWith(suffix) => text.ends_with(&**suffix),
            TextTest::Contains(part) => text.contains(&**part),
            TextTest::Matches(regex) => regex.is_match(text),
        }
    }
}
