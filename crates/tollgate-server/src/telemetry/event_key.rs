//! Event keys: domain, rule and key of a decision, encoded as comparable bytes.

use std::borrow::Cow;
use std::fmt::Write;

use smallvec::SmallVec;

/// The maximum length of a key; longer keys are truncated.
const MAX_KEY: usize = 256;
/// The maximum length of the names of domain and rule.
const MAX_NAME: usize = 128;
/// The length of the prefix: whether the key was truncated, and the lengths of both names.
const PREFIX: usize = 3;

/// An encoded event key, usually without an allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct EventKey(SmallVec<[u8; 128]>);

/// The decoded parts of an event key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventKeyParts {
    pub(super) domain: String,
    pub(super) rule: String,
    /// The key, escaped so that it can be shown anywhere.
    pub(super) key: String,
    /// Whether the key was truncated.
    pub(super) cut: bool,
}

impl EventKey {
    pub(super) fn new(domain: &str, rule: &str, key: &[u8]) -> EventKey {
        let name = |name: &str| name.len().min(MAX_NAME);
        let (domain, rule) = (&domain.as_bytes()[..name(domain)], &rule.as_bytes()[..name(rule)]);
        let stored = &key[..key.len().min(MAX_KEY)];
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(&[
            u8::from(stored.len() < key.len()),
            domain.len() as u8,
            rule.len() as u8,
        ]);
        bytes.extend_from_slice(domain);
        bytes.extend_from_slice(rule);
        bytes.extend_from_slice(stored);
        EventKey(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Decodes the bytes of an [`EventKey`].
pub(super) fn decode(bytes: &[u8]) -> EventKeyParts {
    let (prefix, rest) = bytes.split_at(PREFIX.min(bytes.len()));
    let length = |index: usize| prefix.get(index).map_or(0, |length| usize::from(*length));
    let (domain, rest) = rest.split_at(length(1).min(rest.len()));
    let (rule, key) = rest.split_at(length(2).min(rest.len()));
    EventKeyParts {
        domain: printable(domain).into_owned(),
        rule: printable(rule).into_owned(),
        key: printable(key).into_owned(),
        cut: length(0) == 1,
    }
}

/// Returns bytes of a client as text that is safe in a terminal, a log or a page.
///
/// Invalid UTF-8 and control characters become `%XX`. Keys of rules are already printable.
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
    fn a_decoded_key_equals_the_encoded_one() {
        let long = "k".repeat(1000);
        for (domain, rule, key) in
            [("shop", "login", "203.0.113.7"), ("", "", ""), ("a", "", &long)]
        {
            let found = decode(EventKey::new(domain, rule, key.as_bytes()).as_bytes());
            assert_eq!((&*found.domain, &*found.rule), (domain, rule));
            assert_eq!(found.key, key[..key.len().min(MAX_KEY)]);
            assert_eq!(found.cut, key.len() > MAX_KEY);
        }
        assert_eq!(decode(b"").key, "");
    }

    #[test]
    fn control_characters_of_a_client_are_escaped() {
        assert_eq!(printable(b"\x1b[2J\r\nx"), "%1B[2J%0D%0Ax");
        assert_eq!(printable("\u{9b}2J é".as_bytes()), "%C2%9B2J é");
        assert_eq!(printable(b"\xff\xfea"), "%FF%FEa");
    }
}
