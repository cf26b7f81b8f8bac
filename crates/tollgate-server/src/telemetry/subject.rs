//! Who a decision was about: a domain, a rule and a key, as bytes that can be compared, kept and
//! taken apart again.

use std::borrow::Cow;
use std::fmt::Write;

use smallvec::SmallVec;

/// What is kept of a key, and of each name.
const LONGEST_KEY: usize = 256;
const LONGEST_NAME: usize = 128;
/// Whether the key was cut, and how long the two names are.
const HEAD: usize = 3;

/// A subject as bytes, most often without memory of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject(SmallVec<[u8; 128]>);

/// A subject taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) domain: String,
    pub(super) rule: String,
    /// Safe to show anywhere.
    pub(super) key: String,
    /// Whether the key was longer than what is kept.
    pub(super) cut: bool,
}

impl Subject {
    pub(super) fn new(domain: &str, rule: &str, key: &[u8]) -> Subject {
        let name = |name: &str| name.len().min(LONGEST_NAME);
        let (domain, rule) = (&domain.as_bytes()[..name(domain)], &rule.as_bytes()[..name(rule)]);
        let kept = &key[..key.len().min(LONGEST_KEY)];
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(&[
            u8::from(kept.len() < key.len()),
            domain.len() as u8,
            rule.len() as u8,
        ]);
        bytes.extend_from_slice(domain);
        bytes.extend_from_slice(rule);
        bytes.extend_from_slice(kept);
        Subject(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Takes apart what [`Subject::new`] put together.
pub(super) fn parts(bytes: &[u8]) -> Parts {
    let (head, rest) = bytes.split_at(HEAD.min(bytes.len()));
    let length = |index: usize| head.get(index).map_or(0, |length| usize::from(*length));
    let (domain, rest) = rest.split_at(length(1).min(rest.len()));
    let (rule, key) = rest.split_at(length(2).min(rest.len()));
    Parts {
        domain: printable(domain).into_owned(),
        rule: printable(rule).into_owned(),
        key: printable(key).into_owned(),
        cut: length(0) == 1,
    }
}

/// Bytes that a client chose, as text that does nothing to a terminal, a log or a page: what is no
/// text, and control characters, as `%XX`. Keys of rules are that already.
pub(super) fn printable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(char::is_control)
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                false => shown.push(character),
                true => {
                    let mut utf8 = [0; 4];
                    escape(&mut shown, character.encode_utf8(&mut utf8).as_bytes());
                }
            }
        }
        escape(&mut shown, chunk.invalid());
    }
    Cow::Owned(shown)
}

fn escape(shown: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to memory does not fail.
        let _ = write!(shown, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_comes_apart_as_it_was_put_together() {
        let long = "k".repeat(1000);
        for (domain, rule, key) in
            [("shop", "login", "203.0.113.7"), ("", "", ""), ("a", "", &long)]
        {
            let found = parts(Subject::new(domain, rule, key.as_bytes()).as_bytes());
            assert_eq!((&*found.domain, &*found.rule), (domain, rule));
            assert_eq!(found.key, key[..key.len().min(LONGEST_KEY)]);
            assert_eq!(found.cut, key.len() > LONGEST_KEY);
        }
        assert_eq!(parts(b"").key, "");
    }

    #[test]
    fn what_a_client_sends_does_nothing_where_it_is_shown() {
        assert_eq!(printable(b"\x1b[2J\r\nx"), "%1B[2J%0D%0Ax");
        assert_eq!(printable("\u{9b}2J é".as_bytes()), "%C2%9B2J é");
        assert_eq!(printable(b"\xff\xfea"), "%FF%FEa");
    }
}
