//! Expressions for the interpreter: functions, comprehensions, fractions, computed lists.
//!
//! Before it gets to the interpreter, a tree is rewritten so that both ways of evaluation agree:
//! names become variables, whose values are looked up first, and operators become functions that
//! compare and combine as in `coercion.rs`.

mod container;
mod functions;
mod rewrite;

use std::borrow::Cow;
use std::sync::Arc;

use cel::common::ast::IdedExpr;
use cel::common::types::{CelBool, CelInt, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use regex::Regex;
use smallvec::SmallVec;

use super::Activation;
use super::lower::Lowering;
use super::node::{ExprNode, MembershipSet};
use crate::Value;
use crate::compile::lists::List;
use crate::read::fault::Fault;
use container::CelContainer;

/// An expression for the interpreter.
#[derive(Clone, Debug)]
pub(crate) struct CelExpr {
    tree: Arc<IdedExpr>,
    variables: Vec<CelVariable>,
}

/// The definition of a variable `@0`, `@1`, …
#[derive(Clone, Debug)]
enum CelVariable {
    Value(ExprNode),
    Set(MembershipSet),
    Pattern(Arc<Regex>),
}

/// The variables of one evaluation.
///
/// The interpreter needs values that threads can share, which [`RequestFacts`] are not, so values are
/// looked up before and not on demand.
struct CelBindings<'f>(SmallVec<[Option<CelBinding<'f>>; 4]>);

/// The value of a variable.
enum CelBinding<'f> {
    Value(Value<'f>),
    List(&'f List),
    Pattern(&'f Regex),
}

impl CelExpr {
    pub(super) fn new(tree: &IdedExpr, lowering: &Lowering<'_>) -> Result<CelExpr, Fault> {
        let (tree, variables) = rewrite::rewrite(tree, lowering)?;
        Ok(CelExpr { tree: Arc::new(tree), variables })
    }

    /// Returns the value; none if there is none, or it is no [`Value`].
    pub(super) fn value(&self, activation: Activation<'_, '_>) -> Option<Value<'static>> {
        let filled = CelBindings(
            self.variables.iter().map(|variable| variable.content(activation)).collect(),
        );
        let mut context = functions::context().new_inner_scope();
        context.set_variable_resolver(&filled);
        let result = cel::Value::resolve(&self.tree, &context).ok()?;
        functions::scalar(&result)
    }

    /// Iterates over the nodes whose values are its variables.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &ExprNode> {
        self.variables.iter().filter_map(|variable| match variable {
            CelVariable::Value(node) => Some(node),
            CelVariable::Set(_) | CelVariable::Pattern(_) => None,
        })
    }
}

impl CelVariable {
    fn content<'f>(&'f self, activation: Activation<'f, '_>) -> Option<CelBinding<'f>> {
        match self {
            CelVariable::Value(node) => node.value(activation).map(CelBinding::Value),
            CelVariable::Set(MembershipSet::Named(id)) => {
                activation.lists.get(*id).map(CelBinding::List)
            }
            CelVariable::Set(MembershipSet::Literal(list, _)) => Some(CelBinding::List(list)),
            CelVariable::Pattern(regex) => Some(CelBinding::Pattern(regex)),
        }
    }
}

impl VariableResolver for CelBindings<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let index: usize = variable.strip_prefix('@')?.parse().ok()?;
        Some(match self.0.get(index)?.as_ref()? {
            CelBinding::Value(Value::Text(text)) => CowVal::owned(CelString::from(&**text)),
            CelBinding::Value(Value::Number(number)) => CowVal::owned(CelInt::from(*number)),
            CelBinding::Value(Value::Flag(flag)) => CowVal::owned(CelBool::from(*flag)),
            CelBinding::Value(Value::Ip(address)) => {
                CowVal::owned(CelString::from(address.to_string()))
            }
            CelBinding::List(list) => CowVal::owned(CelContainer::List(list)),
            CelBinding::Pattern(regex) => CowVal::owned(CelContainer::Pattern(regex)),
        })
    }
}

/// Converts a text of the interpreter.
fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}
