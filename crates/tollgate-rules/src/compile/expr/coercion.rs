//! Comparison and arithmetic of values of different kinds, in the tree and in the interpreter.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Spelling;
use crate::Value;

/// The maximum length of a joined text, which keeps requests from multiplying their input.
const MAX_TEXT: usize = 64 * 1024;

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => left == right,
        (Value::Number(number), Value::Text(_)) => right.number() == Some(*number),
        (Value::Text(_), Value::Number(number)) => left.number() == Some(*number),
        (Value::Number(_), _) | (_, Value::Number(_)) => false,
        _ => *Spelling::from_value(left) == *Spelling::from_value(right),
    }
}

/// Compares two values; none if they have no order.
pub(crate) fn order(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Flag(left), Value::Flag(right)) => Some(left.cmp(right)),
        (Value::Flag(_), _) | (_, Value::Flag(_)) => None,
        (Value::Number(_), _) | (_, Value::Number(_)) => Some(left.number()?.cmp(&right.number()?)),
        _ => Some((*Spelling::from_value(left)).cmp(&*Spelling::from_value(right))),
    }
}

/// Calculates; none if a value is no number or there is no result.
pub(crate) fn arithmetic(
    operator: Arithmetic,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Option<Value<'static>> {
    let is_text = |value: &Value<'_>| matches!(value, Value::Text(_) | Value::Ip(_));
    if operator == Arithmetic::Add && is_text(left) && is_text(right) {
        let (left, right) = (Spelling::from_value(left), Spelling::from_value(right));
        let fits = left.len() + right.len() <= MAX_TEXT;
        return fits.then(|| Value::Text(Cow::Owned([&*left, &*right].concat())));
    }
    let (left, right) = (left.number()?, right.number()?);
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => left.checked_rem(right),
    };
    result.map(Value::Number)
}

pub(crate) fn negated(value: &Value<'_>) -> Option<Value<'static>> {
    value.number()?.checked_neg().map(Value::Number)
}

/// Returns the truth of a value used as a condition.
pub(crate) fn truth(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Flag(flag) => Some(*flag),
        Value::Text(text) if text == "true" => Some(true),
        Value::Text(text) if text == "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_compared_with_a_number_as_a_number() {
        let text = |text: &'static str| Value::from(text);
        assert!(equal(&text("007"), &7.into()) && equal(&7.into(), &text(" 7 ")));
        assert!(!equal(&text("007"), &text("7")) && !equal(&text("x"), &7.into()));
        assert_eq!(order(&text("10"), &9.into()), Some(Ordering::Greater));
        assert_eq!(order(&text("10"), &text("9")), Some(Ordering::Less));
        assert_eq!(order(&text("x"), &9.into()), None);
        assert_eq!(arithmetic(Arithmetic::Add, &text("1"), &2.into()), Some(3.into()));
        assert_eq!(arithmetic(Arithmetic::Add, &text("1"), &text("2")), Some("12".into()));
        assert_eq!(arithmetic(Arithmetic::Multiply, &text("3"), &text("2")), Some(6.into()));
    }

    #[test]
    fn overflow_and_division_by_zero_have_no_value() {
        let none = |operator, left: i64, right: i64| {
            assert_eq!(arithmetic(operator, &left.into(), &right.into()), None);
        };
        none(Arithmetic::Divide, 1, 0);
        none(Arithmetic::Divide, i64::MIN, -1);
        none(Arithmetic::Remainder, 1, 0);
        none(Arithmetic::Add, i64::MAX, 1);
        none(Arithmetic::Multiply, i64::MAX, 2);
        assert_eq!(negated(&i64::MIN.into()), None);
        let long = Value::from("x".repeat(MAX_TEXT));
        assert_eq!(arithmetic(Arithmetic::Add, &long, &"x".into()), None);
    }

    #[test]
    fn a_flag_equals_its_word() {
        assert!(equal(&true.into(), &"true".into()) && !equal(&true.into(), &1.into()));
        assert_eq!(truth(&"true".into()), Some(true));
        assert_eq!(truth(&"yes".into()), None);
    }
}
