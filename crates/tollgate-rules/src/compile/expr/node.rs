//! The tree of an expression, and its evaluation without the interpreter.

use std::cmp::Ordering;
use std::sync::Arc;

use regex::Regex;

use super::cel::CelExpr;
use super::coercion::{self, Arithmetic};
use super::{Activation, Spelling};
use crate::Value;
use crate::compile::attribute::Attribute;
use crate::compile::lists::{List, ListId};

/// An expression, or a part of one.
#[derive(Clone, Debug)]
pub(crate) enum ExprNode {
    Literal(Literal),
    Attribute(Attribute),
    /// A declared attribute that is an expression.
    Shared(Arc<ExprNode>),
    Has(Box<ExprNode>),
    /// Whether two values are equal, or, if `false`, are not.
    Equal(bool, Box<[ExprNode; 2]>),
    Order(Comparison, Box<[ExprNode; 2]>),
    In(Box<ExprNode>, MembershipSet),
    Text(Box<ExprNode>, TextTest),
    Not(Box<ExprNode>),
    And(Vec<ExprNode>),
    Or(Vec<ExprNode>),
    If(Box<[ExprNode; 3]>),
    Arithmetic(Arithmetic, Box<[ExprNode; 2]>),
    Negate(Box<ExprNode>),
    /// A part that only the interpreter can evaluate.
    Cel(Box<CelExpr>),
}

/// A literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Text(Box<str>),
    Number(i64),
    Flag(bool),
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The right side of `in`.
#[derive(Clone, Debug)]
pub(crate) enum MembershipSet {
    /// A list of the file.
    Named(ListId),
    /// A list in the expression, and its literals.
    Literal(List, Arc<[Literal]>),
}

/// A test of a text.
#[derive(Clone, Debug)]
pub(crate) enum TextTest {
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
    Matches(Arc<Regex>),
}

impl ExprNode {
    /// Creates a node that refers to another, without copying large ones.
    pub(crate) fn shared(node: &Arc<ExprNode>) -> ExprNode {
        match &**node {
            ExprNode::Attribute(attribute) => ExprNode::Attribute(attribute.clone()),
            ExprNode::Literal(literal) => ExprNode::Literal(literal.clone()),
            _ => ExprNode::Shared(node.clone()),
        }
    }

    pub(crate) fn value<'f>(&'f self, activation: Activation<'f, '_>) -> Option<Value<'f>> {
        match self {
            ExprNode::Literal(literal) => Some(literal.value()),
            ExprNode::Attribute(attribute) => activation.facts.get(attribute, activation.route),
            ExprNode::Shared(node) => node.value(activation),
            ExprNode::If(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.truth(activation)? {
                    yes.value(activation)
                } else {
                    no.value(activation)
                }
            }
            ExprNode::Arithmetic(operator, sides) => coercion::arithmetic(
                *operator,
                &sides[0].value(activation)?,
                &sides[1].value(activation)?,
            ),
            ExprNode::Negate(node) => coercion::negated(&node.value(activation)?),
            ExprNode::Cel(island) => island.value(activation),
            _ => self.truth(activation).map(Value::Flag),
        }
    }

    /// Whether it is true; none if it has no value.
    pub(crate) fn truth(&self, activation: Activation<'_, '_>) -> Option<bool> {
        match self {
            ExprNode::Has(node) => Some(node.value(activation).is_some()),
            ExprNode::Equal(expected, sides) => {
                let (left, right) = (sides[0].value(activation)?, sides[1].value(activation)?);
                Some(coercion::equal(&left, &right) == *expected)
            }
            ExprNode::Order(comparison, sides) => {
                let (left, right) = (sides[0].value(activation)?, sides[1].value(activation)?);
                coercion::order(&left, &right).map(|order| comparison.is_true(order))
            }
            ExprNode::In(node, set) => {
                let value = node.value(activation)?;
                Some(match set {
                    MembershipSet::Named(id) => activation.lists.contains(*id, &value),
                    MembershipSet::Literal(list, _) => list.contains(&value),
                })
            }
            ExprNode::Text(node, test) => {
                Some(test.is_true(&Spelling::from_value(&node.value(activation)?)))
            }
            ExprNode::Not(node) => node.truth(activation).map(|truth| !truth),
            ExprNode::And(all) => decided(all, activation, false),
            ExprNode::Or(any) => decided(any, activation, true),
            ExprNode::If(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.truth(activation)? {
                    yes.truth(activation)
                } else {
                    no.truth(activation)
                }
            }
            ExprNode::Shared(node) => node.truth(activation),
            _ => coercion::truth(&self.value(activation)?),
        }
    }

    /// Adds every attribute it reads.
    pub(crate) fn attributes<'n>(&'n self, all: &mut Vec<&'n Attribute>) {
        match self {
            ExprNode::Attribute(attribute) => all.push(attribute),
            _ => self.each_child(&mut |node| node.attributes(all)),
        }
    }

    /// Adds every attribute that it asks `has()` about.
    fn tested_attributes<'n>(&'n self, all: &mut Vec<&'n Attribute>) {
        match self {
            ExprNode::Has(node) => node.attributes(all),
            _ => self.each_child(&mut |node| node.tested_attributes(all)),
        }
    }

    /// Calls `visit` with the nodes that it is made of.
    pub(super) fn each_child<'n>(&'n self, visit: &mut impl FnMut(&'n ExprNode)) {
        match self {
            ExprNode::Literal(_) | ExprNode::Attribute(_) => {}
            ExprNode::Shared(node) => visit(node),
            ExprNode::Has(node)
            | ExprNode::In(node, _)
            | ExprNode::Text(node, _)
            | ExprNode::Not(node)
            | ExprNode::Negate(node) => visit(node),
            ExprNode::Equal(_, sides)
            | ExprNode::Order(_, sides)
            | ExprNode::Arithmetic(_, sides) => sides.iter().for_each(visit),
            ExprNode::And(nodes) | ExprNode::Or(nodes) => nodes.iter().for_each(visit),
            ExprNode::If(parts) => parts.iter().for_each(visit),
            ExprNode::Cel(island) => island.nodes().for_each(visit),
        }
    }
}

/// Returns the attributes that nodes read without asking `has()` about them.
pub(super) fn required_attributes<'n>(
    nodes: impl IntoIterator<Item = &'n ExprNode>,
) -> Vec<&'n Attribute> {
    let (mut read, mut tested) = (Vec::new(), Vec::new());
    for node in nodes {
        node.attributes(&mut read);
        node.tested_attributes(&mut tested);
    }
    read.retain(|attribute| !tested.contains(attribute));
    read
}

/// Returns `decisive` if one of the nodes is, the opposite if all are the opposite, and none otherwise.
pub(super) fn decided(
    nodes: &[ExprNode],
    activation: Activation<'_, '_>,
    decisive: bool,
) -> Option<bool> {
    let mut result = Some(!decisive);
    for node in nodes {
        match node.truth(activation) {
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

impl MembershipSet {
    pub(crate) fn literal(list: List, literals: Vec<Literal>) -> MembershipSet {
        MembershipSet::Literal(list, literals.into())
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
