//! Encodes any two lists of values as keys: equal keys mean equal values.
//!
//! Each line is a value: `'text`, `#42`, `+` and `-` for true and false, `@203.0.113.7`, `!` for a
//! missing one. In texts `\n` is a line break.

use crate::{Value, encode_key};

/// Encodes any two lists of values as keys: equal keys mean equal values.
pub fn key(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let mut lists = input.split("\n===\n").map(values);
    let (one, other) = (lists.next().unwrap_or_default(), lists.next().unwrap_or_default());
    let keys = [&one, &other].map(|list| encode_key(list));
    for (key, list) in keys.iter().zip([&one, &other]) {
        assert!(!key.contains(['{', '}']), "{key:?}");
        assert!(!key.contains(char::is_control), "{key:?}");
        // A key that can be decoded is not ambiguous.
        assert_eq!(&decoded(key), &texts(list));
    }
    assert_eq!(keys[0] == keys[1], texts(&one) == texts(&other));
}

fn values(lines: &str) -> Vec<Option<Value<'static>>> {
    lines.lines().map(value).collect()
}

fn value(line: &str) -> Option<Value<'static>> {
    let text = |text: &str| Value::from(text.replace("\\n", "\n"));
    let Some(rest) = line.get(1..) else { return Some(text(line)) };
    match line.as_bytes()[0] {
        b'!' => None,
        b'+' => Some(Value::from(true)),
        b'-' => Some(Value::from(false)),
        b'#' => Some(rest.parse::<i64>().map_or_else(|_| text(rest), Value::from)),
        b'@' => Some(rest.parse().map_or_else(|_| text(rest), Value::Ip)),
        b'\'' => Some(text(rest)),
        _ => Some(text(line)),
    }
}

/// Returns the values as text; an IPv4 address within IPv6 is IPv4.
fn texts(list: &[Option<Value<'_>>]) -> Vec<Option<String>> {
    let text = |value: &Value<'_>| match value {
        Value::Ip(address) => address.to_canonical().to_string(),
        value => value.text().into_owned(),
    };
    list.iter().map(|value| value.as_ref().map(text)).collect()
}

fn decoded(key: &str) -> Vec<Option<String>> {
    let part = |part: &str| match part {
        "%-" => None,
        "%." => Some(String::new()),
        part => Some(unescaped(part)),
    };
    if key.is_empty() { Vec::new() } else { key.split('|').map(part).collect() }
}

fn unescaped(part: &str) -> String {
    let mut pieces = part.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (hex, rest) = piece.split_at(2);
        bytes.push(u8::from_str_radix(hex, 16).expect("an escape is two digits"));
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).expect("the decoded value is text")
}
