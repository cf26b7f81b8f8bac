//! The functions of the interpreter: CEL's own, and those that operators are rewritten to.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use cel::extractors::Arguments;
use cel::{Context, Env, ExecutionError, Value as CelValue, extensions};

use super::super::coercion::{self, Arithmetic};
use crate::Value;

/// Functions and methods an expression may call, as they are written.
///
/// Not among them: `replace` and `format`, which can make a short text very long.
pub(super) const KNOWN: [&str; 21] = [
    "bool",
    "charAt",
    "contains",
    "double",
    "endsWith",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "max",
    "min",
    "reverse",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "trim",
    "upperAscii",
];

/// Macros: the parser has expanded them unless they were called with the wrong arguments.
pub(super) const MACROS: [&str; 6] = ["all", "exists", "exists_one", "filter", "has", "map"];

pub(super) const EQUAL: &str = "@equal";
pub(super) const UNEQUAL: &str = "@unequal";
pub(super) const LESS: &str = "@less";
pub(super) const LESS_OR_EQUAL: &str = "@less_or_equal";
pub(super) const GREATER: &str = "@greater";
pub(super) const GREATER_OR_EQUAL: &str = "@greater_or_equal";
pub(super) const ADD: &str = "@add";
pub(super) const SUBTRACT: &str = "@subtract";
pub(super) const MULTIPLY: &str = "@multiply";
pub(super) const DIVIDE: &str = "@divide";
pub(super) const REMAINDER: &str = "@remainder";
pub(super) const NEGATE: &str = "@negate";
/// `x in [a, b]` where not all of the list is literal.
pub(super) const MEMBER: &str = "@member";
/// Converts a value to true or false.
pub(super) const TRUTH: &str = "@truth";
/// Converts a value to a text.
pub(super) const TEXT: &str = "@text";

/// Converts a value of the interpreter, if a [`Value`] can represent it.
///
/// A fraction is rounded up: it is mostly a cost, and no cost should be less than calculated.
pub(super) fn scalar(value: &CelValue) -> Option<Value<'static>> {
    match value {
        CelValue::Float(fraction) => {
            let whole = fraction.ceil();
            // Exactly the floats that are whole numbers of 64 bits.
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole);
            fits.then_some(Value::Number(whole as i64))
        }
        other => plain(other),
    }
}

/// Converts a value of the interpreter that is no fraction.
fn plain(value: &CelValue) -> Option<Value<'static>> {
    match value {
        CelValue::String(text) => Some(Value::from(text.as_str().to_owned())),
        CelValue::Int(number) => Some(Value::Number(*number)),
        CelValue::UInt(number) => i64::try_from(*number).ok().map(Value::Number),
        CelValue::Bool(flag) => Some(Value::Flag(*flag)),
        _ => None,
    }
}

fn to_cel(value: Value<'static>) -> CelValue {
    match value {
        Value::Text(text) => CelValue::String(Arc::new(text.into_owned())),
        Value::Number(number) => CelValue::Int(number),
        Value::Flag(flag) => CelValue::Bool(flag),
        Value::Ip(address) => CelValue::String(Arc::new(address.to_string())),
    }
}

fn no_value() -> ExecutionError {
    ExecutionError::function_error("operator", "no value")
}

fn equal(left: &CelValue, right: &CelValue) -> bool {
    match (plain(left), plain(right)) {
        (Some(left), Some(right)) => coercion::equal(&left, &right),
        _ => left == right,
    }
}

fn order(left: &CelValue, right: &CelValue) -> Result<Ordering, ExecutionError> {
    let order = match (plain(left), plain(right)) {
        (Some(left), Some(right)) => coercion::order(&left, &right),
        _ => left.partial_cmp(right),
    };
    order.ok_or_else(no_value)
}

fn arithmetic(
    operator: Arithmetic,
    left: CelValue,
    right: CelValue,
) -> Result<CelValue, ExecutionError> {
    if let (Some(left), Some(right)) = (plain(&left), plain(&right)) {
        return coercion::arithmetic(operator, &left, &right).map(to_cel).ok_or_else(no_value);
    }
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    }
}

