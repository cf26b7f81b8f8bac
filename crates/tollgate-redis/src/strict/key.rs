//! The key of a hash in Redis, in which the counters of one of our keys are.
//!
//! `<prefix>:{<tag>}<kind>[<bucket>][<rest>]`: the tag, which decides on the slot, is the first of the
//! values the key consists of (up to the first `|`, see `tollgate::rules::encode_key`), so that
//! limits on `org`, on `[org, team]` and on `[org, team, user]` can be decided together. The kind
//! says how the tag is written (and, in capitals, that 16 hexadecimal digits of a bucket follow, whose
//! counter is kept apart); the rest is as it came. Two of our keys never have one key in Redis.

use std::borrow::Cow;
use std::io::Write;

use tollgate::{Bucket, Key};

/// A key as a tag, how the tag is written, and the rest.
struct Parts<'k> {
    tag: Cow<'k, [u8]>,
    kind: u8,
    rest: &'k [u8],
}

impl<'k> Parts<'k> {
    fn of(key: Key<'k>) -> Parts<'k> {
        let written = |text: String, kind| Parts { tag: text.into_bytes().into(), kind, rest: &[] };
        match key {
            Key::Bytes(bytes) => {
                let end = bytes.iter().position(|byte| *byte == b'|').unwrap_or(bytes.len());
                let (tag, rest) = bytes.split_at(end);
                // Redis would take these for the end of the tag, or for none.
                match tag.is_empty() || tag.iter().any(|byte| matches!(byte, b'{' | b'}')) {
                    false => Parts { tag: tag.into(), kind: b't', rest },
                    true => Parts { tag: hexadecimal(tag).into(), kind: b'h', rest },
                }
            }
            Key::Number(number) => written(number.to_string(), b'n'),
            Key::Ip(address) => written(address.to_string(), b'i'),
            other => written(format!("{other:?}"), b'?'),
        }
    }
}

/// The bytes in hexadecimal, after a dot, so that none at all is a tag as well.
fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![b'.'];
    for byte in bytes {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What decides where a key lives.
pub(crate) fn tag(key: Key<'_>) -> Cow<'_, [u8]> {
    Parts::of(key).tag
}

/// Writes the key of the hash; of one for a single bucket, if that is `apart`.
pub(crate) fn write(prefix: &str, key: Key<'_>, apart: Option<Bucket>, out: &mut Vec<u8>) {
    let Parts { tag, kind, rest } = Parts::of(key);
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(b":{");
    out.extend_from_slice(&tag);
    out.push(b'}');
    match apart {
        None => out.push(kind),
        Some(bucket) => {
            out.push(kind.to_ascii_uppercase());
            // Writing to memory does not fail.
            let _ = write!(out, "{:016x}", bucket.number());
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
    fn keys_read_well() {
        assert_eq!(key("acme"), "tollgate:{acme}t");
        assert_eq!(key("acme|eu|ann"), "tollgate:{acme}t|eu|ann");
        assert_eq!(key(42_u64), "tollgate:{42}n");
        assert_eq!(key(std::net::IpAddr::from([1, 2, 3, 4])), "tollgate:{1.2.3.4}i");
    }

    #[test]
    fn a_counter_may_be_apart() {
        let mut out = Vec::new();
        write("tollgate", "acme|ann".into(), Some(Bucket::new(0xbeef)), &mut out);
        assert_eq!(out, b"tollgate:{acme}T000000000000beef|ann");
    }

    #[test]
    fn no_key_can_pose_as_another() {
        let keys = ["", "{", "}", "{}", "7b", ".7b", "{a}b", "a}b", "|", "||", "a|", "a", "a|b}"];
        let all: std::collections::HashSet<String> = keys.iter().map(|text| key(*text)).collect();
        assert_eq!(all.len(), keys.len());
        // What Redis hashes is never empty and never cut short.
        for text in keys {
            let written = key(text);
            let tag = &written[written.find('{').unwrap() + 1..written.find('}').unwrap()];
            assert_eq!(tag.as_bytes(), &*super::tag(text.into()), "{text}");
            assert!(!tag.is_empty());
        }
    }
}
