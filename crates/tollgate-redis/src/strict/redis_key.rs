//! The names of the hashes in Redis, one for each limiter key.
//!
//! A name is `<prefix>:{<tag>}<kind>[<counter>][<rest>]`. The tag decides on the slot. It is the
//! first of the values in the key (up to the first `|`, see `tollgate_rules::encode_key`), so that
//! limits on `org`, on `[org, team]` and on `[org, team, user]` are decided together. The kind says
//! how the tag is written; in capitals it says that 16 hexadecimal digits of a counter follow,
//! which has a hash of its own. The rest is unchanged. Two keys never share a name.

use std::borrow::Cow;
use std::io::Write;

use tollgate::{CounterId, Key};

/// A key, divided into tag and rest.
struct KeyParts<'k> {
    tag: Cow<'k, [u8]>,
    kind: u8,
    rest: &'k [u8],
}

impl<'k> KeyParts<'k> {
    fn new(key: Key<'k>) -> KeyParts<'k> {
        let written =
            |text: String, kind| KeyParts { tag: text.into_bytes().into(), kind, rest: &[] };
        match key {
            Key::Bytes(bytes) => {
                let end = bytes.iter().position(|byte| *byte == b'|').unwrap_or(bytes.len());
                let (tag, rest) = bytes.split_at(end);
                // Redis would take a brace for the end of the tag, and ignore an empty tag.
                match tag.is_empty() || tag.iter().any(|byte| matches!(byte, b'{' | b'}')) {
                    false => KeyParts { tag: tag.into(), kind: b't', rest },
                    true => KeyParts { tag: hexadecimal(tag).into(), kind: b'h', rest },
                }
            }
            Key::Number(number) => written(number.to_string(), b'n'),
            Key::Ip(address) => written(address.to_string(), b'i'),
            other => written(format!("{other:?}"), b'?'),
        }
    }
}

/// Returns the bytes in hexadecimal after a dot, so that the tag of an empty text is not empty.
fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![b'.'];
    for byte in bytes {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the tag of a key, which decides on its route.
pub(crate) fn tag(key: Key<'_>) -> Cow<'_, [u8]> {
    KeyParts::new(key).tag
}

/// Writes the name of a hash: of the key, or of a single counter if it is `apart`.
pub(crate) fn write(prefix: &str, key: Key<'_>, apart: Option<CounterId>, out: &mut Vec<u8>) {
    let KeyParts { tag, kind, rest } = KeyParts::new(key);
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(b":{");
    out.extend_from_slice(&tag);
    out.push(b'}');
    match apart {
        None => out.push(kind),
        Some(counter) => {
            out.push(kind.to_ascii_uppercase());
            // Writing to memory does not fail.
            let _ = write!(out, "{:016x}", counter.number());
        }
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key<'k>(key: impl Into<Key<'k>>) -> String {
        let mut out = Vec::new();
        write("tollgate", key.into(), None, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_readable() {
        assert_eq!(key("acme"), "tollgate:{acme}t");
        assert_eq!(key("acme|eu|ann"), "tollgate:{acme}t|eu|ann");
        assert_eq!(key(42_u64), "tollgate:{42}n");
        assert_eq!(key(std::net::IpAddr::from([1, 2, 3, 4])), "tollgate:{1.2.3.4}i");
    }

    #[test]
    fn a_counter_may_have_its_own_hash() {
        let mut out = Vec::new();
        write("tollgate", "acme|ann".into(), Some(CounterId::new(0xbeef)), &mut out);
        assert_eq!(out, b"tollgate:{acme}T000000000000beef|ann");
    }

    #[test]
    fn no_two_keys_share_a_name() {
        let keys = ["", "{", "}", "{}", "7b", ".7b", "{a}b", "a}b", "|", "||", "a|", "a", "a|b}"];
        let all: std::collections::HashSet<String> = keys.iter().map(|text| key(*text)).collect();
        assert_eq!(all.len(), keys.len());
        // The text that Redis hashes is never empty and never cut short.
        for text in keys {
            let written = key(text);
            let tag = &written[written.find('{').unwrap() + 1..written.find('}').unwrap()];
            assert_eq!(tag.as_bytes(), &*super::tag(text.into()), "{text}");
            assert!(!tag.is_empty());
        }
    }
}
