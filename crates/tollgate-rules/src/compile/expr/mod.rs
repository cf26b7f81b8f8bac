//! Expressions of attributes, conditions, keys and costs.
//!
//! The language is CEL. Names, literals, comparisons, `in`, `has`, tests of texts and whole-number
//! arithmetic become a small tree that is walked without allocating (`node.rs`); anything else is
//! run by the `cel` crate's interpreter (`cel/`), which is slower by a factor of a hundred or so.
//! A test on random expressions compares the results of both.
//!
//! # What values mean
//!
//! A header is always text, and a number may come as text or number. Hence a few rules of our own,
//! the same in the tree and in the interpreter (`coercion.rs`):
//!
//! - A text beside a number counts as the number it spells: `header["x-size"] > 100`. A text that
//!   spells none is not equal to any number, and neither smaller nor greater.
//! - A text beside true or false is compared to `"true"` and `"false"`, and as a condition counts
//!   as the one it spells.
//! - Two texts are compared as texts: `"10" < "9"`, and `"007" != "7"`.
//! - `+` joins texts; beside a number it adds. `-`, `*`, `/` and `%` take texts for numbers.
//!   What overflows or divides by zero has no value.
//! - An address is its text, and `in` asks whether it is in a network.
//! - The entries of a list, in the file or in the expression, may be networks, or patterns with `*`
//!   (`lists.rs`).
//! - A missing attribute has no value, and neither has an expression of it. `&&` is false if one side
//!   is, `||` true if one side is, whatever the other; a condition without a value does not hold.
//!   So `plan != "free"` does not hold for a request without a plan: write `!has(plan) || …`.
//!
//! # Bounds
//!
//! A text of at most 1 KiB, 32 levels deep; a comprehension (`all`, `exists`, `map`, `filter`) in
//! no other; patterns for `matches` are literals, compiled when the rules are read, and small; an
//! attribute made of others at most 4096 steps in all; and a bound on all expressions of a file
//! together (`budget.rs`).

mod budget;
mod cel;
mod coercion;
mod locate;
mod lower;
mod names;
mod node;
mod parse;
mod spelling;
mod undeclared;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use budget::Budget;
pub(crate) use node::{ExprNode, Literal, MembershipSet, TextTest};
pub(crate) use spelling::Spelling;
pub(crate) use undeclared::UndeclaredNames;

use crate::Value;
use crate::compile::attribute::Attribute;
use crate::compile::lists::{List, Lists};
use crate::compile::route::Route;
use crate::matching::request_facts::RequestFacts;
use crate::read::fault::Fault;
use crate::read::source::{SourceSpan, Spanned};

/// The names that expressions can use besides built-in ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// The declared attributes; each may use those before it.
    pub(crate) attributes: Vec<(Box<str>, Expr)>,
    /// The groups of names that are declared: `auth` of `auth.*`.
    pub(crate) groups: Vec<Box<str>>,
    pub(crate) undeclared: UndeclaredNames,
    pub(crate) lists: Lists,
    pub(crate) budget: Budget,
    /// Whether descriptors are decided together, so that `descriptors[0]["user"]` has a meaning.
    pub(crate) joins_descriptors: bool,
}

impl Scope {
    /// Whether a name is in a group that the file declares.
    fn declares(&self, name: &str) -> bool {
        self.groups.iter().any(|group| {
            let rest = name.strip_prefix(&**group).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| !rest.is_empty())
        })
    }
}

/// An expression that has a value.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    node: Arc<ExprNode>,
    /// The maximum number of steps, including those of the attributes in it.
    steps: usize,
    /// Whether its value is a secret.
    is_secret: bool,
}

/// The values that an expression is evaluated with.
#[derive(Clone, Copy)]
pub(crate) struct Activation<'f, 'r> {
    pub(crate) facts: &'f RequestFacts<'r>,
    /// The route by which the rule matched.
    pub(crate) route: Option<&'f Route>,
    pub(crate) lists: &'f Lists,
}

impl Expr {
    pub(crate) fn compile(text: &str, scope: &Scope) -> Result<Expr, Fault> {
        lower::value(text, scope)
    }

