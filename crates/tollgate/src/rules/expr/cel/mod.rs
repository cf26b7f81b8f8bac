//! What only the interpreter can do: functions, comprehensions, fractions, lists made on the way.
//!
//! Before it gets to the interpreter, a tree is rewritten so that both ways of evaluation agree:
//! names become slots, whose values are looked up first, and operators become functions that
//! compare and combine as `loose.rs` says.

mod functions;
mod matching;
mod rewrite;

use std::borrow::Cow;
use std::sync::Arc;

use cel::common::ast::IdedExpr;
use cel::common::types::{CelBool, CelInt, CelString};
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use regex::Regex;
use smallvec::SmallVec;

use super::super::Value;
use super::super::attribute::Attribute;
use super::super::fault::Fault;
use super::super::lists::List;
use super::On;
use super::lower::Lowering;
use super::tree::{Node, Set};
use matching::Matching;

/// An expression for the interpreter.
#[derive(Clone, Debug)]
pub(crate) struct Island {
    tree: Arc<IdedExpr>,
    slots: Vec<Slot>,
}

/// What stands for the variable `@0`, `@1`, …
#[derive(Clone, Debug)]
enum Slot {
    Value(Node),
    Set(Set),
    Pattern(Arc<Regex>),
}

/// The slots of one evaluation. The interpreter asks for what can be shared between threads, and
/// what is known about a request cannot: so values are looked up before and not when asked for.
struct Filled<'f>(SmallVec<[Option<Content<'f>>; 4]>);

enum Content<'f> {
    Value(Value<'f>),
    List(&'f List),
    Pattern(&'f Regex),
}

impl Island {
    pub(super) fn new(tree: &IdedExpr, lowering: &Lowering<'_>) -> Result<Island, Fault> {
        let (tree, slots) = rewrite::rewrite(tree, lowering)?;
        Ok(Island { tree: Arc::new(tree), slots })
    }

    /// Its value; none if there is none, or one our values cannot hold.
    pub(super) fn value(&self, on: On<'_, '_>) -> Option<Value<'static>> {
        let filled = Filled(self.slots.iter().map(|slot| slot.content(on)).collect());
        let mut context = functions::context().new_inner_scope();
        context.set_variable_resolver(&filled);
        let result = cel::Value::resolve(&self.tree, &context).ok()?;
        functions::scalar(&result)
    }

    pub(super) fn attributes<'n>(&'n self, all: &mut Vec<&'n Attribute>) {
        for slot in &self.slots {
            if let Slot::Value(node) = slot {
                node.attributes(all);
            }
        }
    }
}

impl Slot {
    fn content<'f>(&'f self, on: On<'f, '_>) -> Option<Content<'f>> {
        match self {
            Slot::Value(node) => node.value(on).map(Content::Value),
            Slot::Set(Set::Named(id)) => on.lists.get(*id).map(Content::List),
            Slot::Set(Set::Literal(list, _)) => Some(Content::List(list)),
            Slot::Pattern(regex) => Some(Content::Pattern(regex)),
        }
    }
}

impl VariableResolver for Filled<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let index: usize = variable.strip_prefix('@')?.parse().ok()?;
        Some(match self.0.get(index)?.as_ref()? {
            Content::Value(Value::Text(text)) => CowVal::owned(CelString::from(&**text)),
            Content::Value(Value::Number(number)) => CowVal::owned(CelInt::from(*number)),
            Content::Value(Value::Flag(flag)) => CowVal::owned(CelBool::from(*flag)),
            Content::Value(Value::Ip(address)) => {
                CowVal::owned(CelString::from(address.to_string()))
            }
            Content::List(list) => CowVal::owned(Matching::List(list)),
            Content::Pattern(regex) => CowVal::owned(Matching::Pattern(regex)),
        })
    }
}

/// A text of the interpreter's as ours.
fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}
