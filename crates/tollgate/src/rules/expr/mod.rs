//! Expressions: what attributes, conditions, keys and costs are written in.
//!
//! The language is CEL. Names, literals, comparisons, `in`, `has`, tests of texts and whole-number
//! arithmetic become a small tree that is walked without allocating (`tree.rs`); anything else is
//! run by the `cel` crate's interpreter (`cel/`), which is slower by a factor of a hundred or so.
//! Both are held to the same results by a test that compares them on random expressions.
//!
//! # What values mean
//!
//! Attributes come from many places: a header is always text, a number may come as either.
//! Hence a few rules of our own, the same in the tree and in the interpreter (`loose.rs`):
//!
//! - A text beside a number counts as the number it spells: `header["x-size"] > 100`. A text that
//!   spells none is not equal to any number, and neither smaller nor greater.
//! - A text beside true or false is compared to `"true"` and `"false"`, and where a condition is
//!   asked for, counts as the one it spells.
//! - Two texts are compared as texts: `"10" < "9"`, and `"007" != "7"`.
//! - `+` joins texts; beside a number it adds. `-`, `*`, `/` and `%` take texts for numbers.
//!   What overflows or divides by zero has no value.
//! - An address is its text, and `in` asks whether it is in a network.
//! - `in` with a list in the file or in the expression: an entry may be a network, or a pattern
//!   with `*` (`lists.rs`).
//! - What is missing has no value, and neither has what is made of it. `&&` is false if one side
//!   is, `||` true if one side is, whatever the other; a condition without a value does not hold.
//!   So `plan != "free"` does not hold for a request without a plan: say `!has(plan) || …`.
//!
//! # Bounds
//!
//! A text of at most 1 KiB, 32 levels deep; a comprehension (`all`, `exists`, `map`, `filter`) in
//! no other; patterns for `matches` are literals, compiled when the rules are read, and small; an
//! attribute made of others at most 4096 steps in all; and a bound on all expressions of a file
//! together (`budget.rs`).

mod budget;
mod cel;
mod locate;
mod loose;
mod lower;
mod names;
mod parse;
mod spelling;
mod tree;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use budget::Budget;
pub(crate) use spelling::Spelling;
pub(crate) use tree::{Literal, Node, Set, TextTest};

use super::Value;
use super::attribute::Attribute;
use super::facts::Facts;
use super::fault::Fault;
use super::lists::{List, Lists};
use super::route::Route;
use super::source::{At, Place};

/// The names expressions can use beside built-in ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Each may use those before it.
    pub(crate) attributes: Vec<(Box<str>, Expr)>,
    pub(crate) lists: Lists,
    pub(crate) budget: Budget,
}

/// An expression that has a value.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    node: Arc<Node>,
    /// How many steps it takes at most, those of attributes it is made of included.
    steps: usize,
}

/// What an expression is evaluated on.
#[derive(Clone, Copy)]
pub(crate) struct On<'f, 'r> {
    pub(crate) facts: &'f Facts<'r>,
    /// The route by which the rule matched.
    pub(crate) route: Option<&'f Route>,
    pub(crate) lists: &'f Lists,
}

impl Expr {
    pub(crate) fn compile(text: &str, scope: &Scope) -> Result<Expr, Fault> {
        lower::value(text, scope)
    }

    /// The attribute it is, if it is nothing more.
    pub(crate) fn attribute(&self) -> Option<&Attribute> {
        match &*self.node {
            Node::Attribute(attribute) => Some(attribute),
            _ => None,
        }
    }

    /// Its value; none if an attribute it needs is missing or of the wrong kind.
    pub(crate) fn value<'f>(&'f self, on: On<'f, '_>) -> Option<Value<'f>> {
        self.node.value(on)
    }

    /// Every attribute it looks at.
    pub(crate) fn attributes(&self) -> Vec<&Attribute> {
        let mut attributes = Vec::new();
        self.node.attributes(&mut attributes);
        attributes
    }
}

/// An expression that is true or false.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// All must be true.
    all: Vec<Node>,
}

impl Condition {
    pub(crate) fn compile(text: &str, scope: &Scope) -> Result<Condition, Fault> {
        let all = match lower::condition(text, scope)? {
            Node::And(all) => all,
            one => vec![one],
        };
        Ok(Condition { all })
    }

    /// `{ plan: free, user: "svc-*" }`: each attribute matches one of its patterns, in which `*`
    /// stands for any text. Addresses and networks match the addresses in them. Fields also come
    /// one by one while running, so they are charged to no budget, and must be names.
    pub(crate) fn fields(
        fields: &[(At<String>, Vec<At<String>>)],
        scope: &Scope,
    ) -> Result<Condition, (Place, Fault)> {
        let mut all = Vec::new();
        for (name, patterns) in fields {
            let subject = lower::name(name, scope).map_err(|fault| (name.place, fault))?;
            let list = List::new(patterns.iter().map(|pattern| pattern.as_str()))
                .map_err(|(index, fault)| (patterns[index].place, fault))?;
            let texts = patterns.iter().map(|pattern| pattern.as_str().into()).collect();
            all.push(Node::In(Box::new(subject), Set::literal(list, texts)));
        }
        Ok(Condition { all })
    }

    pub(crate) fn holds(&self, on: On<'_, '_>) -> bool {
        self.holds_but_for(None, on)
    }

    /// The same, where one of [`Condition::conjuncts`] is known to be true.
    pub(crate) fn holds_but_for(&self, known: Option<u32>, on: On<'_, '_>) -> bool {
        let mut all = (0..).zip(&self.all);
        all.all(|(number, one)| known == Some(number) || one.truth(on) == Some(true))
    }

    /// Whether it is true; none if that cannot be said.
    pub(crate) fn truth(&self, on: On<'_, '_>) -> Option<bool> {
        tree::decided(&self.all, on, false)
    }

    /// Every attribute it looks at.
    pub(crate) fn attributes(&self) -> Vec<&Attribute> {
        let mut attributes = Vec::new();
        self.all.iter().for_each(|node| node.attributes(&mut attributes));
        attributes
    }

    /// What must be true, all of it.
    pub(crate) fn conjuncts(&self) -> &[Node] {
        &self.all
    }
}