    /// Returns the expression of an attribute alone.
    pub(crate) fn of_attribute(attribute: Attribute) -> Expr {
        let is_secret = attribute.is_secret();
        Expr { node: Arc::new(ExprNode::Attribute(attribute)), steps: 1, is_secret }
    }

    /// Whether its value is a secret, which keys contain only as a hash.
    #[inline]
    pub(crate) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// Declares that its value is a secret, or that it is none.
    pub(crate) fn with_secrecy(self, is_secret: bool) -> Expr {
        Expr { is_secret, ..self }
    }

    /// Returns the attribute, if the expression is nothing more.
    pub(crate) fn attribute(&self) -> Option<&Attribute> {
        match &*self.node {
            ExprNode::Attribute(attribute) => Some(attribute),
            _ => None,
        }
    }

    /// Returns the value; none if an attribute it needs is missing or of the wrong kind.
    pub(crate) fn value<'f>(&'f self, activation: Activation<'f, '_>) -> Option<Value<'f>> {
        self.node.value(activation)
    }

    /// Returns every attribute it reads.
    pub(crate) fn attributes(&self) -> Vec<&Attribute> {
        let mut attributes = Vec::new();
        self.node.attributes(&mut attributes);
        attributes
    }

    /// Returns the attributes it reads without asking `has()` about them.
    pub(crate) fn required_attributes(&self) -> Vec<&Attribute> {
        node::required_attributes([&*self.node])
    }
}

/// An expression that is true or false.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// The conjuncts, all of which must be true.
    all: Vec<ExprNode>,
}

impl Condition {
    pub(crate) fn compile(text: &str, scope: &Scope) -> Result<Condition, Fault> {
        let all = match lower::condition(text, scope)? {
            ExprNode::And(all) => all,
            one => vec![one],
        };
        Ok(Condition { all })
    }

    /// Compiles `{ plan: free, user: "svc-*" }`: each attribute matches one of its patterns.
    ///
    /// In a pattern `*` is any text; addresses and networks match the addresses in them. Fields
    /// also come one by one while running, so they are charged to no budget, and must be names.
    pub(crate) fn fields(
        fields: &[(Spanned<String>, Vec<Spanned<String>>)],
        scope: &Scope,
    ) -> Result<Condition, (SourceSpan, Fault)> {
        let mut all = Vec::new();
        for (name, patterns) in fields {
            let subject = lower::name(name, scope).map_err(|fault| (name.span, fault))?;
            let list = List::new(patterns.iter().map(|pattern| pattern.as_str()))
                .map_err(|(index, fault)| (patterns[index].span, fault))?;
            let texts = patterns.iter().map(|pattern| pattern.as_str().into()).collect();
            all.push(ExprNode::In(Box::new(subject), MembershipSet::literal(list, texts)));
        }
        Ok(Condition { all })
    }

    pub(crate) fn holds(&self, activation: Activation<'_, '_>) -> bool {
        self.holds_but_for(None, activation)
    }

    /// Whether it holds, if the conjunct `known` is known to be true.
    pub(crate) fn holds_but_for(&self, known: Option<u32>, activation: Activation<'_, '_>) -> bool {
        let mut all = (0..).zip(&self.all);
        all.all(|(number, one)| known == Some(number) || one.truth(activation) == Some(true))
    }

    /// Whether it is true; none if it has no value.
    pub(crate) fn truth(&self, activation: Activation<'_, '_>) -> Option<bool> {
        node::decided(&self.all, activation, false)
    }

    /// Returns every attribute it reads.
    pub(crate) fn attributes(&self) -> Vec<&Attribute> {
        let mut attributes = Vec::new();
        self.all.iter().for_each(|node| node.attributes(&mut attributes));
        attributes
    }

    /// Returns the attributes it reads without asking `has()` about them.
    pub(crate) fn required_attributes(&self) -> Vec<&Attribute> {
        node::required_attributes(&self.all)
    }

    /// Returns the conjuncts, all of which must be true.
    pub(crate) fn conjuncts(&self) -> &[ExprNode] {
        &self.all
    }
}