/// Returns the greatest or the least of the arguments, or of the list that is the only one.
fn extreme(arguments: &[CelValue], wanted: Ordering) -> Result<CelValue, ExecutionError> {
    let all = match arguments {
        [CelValue::List(list)] => list.as_slice(),
        _ => arguments,
    };
    let (first, rest) = all.split_first().ok_or_else(no_value)?;
    let mut best = first;
    for one in rest {
        if order(one, best)? == wanted {
            best = one;
        }
    }
    Ok(best.clone())
}

fn member(value: &CelValue, list: &CelValue) -> Result<bool, ExecutionError> {
    match list {
        CelValue::List(list) => Ok(list.iter().any(|one| equal(value, one))),
        CelValue::Map(map) => Ok(map.map.keys().any(|key| equal(value, &CelValue::from(key)))),
        _ => Err(no_value()),
    }
}

fn negate(value: &CelValue) -> Result<CelValue, ExecutionError> {
    match value {
        CelValue::Float(fraction) => Ok(CelValue::Float(-fraction)),
        other => plain(other)
            .and_then(|value| coercion::negated(&value))
            .map(to_cel)
            .ok_or_else(no_value),
    }
}

fn truth(value: &CelValue) -> Result<bool, ExecutionError> {
    plain(value).and_then(|value| coercion::truth(&value)).ok_or_else(no_value)
}

fn text(value: &CelValue) -> Result<Arc<String>, ExecutionError> {
    plain(value).map(|value| Arc::new(value.text().into_owned())).ok_or_else(no_value)
}

/// The context every evaluation builds on.
pub(super) fn context() -> &'static Context<'static, 'static> {
    static CONTEXT: LazyLock<Context<'static, 'static>> = LazyLock::new(build);
    &CONTEXT
}

fn build() -> Context<'static, 'static> {
    let mut env = Env::default().with_optional_support(false).with_stdlib();
    let mut failures = vec![env.add_extension(extensions::strings)];
    let mut context = Context::with_env(Arc::new(env));
    let compare = |context: &mut Context<'static, 'static>, name, is: fn(Ordering) -> bool| {
        context
            .add_function(name, move |left: CelValue, right: CelValue| order(&left, &right).map(is))
    };
    let calculate = |context: &mut Context<'static, 'static>, name, operator| {
        context.add_function(name, move |left: CelValue, right: CelValue| {
            arithmetic(operator, left, right)
        })
    };
    let c = &mut context;
    failures.extend([
        c.add_function(EQUAL, |left: CelValue, right: CelValue| equal(&left, &right)),
        c.add_function(UNEQUAL, |left: CelValue, right: CelValue| !equal(&left, &right)),
        compare(c, LESS, Ordering::is_lt),
        compare(c, LESS_OR_EQUAL, Ordering::is_le),
        compare(c, GREATER, Ordering::is_gt),
        compare(c, GREATER_OR_EQUAL, Ordering::is_ge),
        calculate(c, ADD, Arithmetic::Add),
        calculate(c, SUBTRACT, Arithmetic::Subtract),
        calculate(c, MULTIPLY, Arithmetic::Multiply),
        calculate(c, DIVIDE, Arithmetic::Divide),
        calculate(c, REMAINDER, Arithmetic::Remainder),
        c.add_function(NEGATE, |value: CelValue| negate(&value)),
        c.add_function(MEMBER, |value: CelValue, list: CelValue| member(&value, &list)),
        c.add_function(TRUTH, |value: CelValue| truth(&value)),
        c.add_function(TEXT, |value: CelValue| text(&value)),
        c.add_function("max", |Arguments(all): Arguments| extreme(&all, Ordering::Greater)),
        c.add_function("min", |Arguments(all): Arguments| extreme(&all, Ordering::Less)),
    ]);
    // Only a name that is taken can fail, and none of ours is.
    debug_assert!(failures.iter().all(Result::is_ok), "{failures:?}");
    context
}
